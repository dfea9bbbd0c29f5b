"""Running a program of another engine, and what it said."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FIRST = ("[ERROR]", "Exception in thread")
ROOT = Path(__file__).parent.parent.parent


@dataclass(frozen=True)
class Missing:
    """A peer that gave no figure."""

    reason: str


def said(command: Sequence[str], seconds: float, folder: Path = ROOT) -> str | Missing:
    """What a program prints on stdout; when it ends, whatever it has started ends too."""
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    except OSError as problem:
        return Missing(str(problem))
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return Missing(f"it was not done after {seconds:g} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return out if process.returncode == 0 else Missing(_reason(out, err))


def _reason(out: str, err: str) -> str:
    """Java and Maven begin with what went wrong, Python ends with it."""
    lines = [line for text in (out, err) for line in text.strip().splitlines()]
    first = next((line for line in lines if line.startswith(FIRST)), None)
    return first or (lines[-1] if lines else "it said nothing")

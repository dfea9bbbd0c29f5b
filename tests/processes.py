"""Who runs under a process: its JVM, and the Python processes beside that."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Processes below another, with their command lines; dead ones are left out."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    below: dict[int, str] = {}
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        below |= {child: _command(child) for child in generation}
    return below


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def jvm(pid: int | None = None) -> int:
    """The JVM of a process, of this one by default."""
    return next(child for child, command in descendants(pid or os.getpid()).items() if "SparkSubmit" in command)


def planners(pid: int | None = None) -> list[int]:
    """The processes that plan micro-batches, one of each standing query."""
    below = descendants(pid or os.getpid())
    return [child for child, command in below.items() if "python_streaming_source_runner" in command]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)

"""Who runs under a process: its JVM, and the Python processes beside that. For Linux."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def descendants(pid: int) -> dict[int, str]:
    """Processes below another, with their command lines; dead ones are left out."""
    parents = _parents()
    below: dict[int, str] = {}
    generation = {pid}
    while generation:
        generation = {child for child, parent in parents.items() if parent in generation}
        below |= {child: _command(child) for child in generation}
    return below


def _parents() -> dict[int, int]:
    """The parent of each process that lives."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    return parents


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


def daemons(pid: int | None = None) -> list[int]:
    """The processes that fork workers, one for each kind of work."""
    below, parents = _forking(pid), _parents()
    return [child for child in below if parents.get(child) not in below]


def workers(pid: int | None = None) -> list[int]:
    """The processes that run tasks, and those that plan what is read once."""
    below, parents = _forking(pid), _parents()
    return [child for child in below if parents.get(child) in below]


def _forking(pid: int | None) -> list[int]:
    return [child for child, command in descendants(pid or os.getpid()).items() if "pyspark.daemon" in command]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether a process has ended, now or within so many seconds."""
    deadline = time.monotonic() + seconds
    while pid in _parents():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True

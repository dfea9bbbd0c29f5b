"""What a peer is told and what it says, as JSON: the argument of its program, and the last line it prints.

This file is read by the Python of each peer's environment, so it needs nothing but the standard library.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

PRIME = 1_000_003


@dataclass(frozen=True)
class Job:
    """A join of the streams a and b, as files in a folder: see `write_files`."""

    folder: str
    rows: int
    """Of both streams together."""
    window_ms: int
    width: float | None = None
    """Of a band |a.x − b.x| ≤ width; None: a.k = b.k."""
    rounds: int = 1
    threads: int = 2

    def file(self, name: str) -> str:
        return str(Path(self.folder) / name)


@dataclass(frozen=True)
class Said:
    """What a peer answers; it is compared before its time counts."""

    seconds: list[float]
    """One for each round."""
    rows: int
    count: int
    checksum: int
    measured: str
    """What the seconds are, in words."""
    version: str


def answer_to(work: Callable[[Job], Said]) -> None:
    """Do the job the program was given, and print what there is to say."""
    said = work(Job(**json.loads(sys.argv[1])))
    print(json.dumps(asdict(said)), flush=True)


def sum_up(path: str | Path) -> tuple[int, int]:
    """Count and checksum of an answer written as CSV; in a folder, of all files. The last two columns are v and w."""
    where = Path(path)
    files = sorted(p for p in where.rglob("*") if p.is_file() and not p.name.startswith((".", "_")))
    count = checksum = 0
    for file in files if where.is_dir() else [where]:
        with open(file) as lines:
            for line in lines:
                a, b = line.rstrip().rsplit(",", 2)[-2:]
                checksum += int(a) * int(b) % PRIME
                count += 1
    return count, checksum

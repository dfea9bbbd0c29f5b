"""A run: rows of a stream that lie in one Parquet file, in blocks that are row groups.

All that is needed to find rows stands in the file's name, as it does for segments of the log.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

_NAME = re.compile("run-" + "-".join(f"([0-9a-f]{{{n}}})" for n in (16, 10, 5, 6, 16, 16)) + r"-\w+\.parquet")
_BIAS = 2**63
_PARTS = 1_000_000
_SLACK = 1e-9


@dataclass(frozen=True, order=True)
class Run:
    """Rows first ≤ n < end of a stream, or the part `rate` of them with the lowest lots, in one file of a table."""

    first: int
    rows: int
    blocks: int
    rate: float
    time_first: int
    time_last: int
    path: str
    size: int = 0
    records: int = 0
    """How many rows the file holds."""

    @property
    def end(self) -> int:
        return self.first + self.rows

    def holds(self, keep: float) -> bool:
        """Whether all rows are there that a reduced read of its range keeps."""
        return self.rate >= 1 or self.rate >= keep - _SLACK


def to_hold(rate: float) -> float:
    """Which part to write so that a copy holds `rate`: 1 − 0.7 is a little more than 0.3, and both ask for it.

    >>> run = Run(0, 1, 1, 0.3, 0, 0, "")
    >>> run.holds(1 - 0.7), run.holds(0.31), to_hold(0.3) > 1 - 0.7
    (True, False, True)
    """
    return rate if rate >= 1 else rate + 2 * _SLACK


def run_name(first: int, rows: int, blocks: int, rate: float, times: tuple[int, int]) -> str:
    """A new name: two attempts to write the same run never meet."""
    low, high = (time + _BIAS for time in times)
    parts = f"{first:016x}-{rows:010x}-{blocks:05x}-{round(rate * _PARTS):06x}-{low:016x}-{high:016x}"
    return f"run-{parts}-{secrets.token_hex(4)}.parquet"


def parse_run(path: str, size: int, records: int) -> Run | None:
    """The run of a file's name; None for a file that is none.

    >>> run = parse_run(run_name(5, 10, 4, 0.25, (-1, 7)), 100, 3)
    >>> run.first, run.end, run.blocks, run.rate, run.time_first, run.time_last
    (5, 15, 4, 0.25, -1, 7)
    """
    match = _NAME.fullmatch(path)
    if match is None:
        return None
    first, rows, blocks, rate, low, high = (int(part, 16) for part in match.groups())
    return Run(first, rows, blocks, rate / _PARTS, low - _BIAS, high - _BIAS, path, size, records)


def in_order(runs: Iterable[Run]) -> list[Run]:
    """The runs by row number, each row once."""
    chosen: list[Run] = []
    for run in sorted(runs, key=lambda r: (r.first, -r.rows)):
        if not chosen or run.first >= chosen[-1].end:
            chosen.append(run)
    return chosen

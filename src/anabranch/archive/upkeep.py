"""What is to be done for an archive, from what is there: which rows to append, which runs to join or let go.

Everything is a `Job`: write rows of the stream as one run of a table. What a job replaces is taken out in
the commit that puts its file in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.archive.runs import Run


@dataclass(frozen=True)
class Job:
    """Write the part `rate` of the rows start ≤ n < end as one run of a table."""

    table: str
    start: int
    end: int
    rate: float = 1.0

    def to_json(self) -> list[Any]:
        return [self.table, self.start, self.end, self.rate]


def to_append(start: int, end: int, run_rows: int, *, all_rows: bool) -> list[tuple[int, int]]:
    """The runs that waiting rows make: whole ones, and with `all_rows` what is left as a small one.

    >>> to_append(0, 25, 10, all_rows=False), to_append(0, 25, 10, all_rows=True)
    ([(0, 10), (10, 20)], [(0, 10), (10, 20), (20, 25)])
    """
    whole = [(low, low + run_rows) for low in range(start, end - run_rows + 1, run_rows)]
    rest = whole[-1][1] if whole else start
    return [*whole, (rest, end)] if all_rows and rest < end else whole


def to_join(runs: Sequence[Run], run_rows: int, least: int) -> list[list[Run]]:
    """Neighbours that are small and make one run together, at least `least` of them.

    Of more than two, a run that is larger than all behind it together waits until these have grown: so a row is
    written again a few times on its way to a whole run, not with every join.

    >>> small = [Run(first, 3, 1, 1.0, 0, 0, "") for first in (0, 3, 6, 9)]
    >>> [[run.first for run in group] for group in to_join(small, 10, 2)]
    [[0, 3, 6]]
    >>> grown = [Run(0, 30, 1, 1.0, 0, 0, ""), *(Run(first, 3, 1, 1.0, 0, 0, "") for first in (30, 33, 36))]
    >>> [[run.first for run in group] for group in to_join(grown, 100, 3)]
    [[30, 33, 36]]
    """
    groups: list[list[Run]] = []
    group: list[Run] = []
    for run in runs:
        if group and (run.first != group[-1].end or sum(r.rows for r in group) + run.rows > run_rows):
            groups.append(group)
            group = []
        if run.rows < run_rows:
            group.append(run)
        else:
            groups.append(group)
            group = []
    groups.append(group)
    groups = [_of_a_size(group) if least > 2 else group for group in groups]
    return [group for group in groups if len(group) >= least]


def _of_a_size(group: list[Run]) -> list[Run]:
    """The runs from the first on that is not larger than all behind it."""
    behind = sum(run.rows for run in group)
    for at, run in enumerate(group):
        behind -= run.rows
        if run.rows <= behind:
            return group[at:]
    return []


def to_let_go(runs: Iterable[Run], newest: int, keep_us: int | None) -> list[Run]:
    """The runs whose newest row is older than what is kept."""
    return [] if keep_us is None else [run for run in runs if run.time_last < newest - keep_us]

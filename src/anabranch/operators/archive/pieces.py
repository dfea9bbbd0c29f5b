"""Scans of history: which rows, in which pieces and tasks, and how much of each piece is read.

A scan goes piece by piece, in the order of the rows. Before each piece its reducer says how much of it may be left
out. One that is `stateless` is asked for all pieces at once, so that they can be shared out among tasks; any other is
asked in the one task there is, as the scan goes on, and told what was read so far.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from anabranch.archive.facts import Aside
from anabranch.archive.reducers import Spec, reducer_of
from anabranch.archive.reduction import Reducer, Seen, keep_of
from anabranch.operators.base import HistoryLog, Offset, Piece, Task, Work

BYTES_PER_TASK = 1 << 20
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_READ = 1 << 22
"""A run that is read in slices is read again for each, where its rows are not in order."""

_ROWS_TOGETHER = 1 << 18
"""Rows of several pieces that are read at once."""


class Portion(NamedTuple):
    """A piece, and the part of it to read; None: the reducer will say."""

    piece: Piece
    keep: float | None


class Sample(NamedTuple):
    """What was read of the rows start ≤ n < end."""

    start: int
    end: int
    keep: float
    rows: pa.Table
    aside: Aside | None = None
    """Rows that lie far out, whichever are kept."""


@dataclass(frozen=True)
class HistoryScan:
    """A read of part of a stream's history: the rows from `since` to before `until` (µs).

    `keep` is the part of them that is read, `by` a column whose values are kept whole; a `reducer` says both itself.
    About `least` rows of each piece are read, whatever it says, and where an estimate is wanted all that lie far out.
    """

    since: int | None
    until: int | None
    columns: list[str]
    reducer: Spec | None = None
    keep: float = 1.0
    by: str | None = None
    least: int = 0
    estimates: bool = False

    def plan(self, stream: str, start: Offset, end: Offset, log: HistoryLog, tasks: int) -> list[Task]:
        """At most so many tasks, about equally large; none if there is no row."""
        low = start.row if self.since is None else max(log.row_at_time(self.since, end.row), start.row)
        high = end.row if self.until is None else min(log.row_at_time(self.until, end.row), end.row)
        reducer = None if self.reducer is None else reducer_of(self.reducer)
        by = self.by if reducer is None else reducer.by
        known = reducer is None or reducer.stateless
        low = max(low, log.first_row())
        pieces = log.pieces(low, high) if low < high else []
        portions = [Portion(p, self._keep(reducer, p, Seen(*p[2:], end.time)) if known else None) for p in pieces]
        shares = shared_out(log, portions, self.columns, by, tasks) if known else [portions] if portions else []
        return [
            Task(
                {stream: Offset(share[0].piece.first, start.time)},
                {stream: Offset(share[-1].piece.end, end.time)},
                {"portions": [(*portion.piece, portion.keep) for portion in share]},
            )
            for share in shares
        ]

    def bytes_to_read(self, log: HistoryLog, end: int) -> int:
        """About how many bytes the scan touches."""
        reducer = None if self.reducer is None else reducer_of(self.reducer)
        by = self.by if reducer is None else reducer.by
        total = 0
        for piece in log.pieces(log.first_row(), end):
            if (self.since is None or piece.time_last >= self.since) and (
                self.until is None or piece.time_first < self.until
            ):
                stateless = reducer is None or reducer.stateless
                keep = self._keep(reducer, piece, Seen(*piece[2:], piece.time_last)) if stateless else 1.0
                total += log.sample_bytes(piece.first, piece.end, self.columns, keep, by)
        return total

    def samples(self, task: Task, newest: int, log: HistoryLog, work: Work) -> Iterator[Sample]:
        """What a task reads, in order, in slices that fit into memory."""
        reducer = None if self.reducer is None else reducer_of(self.reducer)
        by = self.by if reducer is None else reducer.by
        needs_rows = reducer is not None and reducer.needs_rows
        rows_read, bytes_read = 0, 0
        just_read: list[pa.Table] = []
        portions = portions_of(task)
        for piece, keep in portions if needs_rows else _joined(portions):
            if keep is None:
                rows = pa.concat_tables(just_read) if just_read else None
                keep = self._keep(reducer, piece, Seen(*piece[2:], newest, rows_read, bytes_read, rows=rows))
            just_read = []
            for low, high in _slices(piece, keep):
                table = log.read_sample(low, high, self.columns, keep, by)
                rows_read += table.num_rows
                bytes_read += table.nbytes
                work.rows_read += table.num_rows
                work.bytes_read += table.nbytes
                if needs_rows:
                    just_read.append(table)
                aside = log.aside(low, high, self.columns, keep, by) if self.estimates else None
                yield Sample(low, high, keep, table, aside)

    def _keep(self, reducer: Reducer | None, piece: Piece, seen: Seen) -> float:
        if reducer is None:
            return self.keep
        return min(max(keep_of(reducer, seen), self.least / max(piece.end - piece.first, 1)), 1.0)


def portions_of(task: Task) -> list[Portion]:
    """The portions that a task was planned with."""
    return [Portion(Piece(*numbers[:4]), numbers[4]) for numbers in task.detail["portions"]]


def _joined(portions: Iterable[Portion]) -> Iterator[Portion]:
    """Small portions of the same part, one after the other, as one: what is done for each is done less often."""
    joined: Portion | None = None
    for portion in portions:
        if joined is not None:
            (before, part), (piece, keep) = joined, portion
            follows = keep == part and before.end == piece.first
            if follows and keep is not None and (piece.end - before.first) * keep <= _ROWS_TOGETHER:
                joined = Portion(before._replace(end=piece.end, time_last=piece.time_last), keep)
                continue
            yield joined
        joined = portion
    if joined is not None:
        yield joined


def shared_out(
    log: HistoryLog, portions: Sequence[Portion], columns: list[str], by: str | None, tasks: int
) -> list[list[Portion]]:
    """Portions in at most so many runs, about equally many bytes each."""
    sized = [(portion, _bytes(log, portion, columns, by)) for portion in portions]
    total = sum(size for _, size in sized)
    tasks = max(1, min(tasks, total // BYTES_PER_TASK))
    sized = [cut for portion, size in sized for cut in _cut(log, portion, size, columns, by, total / tasks)]
    total = sum(size for _, size in sized)
    shares: list[list[Portion]] = [[] for _ in range(tasks)]
    before = 0
    for portion, size in sized:
        # To the task in whose share the middle of the portion lies.
        shares[min(int((before + size / 2) * tasks / max(total, 1)), tasks - 1)].append(portion)
        before += size
    return [share for share in shares if share]


def _cut(
    log: HistoryLog, portion: Portion, size: int, columns: list[str], by: str | None, share: float
) -> Iterable[tuple[Portion, int]]:
    """A portion larger than a task's share in several, unless each would have to touch all of its bytes."""
    piece, keep = portion
    parts = min(round(size / max(share, 1)), piece.end - piece.first)
    if parts > 1:
        rows = piece.end - piece.first
        edges = [piece.first + rows * i // parts for i in range(parts + 1)]
        cuts = [Portion(piece._replace(first=a, end=b), keep) for a, b in itertools.pairwise(edges)]
        sizes = [_bytes(log, cut, columns, by) for cut in cuts]
        if sum(sizes) <= 1.2 * size:
            return list(zip(cuts, sizes, strict=True))
    return [(portion, size)]


def _bytes(log: HistoryLog, portion: Portion, columns: list[str], by: str | None) -> int:
    piece, keep = portion
    return max(log.sample_bytes(piece.first, piece.end, columns, 1.0 if keep is None else keep, by), 1)


def _slices(piece: Piece, keep: float) -> Iterator[tuple[int, int]]:
    rows = piece.end - piece.first
    count = max(round(rows * keep / _ROWS_PER_READ), 1)
    for i in range(count):
        yield piece.first + rows * i // count, piece.first + rows * (i + 1) // count


def told(reducer: Spec | None) -> dict[str, Any] | None:
    """A reducer for EXPLAIN."""
    return None if reducer is None else {"name": reducer[0], "arguments": list(reducer[1])}

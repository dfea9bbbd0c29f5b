"""A join that has less memory than its windows need, and becomes an approximate one.

Every new row is still joined with the rows that are kept, but not every row is kept for those to
come (S. Babu and J. Widom, 2001, §5.3.1). Whether a row is kept follows from the log alone, never
from batches, so the answer can be computed again. With each result goes its estimated completeness:
which share of the results like it is found.

- `random`: each row of a window of n is kept with probability room / n.
- `oldest`: the newest rows are kept, as many as there is room for.
- `matches`: rows whose key was frequent among the other sources are kept first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes, hashes_of_rows
from anabranch.kernels.values import frozen
from anabranch.operators.columns import Bound
from anabranch.operators.join.partials import PartialResults
from anabranch.operators.join.program import JoinProgram
from anabranch.operators.join.rows import SourceRows
from anabranch.windows.index.chains import BYTES_PER_ROW

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BUCKETS = 4_096


@dataclass(frozen=True)
class Policy:
    """How many bytes the windows may take, and which rows go first."""

    memory: int
    shed: Literal["random", "oldest", "matches"]


class Shedder:
    """A policy at work on the sources of a join."""

    def __init__(self, policy: Policy, program: JoinProgram, sources: Sequence[SourceRows], end: list[int]) -> None:
        self.policy = policy
        self.rows_kept = max(policy.memory // BYTES_PER_ROW // program.count, 1)
        self._sources = sources
        keys = program.shared_key()
        if policy.shed == "matches" and keys is None:
            raise QueryError(
                "SHED_NEEDS_A_KEY",
                "rows can be kept by the matches of their key only if one key is equal in all streams",
                hint="use shed = 'random' or 'oldest'",
            )
        spans = [max(program.most[i][j] for j in range(program.count) if j != i) for i in range(program.count)]
        self._shares = [_SourceShare(self, i, max(spans[i], 1), end[i]) for i in range(program.count)]
        self.keys = keys
        if policy.shed != "oldest":
            for source, share in zip(sources, self._shares, strict=True):
                source.shed = share
        self._end = end

    def completeness(self, partials: PartialResults) -> Floats:
        """The share of results that are found: all rows but the last one must have been kept."""
        complete = np.ones(len(partials))
        for i, rows in partials.rows.items():
            if i != partials.drivers.source:
                complete *= self._shares[i].completeness(rows, partials.times[i])
        return complete


class _SourceShare:
    """Which rows of one source are kept."""

    def __init__(self, whole: Shedder, source: int, span: int, end: int) -> None:
        self._whole = whole
        self._source = source
        self._span = span
        self._end = end
        self._known: dict[int, _Plan] = {}

    @property
    def name(self) -> str:
        """Different where other rows are kept: indices are shared by joins that keep the same rows."""
        return f"shed {self._whole.policy.shed} to {self._whole.rows_kept} for {self._span}{self._learns_from}"

    @property
    def _learns_from(self) -> str:
        if not self._by_matches or self._whole.keys is None:
            return ""
        sources = zip(self._whole._sources, self._whole.keys, strict=True)
        return f" from {self._source} of {[(source.filtered, side.value.sql) for source, side in sources]}"

    @property
    def columns(self) -> Sequence[str]:
        return self._key.columns if self._by_matches else ()

    @property
    def _by_matches(self) -> bool:
        return self._whole.policy.shed == "matches"

    @property
    def _key(self) -> Bound:
        assert self._whole.keys is not None
        return self._whole.keys[self._source].value

    def keeps(self, rows: Ints, times: Ints, table: pa.Table) -> NDArray[np.bool_]:
        if self._by_matches:
            buckets = _buckets(self._key.evaluate(table), table.num_rows)
            probability = np.ones(len(rows))
            for plan, here in self._plans(times):
                probability[here] = plan.shares[buckets[here]] * self._fitting(rows[here], times[here], plan.share)
        else:
            probability = self._fitting(rows, times)
        drawn = hashes(pa.array(rows)).astype(np.float64) / 2.0**64
        kept: NDArray[np.bool_] = drawn < probability
        return kept

    def completeness(self, rows: Ints, times: Ints) -> Floats:
        """The share of matches that the kept rows have."""
        if not self._by_matches:
            return self._fitting(rows, times)
        complete = np.ones(len(rows))
        for plan, here in self._plans(times):
            complete[here] = plan.completeness * self._fitting(rows[here], times[here], plan.share)
        return complete

    def _fitting(self, rows: Ints, times: Ints, share: float = 1.0) -> Floats:
        """How much of what a plan keeps, which is a share of all rows, there is room for in the window of each row."""
        first = self._whole._sources[self._source].first_at(frozen(times), -self._span, self._end)
        planned = np.maximum(rows - first + 1, 1) * share
        fitting: Floats = np.minimum(1.0, self._whole.rows_kept / np.maximum(planned, 1e-9))
        return fitting

    def _plans(self, times: Ints) -> Iterator[tuple[_Plan, NDArray[np.bool_]]]:
        """The plan of each span of time, and which of the times are in it."""
        spans = times // self._span
        for span in np.unique(spans):
            yield self._plan(int(span)), spans == span

    def _plan(self, span: int) -> _Plan:
        """Which keys to keep is learnt from the span of time before this one; what that is worth from the one before.

        The keys that came most often in a span owe it in part to chance, so that span would promise too much.
        """
        if span not in self._known:
            if len(self._known) > 64:
                self._known.clear()
            (own, others), (own_before, others_before) = self._came(span - 1), self._came(span - 2)
            self._known[span] = _planned(own, others, own_before * others_before, self._whole.rows_kept)
        return self._known[span]

    def _came(self, span: int) -> tuple[Floats, Floats]:
        """By bucket of keys how many rows came in a span, and how many of the other sources each could meet."""
        counts = [self._counted(i, span) for i in range(len(self._whole._sources))]
        others = np.prod([count for i, count in enumerate(counts) if i != self._source], axis=0)
        return counts[self._source], others

    def _counted(self, source: int, span: int) -> Floats:
        rows, end = self._whole._sources[source], self._whole._end[source]
        low, high = rows.row_at(span * self._span, end), rows.row_at((span + 1) * self._span, end)
        assert self._whole.keys is not None
        key = self._whole.keys[source].value
        kept = rows.kept(low, high, list(key.columns), all_parts=True)
        return np.bincount(_buckets(key.evaluate(kept.table), len(kept.rows)), minlength=_BUCKETS).astype(np.float64)


def _buckets(column: pa.ChunkedArray | pa.Array, length: int) -> Ints:
    return (hashes_of_rows([column], length) % np.uint64(_BUCKETS)).astype(np.int64)


class _Plan(NamedTuple):
    """By bucket of keys the share of rows to keep, the share of all rows that is, and of the matches that they have."""

    shares: Floats
    share: float
    completeness: float


def _planned(own: Floats, matches: Floats, pairs: Floats, room: int) -> _Plan:
    """Spend the room on the buckets with the most expected matches; `pairs` are those of another time."""
    total = own.sum()
    if total <= room:
        return _Plan(np.ones(len(own)), 1.0, 1.0)
    order = np.argsort(-matches, kind="stable")
    cost = np.maximum(own[order], 1)  # a key that did not come before may come now
    before = np.cumsum(cost) - cost
    shares = np.empty(len(own))
    shares[order] = np.clip((room - before) / cost, 0.0, 1.0)
    share = float(own @ shares / total)
    planned = float(pairs @ shares / pairs.sum()) if pairs.sum() else share
    # Keys that come and go make the past a bad guide; rows drawn at random would still find their part.
    return _Plan(shares, share, max(planned, room / float(total)))

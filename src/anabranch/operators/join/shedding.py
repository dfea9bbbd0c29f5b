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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes, hashes_of_rows
from anabranch.kernels.values import frozen
from anabranch.operators.columns import Bound
from anabranch.operators.join.partials import Partials
from anabranch.operators.join.program import JoinProgram
from anabranch.operators.join.rows import SourceRows
from anabranch.windows.chain_index import BYTES_PER_ROW

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BUCKETS = 4_096


@dataclass(frozen=True)
class Policy:
    """How many bytes the windows may take, and which rows go first."""

    memory: int
    shed: Literal["random", "oldest", "matches"]


class Shedding:
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

    def completeness(self, partials: Partials) -> Floats:
        """The share of results that are found: all rows but the last one must have been kept."""
        found = np.ones(len(partials))
        for i, rows in partials.rows.items():
            if i != partials.drivers.source:
                found *= self._shares[i].completeness(rows, partials.times[i])
        return found


class _SourceShare:
    """Which rows of one source are kept."""

    def __init__(self, whole: Shedding, source: int, span: int, end: int) -> None:
        self._whole = whole
        self._source = source
        self._span = span
        self._end = end
        self._tables: dict[int, tuple[Floats, float]] = {}

    @property
    def name(self) -> str:
        return f"shed {self._whole.policy} for {self._span}"

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
        probability = self._of_keys(times, table) if self._by_matches else self._of_windows(rows, times)
        drawn = hashes(pa.array(rows)).astype(np.float64) / 2.0**64
        kept: NDArray[np.bool_] = drawn < probability
        return kept

    def completeness(self, rows: Ints, times: Ints) -> Floats:
        """The share of matches that the kept rows have."""
        if not self._by_matches:
            return self._of_windows(rows, times)
        spans, places = np.unique(times // self._span, return_inverse=True)
        found: Floats = np.array([self._table(int(span))[1] for span in spans])[places]
        return found

    def _of_windows(self, rows: Ints, times: Ints) -> Floats:
        """Room by the rows that are in the window of each row."""
        first = self._whole._sources[self._source].first_at(frozen(times), -self._span, self._end)
        found: Floats = np.minimum(1.0, self._whole.rows_kept / np.maximum(rows - first + 1, 1))
        return found

    def _of_keys(self, times: Ints, table: pa.Table) -> Floats:
        buckets = _buckets(self._key.evaluate(table), table.num_rows)
        found = np.ones(len(times))
        spans = times // self._span
        for span in np.unique(spans):
            here = spans == span
            found[here] = self._table(int(span))[0][buckets[here]]
        return found

    def _table(self, span: int) -> tuple[Floats, float]:
        """By bucket of keys the probability to keep, most matches first; and the share of matches that are kept.

        Expected from how often keys came in the span of time before this one.
        """
        if span not in self._tables:
            if len(self._tables) > 64:
                self._tables.clear()
            counts = [self._counted(i, span - 1) for i in range(len(self._whole._sources))]
            own = counts[self._source]
            others = np.prod([each for i, each in enumerate(counts) if i != self._source], axis=0)
            shares, pairs = _filled(own, others, self._whole.rows_kept), own * others
            self._tables[span] = (shares, float(pairs @ shares / pairs.sum()) if pairs.sum() else float(shares.mean()))
        return self._tables[span]

    def _counted(self, source: int, span: int) -> Floats:
        rows, end = self._whole._sources[source], self._whole._end[source]
        low, high = rows.row_at(span * self._span, end), rows.row_at((span + 1) * self._span, end)
        assert self._whole.keys is not None
        key = self._whole.keys[source].value
        kept = rows.kept(low, high, list(key.columns), all_parts=True)
        return np.bincount(_buckets(key.evaluate(kept.table), len(kept.rows)), minlength=_BUCKETS).astype(np.float64)


def _buckets(column: pa.ChunkedArray | pa.Array, length: int) -> Ints:
    return (hashes_of_rows([column], length) % np.uint64(_BUCKETS)).astype(np.int64)


def _filled(own: Floats, matches: Floats, room: int) -> Floats:
    """Probabilities that spend the room on the buckets with the most expected matches."""
    if own.sum() <= room:
        return np.ones(len(own))
    order = np.argsort(-matches, kind="stable")
    before = np.cumsum(own[order]) - own[order]
    shares = np.clip((room - before) / np.maximum(own[order], 1), 0.0, 1.0)
    found = np.empty(len(own))
    found[order] = shares
    return found

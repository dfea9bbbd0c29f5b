"""The rows of one side that meet none of the other: what outer and anti joins add, and semi joins leave out.

Where keys alone decide, it is enough to know how many rows of the other side each key has. Where a condition decides,
too, it is kept for each row how many it meets, so that a row of the other side is compared with what it may meet, and
not with what these meet besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import integers, one_array
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.gathered import Gathered
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.steps.meeting import Meeting, Side
from anabranch.operators.tree.steps.touched import Touched, touched

Counts = NDArray[np.int64]
Flags = NDArray[np.int64]


class Lonely(Protocol):
    """How the rows that meet none, or with `any` those that meet some, have changed."""

    def after(self, mine: Changes, others: Changes) -> Changes:
        """The change for changes of both sides, which these have taken in already; but for NOT IN no key has a NULL."""
        ...

    def kept(self) -> Mapping[str, Arrangement]: ...


class LonelyByKey:
    """Keys decide. `not_in`: a NULL among the others, or beside them, leaves it open whether a key is one of them."""

    def __init__(self, mine: Side, other: Side, *, any: bool, not_in: bool = False) -> None:
        self._mine = mine
        self._other = other
        self._any = any
        self._not_in = not_in
        fields = [pa.field(f"key {i}", mine.schema.field(name).type) for i, name in enumerate(mine.key)]
        counted = pa.field("rows", pa.int64())
        self._counts = Replaced(pa.schema([*fields, counted]), [field.name for field in fields])
        self._total = Replaced(pa.schema([counted]), [])

    def after(self, mine: Changes, others: Changes) -> Changes:
        if not len(mine) and not len(others):
            return mine
        ours, theirs = self._mine.keys(mine.gathered), self._other.keys(others.gathered)
        nothing = [pa.nulls(int(self._not_in), key.type) for key in ours]
        all_keys = [pa.concat_arrays(each) for each in zip(ours, theirs, nothing, strict=True)]
        length = len(mine) + len(others) + int(self._not_in)
        keys = touched(all_keys, length)
        come = np.concatenate([np.zeros(len(mine), np.int64), others.weights, np.zeros(int(self._not_in), np.int64)])
        before = self._known(keys)
        after = before + keys.sums(come)
        kept = pa.Table.from_arrays([*keys.keys, pa.array(after)], schema=self._counts.schema)
        changed = before != after
        if changed.any():
            at = pa.array(np.flatnonzero(changed))
            self._counts.put(kept.take(at), keys.codes[changed], (after != 0)[changed])
        was, now = self._there(keys, before, after, int(others.weights.sum()))
        of_mine = keys.of_row[: len(mine)]
        parts = [Changes(mine.gathered, mine.weights * was[of_mine])]
        turned = np.flatnonzero(was != now)
        if len(turned):
            at = pa.array(turned)
            rows, of = self._mine.keyed.found([key.take(at) for key in keys.keys], len(turned))
            parts.append(Changes(rows.gathered, rows.weights * (now - was)[turned][of]))
        if self._nulls_turned(keys, before, after):
            parts.append(self._all_turned(keys, after))
        change = together(parts, self._mine.schema)
        return change.filter(change.weights != 0)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"counts": self._counts, "total": self._total} if self._not_in else {"counts": self._counts}

    def _known(self, keys: Touched) -> Counts:
        counts = np.zeros(len(keys), np.int64)
        latest, of = self._counts.latest(keys.keys, keys.codes)
        counts[of] = integers(latest.column(-1 + latest.num_columns))
        return counts

    def _there(self, keys: Touched, before: Counts, after: Counts, more: int) -> tuple[Flags, Flags]:
        """Whether the rows of each key are in the answer, before and now."""
        alone = [before == 0, after == 0]
        if self._not_in:
            latest, _ = self._total.latest([], np.zeros(1, np.uint64))
            total = int(integers(latest.column(0)).sum())
            one = pa.table({"rows": [total + more]})
            self._total.put(one, np.zeros(1, np.uint64), np.array([total + more != 0]))
            null = self._null(keys)
            for each, counts, all_rows in zip(alone, (before, after), (total, total + more), strict=True):
                each &= counts[null] == 0
                each[null] = all_rows == 0
        was, now = (each != self._any for each in alone)
        return was.astype(np.int64), now.astype(np.int64)

    def _null(self, keys: Touched) -> int:
        """The number of the key that is NULL, which is always among those that were touched, as the last row's."""
        return int(keys.of_row[-1])

    def _nulls_turned(self, keys: Touched, before: Counts, after: Counts) -> bool:
        if not self._not_in:
            return False
        null = self._null(keys)
        return bool((before[null] == 0) != (after[null] == 0))

    def _all_turned(self, keys: Touched, after: Counts) -> Changes:
        """The rows of keys that were not touched, once the first NULL came or the last one went.

        Those that are not among the others are in the answer if there is no NULL, and else none is.
        """
        rows = self._mine.keyed.all()
        columns = [*keys.keys, *self._mine.keys(rows.gathered)]
        both = touched([pa.concat_arrays(columns)], len(keys) + len(rows))
        seen = np.zeros(len(both), np.bool_)
        seen[both.of_row[: len(keys)]] = True
        alone = self._known(both) == 0
        turned = (alone & ~seen)[both.of_row[len(keys) :]]
        sign = -1 if after[self._null(keys)] else 1
        return Changes(rows.rows, rows.weights * np.where(turned, sign, 0))


class LonelyByRow:
    """A condition decides, or keys of several columns with NULLs."""

    def __init__(self, mine: Side, other: Side, meeting: Meeting, *, any: bool, left: bool) -> None:
        self._mine = mine
        self._other = other
        self._meeting = meeting
        self._any = any
        self._left = left
        fields = [pa.field(f"column {i}", field.type) for i, field in enumerate(mine.schema)]
        counts = [pa.field("weight", pa.int64()), pa.field("meets", pa.int64())]
        self._known = Replaced(pa.schema([*fields, *counts]), [field.name for field in fields])

    def after(self, mine: Changes, others: Changes) -> Changes:
        met, more = self._met_by(others)
        both = pa.concat_tables([mine.rows, met])
        if not both.num_rows:
            return mine
        rows = touched(both.columns, both.num_rows)
        mine_of, met_of = rows.of_row[: len(mine)], rows.of_row[len(mine) :]
        size = len(rows)
        weight, meets, known = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_)
        latest, of = self._known.latest(rows.keys, rows.codes)
        weight[of], meets[of], known[of] = integers(latest.column("weight")), integers(latest.column("meets")), True
        table = pa.Table.from_arrays(rows.keys, schema=self._mine.schema)
        now, meets_now = weight.copy(), meets.copy()
        np.add.at(now, mine_of, mine.weights)
        meets_now[met_of] += more
        new = np.flatnonzero(~known & (now != 0))
        meets_now[new] = self._meeting.counts(Gathered.of(table).take(new), self._mine, self._other, left=self._left)
        columns = [*rows.keys, pa.array(now), pa.array(meets_now)]
        self._known.put(pa.Table.from_arrays(columns, schema=self._known.schema), rows.codes, now != 0)
        change = now * ((meets_now == 0) != self._any) - weight * ((meets == 0) != self._any)
        return Changes(table, change).filter(change != 0)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"rows": self._known}

    def _met_by(self, others: Changes) -> tuple[pa.Table, Counts]:
        """The rows of this side that the changes of the other one meet, and how many more each of them meets."""
        came = Side(self._other.schema, self._other.key, loose=self._other.loose is not None)
        came.take_in(others)
        parts: list[Changes] = []
        if came.keyed.entries:
            some = came.keyed.all().gathered
            keys = touched(came.keys(some), len(some))
            parts.append(self._mine.keyed.found(keys.keys, len(keys)).changes)
        if self._mine.loose is not None and len(others):
            assert came.loose is not None
            if came.loose.entries:
                parts = [self._mine.keyed.all()]
            parts.append(self._mine.loose.all())
        rows = together(parts, self._mine.schema).rows
        more = self._meeting.counts(Gathered.of(rows), self._mine, came, left=self._left)
        changed = np.flatnonzero(more)
        return rows.take(pa.array(changed)), more[changed]


def with_nulls(rows: Changes, schema: pa.Schema, *, left: bool) -> Changes:
    """Rows of one side as those of a join, with NULLs in the place of the other."""
    count = len(schema) - rows.rows.num_columns
    others = schema.types[-count:] if left else schema.types[:count]
    nulls = [pa.nulls(len(rows), type_) for type_ in others] if count else []
    ours = [one_array(column) for column in rows.rows.columns]
    return rows.with_rows(pa.Table.from_arrays([*ours, *nulls] if left else [*nulls, *ours], schema=schema))

"""One merge of two streams, over all that is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.merge import (
    ALL,
    CONTROLS,
    FIRST,
    LAST,
    NEAREST,
    REACHED,
    SIZE,
    STEP,
    Known,
    Side,
    Terms,
    Waiting,
    merge_groups,
    next_due_of_groups,
)
from anabranch.kernels.values import Column, valid
from anabranch.log.offset import MIN_TIME
from anabranch.operators.merge.completeness import KeySample, cell_width, counts_of, group_numbers
from anabranch.operators.merge.keys import EqualColumns, Key, Keyed, Numbers, tolerances
from anabranch.operators.merge.records import Flags, Ints, Records

POLICIES = {"first": FIRST, "nearest": NEAREST, "all": ALL}
BYTES_PER_RECORD = 128
"""What a waiting record is counted as when windows may grow."""


@dataclass(frozen=True)
class Rules:
    """How two streams are merged."""

    keys: tuple[Key, ...]
    by: tuple[EqualColumns, ...]
    join: Literal["inner", "left", "full", "anti"]
    policy: int
    window: int
    step: int
    every: int
    delta: float
    over: int
    largest: int
    wait: int = 0
    """After how long (µs) a record leaves its window; 0: only when others need the room."""

    @property
    def widths(self) -> NDArray[np.float64]:
        """The tolerances as doubles."""
        return np.array([key.width for key in self.keys])

    def terms(self, *, as_doubles: bool) -> Terms:
        """As the kernel wants them."""
        return Terms(
            tolerance=tolerances(self.keys, as_doubles=as_doubles),
            policy=self.policy,
            every=self.every,
            wait=self.wait,
            wants_a=self.join != "inner",
            wants_b=self.join == "full",
            delta=self.delta,
            largest=self.largest,
            smallest_step=max(1, self.step // 64),
        )


@dataclass
class MergeGroups:
    """What is kept of each value of the equal columns: numbers of its rounds, see `kernels.merge`."""

    keys: list[Column]
    control: Ints
    rings: Ints
    gone: Ints
    """The sums of those that have nothing waiting and were let go, and the time they reached."""

    @staticmethod
    def none(rules: Rules) -> MergeGroups:
        keys: list[Column] = [pa.array([], equal.type) for equal in rules.by]
        gone = np.zeros(CONTROLS, np.int64)
        gone[REACHED] = MIN_TIME
        return MergeGroups(keys, np.empty((0, CONTROLS), np.int64), np.empty((0, rules.over, 3), np.int64), gone)

    def only(self, kept: Flags) -> MergeGroups:
        """Some of the groups; the others are not counted."""
        keys = [column.filter(pa.array(kept)) for column in self.keys]
        return MergeGroups(keys, self.control[kept], self.rings[kept], self.gone)

    def without_idle(self, waiting: Flags) -> MergeGroups:
        """The groups that have something waiting, with the sums of all."""
        idle = self.control[~waiting]
        gone = self.gone + idle.sum(axis=0)
        gone[REACHED] = idle[:, REACHED].max(initial=self.gone[REACHED])
        return replace(self.only(waiting), gone=gone)

    @property
    def totals(self) -> Ints:
        """Sums over all groups there were, of the numbers that are sums."""
        totals: Ints = self.control.sum(axis=0) + self.gone
        return totals


@dataclass(frozen=True)
class MergeAnswers:
    """What came out: places in the lists of records (-1: no partner), and the time of the round."""

    left: Ints
    right: Ints
    times: Ints
    kinds: Ints

    def __len__(self) -> int:
        return len(self.times)

    def at(self, places: Ints | slice) -> MergeAnswers:
        return MergeAnswers(self.left[places], self.right[places], self.times[places], self.kinds[places])

    def shown(self, latest: int) -> MergeAnswers:
        """What came out because the streams had ended, with the latest time there was before."""
        return replace(self, times=np.where(self.times >= LAST, latest, self.times))


@dataclass
class WaitingRecords:
    """What a step keeps: the records of both sides, and its groups."""

    left: Records
    right: Records
    groups: MergeGroups
    sample: KeySample


@dataclass(frozen=True)
class Merged:
    """The answers of a step, with the records they are places in."""

    answers: MergeAnswers
    left: Records
    right: Records

    def in_one_piece(self) -> Merged:
        """Records whose columns are not in several pieces, each of which taking some would put together anew."""
        left, right = (replace(side, table=side.table.combine_chunks()) for side in (self.left, self.right))
        return replace(self, left=left, right=right)


def run_step(
    rules: Rules, waiting: WaitingRecords, left: Records, right: Records, known: Known, *, sampled: bool = True
) -> tuple[Merged, WaitingRecords]:
    """Merge what waits and what is new, up to a time; gives what came out and what waits then.

    Where the streams have ended, answers may have a time that is none: from `LAST` on.
    """
    left, right = waiting.left.followed_by(left), waiting.right.followed_by(right)
    keyed_a, keyed_b = Keyed.of(rules.keys, 0, left.table), Keyed.of(rules.keys, 1, right.table)
    usable_a, usable_b = keyed_a.usable, keyed_b.usable
    by_a = [equal.values(0, left.table) for equal in rules.by]
    by_b = [equal.values(1, right.table) for equal in rules.by]
    for column in by_a:
        usable_a &= valid(column)
    for column in by_b:
        usable_b &= valid(column)
    if sampled:
        _sample(rules, waiting, (left, keyed_a.doubles, usable_a, by_a), (right, keyed_b.doubles, usable_b, by_b))
    as_doubles = keyed_a.suits_doubles and keyed_b.suits_doubles
    keys_a, keys_b = keyed_a.numbers(as_doubles=as_doubles), keyed_b.numbers(as_doubles=as_doubles)
    cut = _Cut.of(rules, waiting.groups, by_a, by_b, len(left), len(right))
    side_a = _Side(left, keys_a, usable_a, cut.order_a, cut.bounds_a, rules.wait > 0)
    side_b = _Side(right, keys_b, usable_b, cut.order_b, cut.bounds_b, rules.wait > 0)
    terms = rules.terms(as_doubles=as_doubles)
    out, stay_a, stay_b, lengths = merge_groups(
        side_a.arrays(), side_b.arrays(), terms, known, cut.groups.control, cut.groups.rings
    )
    answers = MergeAnswers(side_a.places(out[0]), side_b.places(out[1]), out[2], out[3])
    if rules.by:
        answers = answers.at(np.lexsort(order_of(answers, left, right)[::-1]))
    groups = cut.groups
    if rules.by and rules.delta == 0:  # without a promise a group has no past
        groups = groups.without_idle(lengths.sum(axis=1) > 0)
    kept = WaitingRecords(
        side_a.staying(stay_a, lengths[:, 0], lengths[:, 1]),
        side_b.staying(stay_b, lengths[:, 2], lengths[:, 3]),
        groups,
        waiting.sample,
    )
    return Merged(answers, left, right), kept


def next_due(rules: Rules, waiting: WaitingRecords, known: Known) -> int:
    """When time alone would make the next round of what waits; NEVER if it would not."""
    sides = waiting.left, waiting.right
    by_a, by_b = ([equal.values(side, records.table) for equal in rules.by] for side, records in enumerate(sides))
    cut = _Cut.of(rules, waiting.groups, by_a, by_b, len(sides[0]), len(sides[1]))
    waits = []
    for records, order, bounds in ((sides[0], cut.order_a, cut.bounds_a), (sides[1], cut.order_b, cut.bounds_b)):
        places = slice(None) if order is None else order
        windows = np.diff(np.concatenate([[0], np.cumsum(records.in_window[places])])[bounds])
        waits.append(Waiting(bounds, windows, records.times[places], records.own[places]))
    due: int = next_due_of_groups(*waits, rules.every, rules.wait, known, cut.groups.control)
    return due


def counts(rules: Rules, waiting: WaitingRecords) -> dict[str, Any]:
    """What the step has done so far."""
    sampled = waiting.sample.found(rules.widths, rules.policy)
    groups = waiting.groups
    return {
        **counts_of(groups.control, groups.rings, groups.totals),
        "window": int(groups.control[:, SIZE].max(initial=rules.window)),
        "step": int(groups.control[:, STEP].min(initial=rules.step)),
        "sample": list(sampled),
    }


@dataclass
class _Side:
    """The records of one side group by group, as the kernel wants them."""

    records: Records
    keys: Numbers
    usable: Flags
    order: Ints | None
    bounds: Ints
    waits: bool
    """Whether there is a limit to how long records wait: only then it is written down since when they do."""

    def arrays(self) -> Side:
        records, keys, usable = self.records, self.keys, self.usable
        times, own, rows, met, inside = records.times, records.own, records.rows, records.met, records.in_window
        if self.order is not None:
            keys, usable = np.ascontiguousarray(keys[:, self.order]), usable[self.order]
            times, own, rows = times[self.order], own[self.order], rows[self.order]
            met, inside = met[self.order], inside[self.order]
        before = np.concatenate([[0], np.cumsum(inside)])
        windows = np.diff(before[self.bounds])
        # Machine code is made for an array that may be written to, even where it is not.
        self.own, self.met = own.copy() if self.waits or not own.flags.writeable else own, met.copy()
        return Side(self.bounds, windows, keys, usable, times, self.own, rows, self.met)

    def places(self, numbers: Ints) -> Ints:
        """Places in the list of records, for those the kernel gave."""
        if self.order is None:
            return numbers
        return np.append(self.order, -1)[numbers]

    def staying(self, stay: Ints, windows: Ints, unread: Ints) -> Records:
        """The records that wait, the windows of each group before what it has not read."""
        records = self.records.at(self.places(stay))
        parts = np.stack([windows, unread], axis=1).ravel()
        inside = np.repeat(np.tile([True, False], len(windows)), parts)
        return Records(records.table, records.times, self.own[stay], records.rows, self.met[stay], inside)


@dataclass
class _Cut:
    """Which records are of which group."""

    groups: MergeGroups
    order_a: Ints | None
    bounds_a: Ints
    order_b: Ints | None
    bounds_b: Ints

    @staticmethod
    def of(
        rules: Rules, kept: MergeGroups, by_a: Sequence[Column], by_b: Sequence[Column], count_a: int, count_b: int
    ) -> _Cut:
        if not rules.by:
            groups = kept if len(kept.control) else _regrouped(rules, kept, [], np.empty(0, np.int32), 1)
            return _Cut(groups, None, np.array([0, count_a]), None, np.array([0, count_b]))
        known = len(kept.control)
        columns = [
            pa.chunked_array([*chunks(k), *chunks(a), *chunks(b)], equal.type)
            for equal, k, a, b in zip(rules.by, kept.keys, by_a, by_b, strict=True)
        ]
        coded = encode(columns, known + count_a + count_b)
        codes_a, codes_b = coded.codes[known : known + count_a], coded.codes[known + count_a :]
        keys = coded.keys(np.arange(coded.size, dtype=np.int32))
        groups = _regrouped(rules, kept, keys, coded.codes[:known], coded.size)
        order_a, bounds_a = _sorted_by(codes_a, coded.size)
        order_b, bounds_b = _sorted_by(codes_b, coded.size)
        return _Cut(groups, order_a, bounds_a, order_b, bounds_b)


def chunks(column: Column) -> list[pa.Array]:
    """The pieces of a column."""
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _sorted_by(codes: NDArray[np.int32], size: int) -> tuple[Ints, Ints]:
    order = np.argsort(codes, kind="stable")
    return order, np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=size))]).astype(np.int64)


def _regrouped(rules: Rules, kept: MergeGroups, keys: list[Any], codes: NDArray[np.int32], size: int) -> MergeGroups:
    """Groups by their codes: those that were kept, and new ones with the rules' own window and step."""
    control = np.zeros((size, CONTROLS), np.int64)
    control[:, SIZE], control[:, STEP], control[:, REACHED] = rules.window, rules.step, MIN_TIME
    rings = np.zeros((size, rules.over, 3), np.int64)
    control[codes], rings[codes] = kept.control, kept.rings
    return MergeGroups(keys, control, rings, kept.gone)


def order_of(answers: MergeAnswers, left: Records, right: Records) -> list[Ints]:
    """By what answers of all groups stand in one order: the round, those without partner first, then by arrival."""
    rows_a, rows_b = np.append(left.rows, -1)[answers.left], np.append(right.rows, -1)[answers.right]
    partners = np.where(answers.left < 0, 1, np.where(answers.right < 0, 0, 2))
    return [answers.times, answers.kinds, partners, rows_a, rows_b]


def _sample(
    rules: Rules, waiting: WaitingRecords, *sides: tuple[Records, NDArray[np.float64], Flags, list[Column]]
) -> None:
    """Take new records with a usable key into the sample."""
    width = cell_width(rules.widths)
    for side, (records, keys, usable, by) in enumerate(sides):
        old = len(waiting.right if side else waiting.left)
        if len(records) == old:
            continue
        groups = np.zeros(1)
        if by:
            new = [column.slice(old) for column in by]
            groups = group_numbers(hashes_of_rows(new, len(records) - old))
        waiting.sample.take_in(side, groups, np.ascontiguousarray(keys[:, old:]), usable[old:], width)

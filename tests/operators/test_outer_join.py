"""Joins that answer for rows without a partner equal the naive oracle, micro-batch by micro-batch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.operators.base import MIN_TIME
from anabranch.operators.join.outer import Kind, OuterJoin
from anabranch.operators.join.steps import live
from anabranch.testing import OperatorHarness
from anabranch.testing.harness import same
from tests.operators.join_oracle import (
    Answer,
    Condition,
    Feed,
    Join,
    Offsets,
    Streams,
    join_of,
    reach,
    results,
    uniform,
)
from tests.operators.join_rows import COLUMNS, EQUALITIES, FAMILIES, SCHEMA, Row, Template, rows_of, table_of
from tests.operators.test_window_join import all_sizes, some_conditions, some_sources, some_streams, some_windows
from tests.sampling import examples

SIDES: tuple[Kind, ...] = ("left", "right", "full", "semi", "anti")
UNMATCHED: dict[Kind, tuple[int, ...]] = {"left": (0,), "right": (1,), "full": (0, 1), "semi": (), "anti": (0,)}
NOTHING: Row = dict.fromkeys([*COLUMNS, "t"])
SAME_I, SAME_S = EQUALITIES[0], EQUALITIES[1]
WHERE = [
    Condition("`B.n` IS NULL", lambda rows: rows["B"]["n"] is None),
    Condition("`A.i` > 0 OR `B.ok`", lambda rows: (rows["A"]["i"] or 0) > 0 or rows["B"]["ok"] is True),
    Condition("coalesce(`A.n`, 0) % 2 = 0", lambda rows: (rows["A"]["n"] or 0) % 2 == 0),
]


def conditions(*templates: Template) -> tuple[Condition, ...]:
    return tuple(Condition(*template.named(*"AB"[: template.sources])) for template in templates)


def outer(side: Kind, join: Join, where: Sequence[Condition] = ()) -> OuterJoin:
    return OuterJoin(join.operator(), side, tuple(condition.sql for condition in where))


def harness(operator: OuterJoin, **more: Any) -> OperatorHarness:
    return OperatorHarness(operator, dict.fromkeys(operator.inputs, SCHEMA), **more)


# -- the oracle --------------------------------------------------------------------------------------


class Oracle:
    """What a join answers, by looking at every pair of rows and at every row."""

    def __init__(self, side: Kind, join: Join, where: Sequence[Condition], streams: Streams) -> None:
        self.side, self.join, self.where = side, join, where
        self.tables = [streams[source.stream] for source in join.sources]
        self.pairs = results(join, streams)
        self.latest = [reach(join)[0][1], reach(join)[1][0]]

    def batch(self, start: Offsets, end: Offsets) -> Answer:
        """The answer of the micro-batch from one offset to another, row for row."""
        newest = max(offset.time for offset in start.values()) if self.join.order == "arrival" else MIN_TIME
        rows = sorted(self._answered(start, end), key=lambda found: (found[2], found[0], found[1]))
        return [
            (*(None if n < 0 else n for n in found[:2]), max(found[2], newest))
            for found in rows
            if self._is_wanted(found)
        ]

    def finished(self) -> list[tuple[Any, ...]]:
        """All that is answered in the end."""
        rows = [n for place in UNMATCHED[self.side] for n in self._alone(place)]
        if self.side == "semi":
            rows += [(n, -1) for n in sorted({pair.rows[0] for pair in self.pairs})]
        elif self.side != "anti":
            rows += [(pair.rows[0], pair.rows[1]) for pair in self.pairs]
        return sorted(row for row in rows if self._is_wanted(row))

    def _answered(self, start: Offsets, end: Offsets) -> list[tuple[int, int, int]]:
        found = [
            (*row, self._row_of(row)["t"] + max(self.latest[place], 0))
            for place in UNMATCHED[self.side]
            for row in self._alone(place)
            if self._has_passed(place, row, end) and not self._has_passed(place, row, start)
        ]
        new = [pair for pair in self.pairs if self._is_there(pair, end) and not self._is_there(pair, start)]
        if self.side == "semi":
            had = {pair.rows[0] for pair in self.pairs if self._is_there(pair, start)}
            times: dict[int, int] = {}
            for pair in new:
                times[pair.rows[0]] = min(pair.time, times.get(pair.rows[0], pair.time))
            return [(n, -1, time) for n, time in times.items() if n not in had]
        return found if self.side == "anti" else [*found, *((pair.rows[0], pair.rows[1], pair.time) for pair in new)]

    def _alone(self, place: int) -> list[tuple[int, int]]:
        met = {pair.rows[place] for pair in self.pairs}
        wanted = self.join.sources[place].filter
        alone = [
            n
            for n, row in enumerate(self.tables[place])
            if n not in met and (wanted is None or wanted.holds(row) is True)
        ]
        return [(n, -1) if place == 0 else (-1, n) for n in alone]

    def _row_of(self, row: tuple[int, int]) -> Row:
        return self.tables[0][row[0]] if row[0] >= 0 else self.tables[1][row[1]]

    def _has_passed(self, place: int, row: tuple[int, int], at: Offsets) -> bool:
        """Whether a row is there, and no row to come is in its window."""
        mine, others = self.join.sources[place].stream, self.join.sources[1 - place].stream
        n, time = row[place], self._row_of(row)["t"]
        if self.join.order == "time":
            return bool(time + max(self.latest[place], 0) < min(offset.time for offset in at.values()))
        return bool(n < at[mine].row and time + self.latest[place] < at[others].time)

    def _is_there(self, pair: Any, at: Offsets) -> bool:
        if self.join.order == "time":
            return bool(pair.time < min(offset.time for offset in at.values()))
        return all(n < at[source.stream].row for n, source in zip(pair.rows, self.join.sources, strict=True))

    def _is_wanted(self, row: tuple[int, ...]) -> bool:
        rows = {
            source.alias: table[n] if n >= 0 else NOTHING
            for source, table, n in zip(self.join.sources, self.tables, row, strict=False)
        }
        return all(condition.holds(rows) is True for condition in self.where)


def told(answer: pa.Table) -> Answer:
    return list(zip(*(column.cast(pa.int64()).to_pylist() for column in answer.columns), strict=True))


def check(
    side: Kind, join: Join, streams: Streams, chance: random.Random, where: Sequence[Condition] = (), **more: Any
) -> list[tuple[Any, ...]]:
    """Drive a join over streams and compare each micro-batch with the oracle; gives all that is answered in the end."""
    oracle = Oracle(side, join, where, streams)
    batches = Feed(harness(outer(side, join, where), **more), chance).play(streams)
    for number, (start, end, answer) in enumerate(batches):
        assert told(answer) == oracle.batch(start, end), f"micro-batch {number} from {start} to {end} of {side} {join}"
    answered = [row[:2] for batch in batches for row in told(batch.answer)]
    assert sorted(tuple(-1 if n is None else n for n in row) for row in answered) == oracle.finished()
    return answered


# -- against the oracle ------------------------------------------------------------------------------


@pytest.mark.slow
@examples(150)
@given(
    side=st.sampled_from(SIDES),
    streams=st.sampled_from(["st", "st", "ts", "ss"]),
    windows=st.sampled_from(["uniform", "asymmetric", "asymmetric"]),
    family=st.sampled_from(["equality", "equality", "band", "comparison", "residual", "none", "mixed", "composite"]),
    order=st.sampled_from(["arrival", "time"]),
    seed=st.integers(0, 2**32),
)
def test_any_window_any_condition(side: Kind, streams: str, windows: str, family: str, order: Any, seed: int) -> None:
    chance = random.Random(seed)
    sources = some_sources(streams, chance)
    chosen = some_conditions(family, "AB", chance)
    join = Join(sources, tuple(some_windows(windows, 2, chance)), chosen, order=order)
    where = chance.sample(WHERE, 1) if chance.random() < 0.4 and side not in ("semi", "anti") else []
    with all_sizes(chance):
        check(side, join, some_streams(sources, chance), chance, where)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("template", [t for name in FAMILIES if name != "triple" for t in FAMILIES[name]][::4])
def test_every_kind_of_condition_says_who_is_alone(side: Kind, template: Template) -> None:
    chance = random.Random(template.sql + side)
    join = join_of("st", uniform(2, 5), conditions(template))
    streams = some_streams(join.sources, chance)
    check(side, join, streams, chance)


@pytest.mark.parametrize("side", SIDES)
def test_streams_in_real_logs(side: Kind, tmp_path: Any) -> None:
    chance = random.Random(side)
    join = join_of("st", uniform(2, 5), conditions(SAME_I))
    check(side, join, some_streams(join.sources, chance), chance, directory=tmp_path)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("conditions_of", [(SAME_I,), (SAME_I, SAME_S), ()])
def test_order_of_time_is_the_same_however_cut(side: Kind, conditions_of: tuple[Template, ...]) -> None:
    chance = random.Random(8)
    streams = {
        name: rows_of(
            sorted(begin + chance.randrange(300) for _ in range(60)),
            i=[chance.choice([None, *range(9)]) for _ in range(60)],
            s=[chance.choice("ab") for _ in range(60)],
        )
        for name, begin in (("s", 1_000), ("t", 1_020))
    }
    join = join_of("st", [(0, 1, -6, 9)], conditions(*conditions_of), order="time")

    def filled() -> OperatorHarness:
        filled = harness(outer(side, join))
        for name, rows in streams.items():
            filled.push(name, table_of(rows))
            filled.advance(name, 9_999)
        return filled

    wanted = filled().step()
    assert wanted.num_rows > 2
    for size in (1, 3, 17):
        for parallelism in (1, 3):
            assert same(filled().run(parallelism, rows=size), wanted)


# -- at the edges ------------------------------------------------------------------------------------


def filled(side: Kind, size: int, s: list[Row], t: list[Row], order: Any = "arrival") -> OperatorHarness:
    filled = harness(outer(side, join_of("st", uniform(2, size), conditions(SAME_I), order=order)))
    filled.push("s", table_of(s))
    filled.push("t", table_of(t))
    return filled


def test_null_keys_have_no_partner() -> None:
    run = filled("full", 10, rows_of([100, 101], i=None), rows_of([100, 101], i=[None, 3]))
    for name in "st":
        run.advance(name, 1_000)
    assert told(run.step()) == [(None, 0, 110), (0, None, 110), (None, 1, 111), (1, None, 111)]


def test_row_of_the_last_moment_of_a_window_is_a_partner() -> None:
    run = filled("left", 10, rows_of([100], i=1), rows_of([110], i=2))
    assert told(run.step()) == []
    assert run.due() == {"t": 111}
    run.push("t", table_of(rows_of([110], i=1)))
    assert told(run.step()) == [(0, 0, 110)]
    run.advance("t", 111)
    assert told(run.step()) == []
    assert run.due() == {}


def test_row_without_a_partner_is_answered_as_soon_as_the_other_stream_is_past_its_window() -> None:
    run = filled("left", 10, rows_of([100, 105], i=1), rows_of([], i=None))
    assert told(run.step()) == []
    assert run.due() == {"t": 111}
    run.advance("t", 111)
    assert told(run.step()) == [(0, None, 110)]
    assert run.due() == {"t": 116}


def test_row_that_comes_when_its_window_has_passed_is_answered_at_once() -> None:
    run = filled("anti", 10, [], rows_of([500], i=1))
    run.step()
    run.push("s", table_of(rows_of([100, 495], i=[1, 1])))
    assert told(run.step()) == [(0, None, 500)]
    run.advance("t", 900)
    assert told(run.step()) == []


def test_in_order_of_time_rows_wait_for_both_streams() -> None:
    run = filled("left", 10, rows_of([100], i=1), rows_of([400], i=1), order="time")
    assert told(run.step()) == []
    assert run.due() == dict.fromkeys("st", 101)
    run.advance("s", 101)
    assert told(run.step()) == []
    assert run.due() == dict.fromkeys("st", 111)
    run.advance("s", 111)
    assert told(run.step()) == [(0, None, 110)]


def test_semi_join_answers_a_row_once_however_many_partners_come() -> None:
    run = filled("semi", 10, rows_of([100], i=1), rows_of([95, 95], i=1))
    assert told(run.step()) == [(0, None, 100)]
    run.push("t", table_of(rows_of([101, 102], i=1)))
    assert told(run.step()) == []
    assert run.due() == {}


def test_what_was_never_in_reach_is_not_read_again() -> None:
    """Once its window has passed, a row and all that it may have met are let go."""
    join = join_of("st", uniform(2, 10), conditions(SAME_I))
    operator = outer("left", join)
    run = filled("left", 10, rows_of([100, 200], i=1), rows_of([100, 200, 300], i=2))
    run.advance("s", 400)
    run.step()
    floors = operator.needs(run.offsets)
    assert floors["s"].time == 290
    assert floors["t"].time == 280


@pytest.mark.slow
def test_an_index_goes_along_with_the_rows_that_are_looked_up() -> None:
    """Else each micro-batch would make it anew, from all rows of the windows."""
    live.clear()
    join = join_of("st", uniform(2, 1_000), conditions(SAME_I))
    run = harness(outer("left", join))
    for begin in range(0, 40_000, 100):
        for name, i in (("s", 1), ("t", 2)):
            run.push(name, table_of(rows_of(range(begin, begin + 100), i=i)))
        run.step()
    assert run.work.rows_read < 40_000 * 2 * 4


def test_many_rows_close_at_once() -> None:
    chance = np.random.default_rng(1)
    count = 200_000
    run = filled("full", 50, [], [])
    times = np.sort(chance.integers(1_000, 300_000, (2, count)))
    keys = chance.integers(0, 100_000, (2, count))
    for name, own_times, own_keys in zip("st", times, keys, strict=True):
        base = table_of([]).to_pydict() | {
            "n": np.arange(count, dtype=np.int32), "i": own_keys.astype(np.int32),
        }  # fmt: skip
        columns = {
            field.name: pa.array(base[field.name], field.type) if len(base[field.name]) else pa.nulls(count, field.type)
            for field in SCHEMA.arrow
            if field.name != "ts"
        }
        columns["ts"] = pa.array(own_times, pa.int64()).view(SCHEMA.arrow.field("ts").type)
        run.push(name, pa.table(columns).select(SCHEMA.names))
        run.advance(name, 10**6)
    answer = run.step()
    a, b = (answer.column(name) for name in "AB")
    pairs = answer.num_rows - a.null_count - b.null_count
    wanted = _pairs(times, keys, 50)
    assert pairs == len(wanted)
    assert b.null_count == count - len({n for n, _ in wanted})
    assert a.null_count == count - len({m for _, m in wanted})


def _pairs(times: Any, keys: Any, size: int) -> list[tuple[int, int]]:
    by_key: dict[int, list[int]] = {}
    for m, key in enumerate(keys[1].tolist()):
        by_key.setdefault(key, []).append(m)
    other = times[1].tolist()
    return [
        (n, m)
        for n, (time, key) in enumerate(zip(times[0].tolist(), keys[0].tolist(), strict=True))
        for m in by_key.get(key, ())
        if abs(other[m] - time) <= size
    ]

"""The fast arrangement against the naive one."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.runs import Run, hashed
from tests.operators.tree.aggregate_oracle import order
from tests.operators.tree.naive_arrangement import Found, NaiveArrangement
from tests.operators.tree.rows import Bag, Row, Source, bag, changes_of, plain, row
from tests.sampling import SEED

TYPES = {
    "i": pa.int32(),
    "s": pa.string(),
    "d": pa.float64(),
    "t": pa.timestamp("us", tz="UTC"),
    "m": pa.decimal128(10, 2),
    "b": pa.bool_(),
}
SCHEMA = pa.schema(TYPES.items())


def by_key(found: Found, keys: pa.Table) -> Bag:
    """Rows, each with the key it was found by."""
    together: Bag = Counter()
    asked = keys.to_pylist()
    rows = zip(*(column.to_pylist() for column in found.changes.rows.columns), strict=True)
    for values, weight, of in zip(rows, found.changes.weights.tolist(), found.of.tolist(), strict=True):
        key = row(asked[of].values())
        assert (row(values), key) not in together, "a row that is there twice"
        assert weight != 0
        together[(row(values), key)] = weight
    return together


def drawn_keys(source: Source, key: tuple[str, ...]) -> pa.Table:
    schema = pa.schema([SCHEMA.field(name) for name in key])
    if not key:
        return changes_of(SCHEMA, [(source.values(), 1)]).rows.select([]).slice(0, source.draw.randrange(2))
    some = Source(schema, source.draw)
    different = {row(values): values for values in (some.values() for _ in range(source.draw.randrange(6)))}
    return changes_of(schema, [(values, 1) for values in different.values()]).rows


@pytest.mark.parametrize("key", [("i",), ("s", "d"), ("d",), tuple(TYPES), (), ("m", "t")], ids=str)
def test_it_gives_what_the_naive_one_gives(key: tuple[str, ...], hashing: str) -> None:
    for seed in range(3):
        draw = random.Random(f"{SEED} {seed} {key}")
        source = Source(SCHEMA, draw)
        fast, naive = Arrangement(SCHEMA, key), NaiveArrangement(SCHEMA, key)
        for _ in range(12):
            changes = source.some(draw.choice([0, 1, 3, 30]))
            fast.take_in(changes)
            naive.take_in(changes)
            if draw.random() < 0.3:
                fast = Arrangement.from_runs(SCHEMA, key, fast.runs())
            assert bag(fast.all()) == bag(naive.all())
            assert len(fast) == len(naive)
            keys = drawn_keys(source, key)
            assert by_key(fast.rows_of(keys), keys) == by_key(naive.rows_of(keys), keys)  # type: ignore[arg-type]


def test_what_meets_keys_is_what_they_have_however_often_they_are_asked_for(
    hashing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.operators.tree.arrangement.PAIRS", 7)
    draw = random.Random(SEED)
    source = Source(SCHEMA, draw)
    fast = Arrangement(SCHEMA, ("s",))
    for _ in range(6):
        fast.take_in(source.some(20))
        asked = [draw.choice([None, "", "a", "x"]) for _ in range(9)]
        met: Counter[tuple[int, object]] = Counter()
        for of, changes in fast.meeting([pa.array(asked, pa.string())], len(asked)):
            rows = zip(*map(pa.ChunkedArray.to_pylist, changes.rows.columns), strict=True)
            for place, values, weight in zip(of.tolist(), rows, changes.weights.tolist(), strict=True):
                met[place, row(values)] += weight
        there = bag(fast.all())
        wanted = {(i, r): n for i, text in enumerate(asked) for r, n in there.items() if r[1] == plain(text)}
        assert {pair: count for pair, count in met.items() if count} == wanted


def test_runs_are_few_and_what_went_leaves_them() -> None:
    schema = pa.schema([("k", pa.int64())])
    arrangement = Arrangement(schema, ("k",))
    rows = pa.table({"k": np.arange(20_000)})
    for begin in range(0, 20_000, 100):
        arrangement.take_in(Changes.of(rows.slice(begin, 100)))
    sizes = [len(run) for run in arrangement.runs()]
    assert len(sizes) < 10
    assert all(a >= 2 * b for a, b in pairwise(sizes))
    for begin in range(0, 20_000, 100):
        arrangement.take_in(Changes.of(rows.slice(begin, 100), -1))
    assert arrangement.entries == 0


def test_a_row_is_joined_a_few_times_however_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("k", pa.int64())])
    arrangement = Arrangement(schema, ("k",))
    written = 0
    make = Run.of

    def counting(rows: pa.Table, *rest: np.ndarray) -> Run:
        nonlocal written
        written += rows.num_rows
        return make(rows, *rest)

    monkeypatch.setattr(Run, "of", staticmethod(counting))
    for begin in range(0, 64_000, 500):
        arrangement.take_in(Changes.of(pa.table({"k": np.arange(begin, begin + 500)})))
    assert written < 64_000 * 10


def test_too_large_runs_are_not_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.operators.tree.runs._MOST_BYTES", 4000)
    schema = pa.schema([("k", pa.int64())])
    arrangement = Arrangement(schema, ("k",))
    for begin in range(0, 1000, 50):
        arrangement.take_in(Changes.of(pa.table({"k": np.arange(begin, begin + 50)})))
    assert all(run.nbytes <= 4000 for run in arrangement.runs())
    assert sorted(arrangement.all().rows.column("k").to_pylist()) == list(range(1000))


def test_runs_of_other_columns_are_refused() -> None:
    one = Arrangement(pa.schema([("a", pa.int64())]), ("a",))
    one.take_in(Changes.of(pa.table({"a": [1]})))
    with pytest.raises(ValueError, match="a run has the columns"):
        Arrangement.from_runs(pa.schema([("b", pa.int64())]), ("b",), one.runs())


# -- each key once -----------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [("i",), ("s", "d"), ()], ids=str)
def test_a_row_that_comes_replaces_the_one_with_its_key(key: tuple[str, ...], hashing: str) -> None:
    schema = pa.schema([*(SCHEMA.field(name) for name in key), pa.field("n", pa.int64())])
    for seed in range(3):
        draw = random.Random(f"{SEED} {seed} {key}")
        source = Source(SCHEMA, draw)
        replaced = Replaced(schema, key)
        known: dict[Row, int] = {}
        for number in range(25):
            keys = drawn_keys(source, key)
            stays = np.array([draw.random() < 0.7 for _ in range(keys.num_rows)], np.bool_)
            columns = [column.combine_chunks() for column in keys.columns]
            codes = hashed(columns, keys.num_rows)
            latest = replaced.latest(columns, codes)
            asked = [row(values.values()) for values in keys.to_pylist()] if key else [()] * keys.num_rows
            found = dict(zip(latest.of.tolist(), latest.rows.column("n").to_pylist(), strict=True))
            assert found == {i: known[a] for i, a in enumerate(asked) if a in known}
            numbers = pa.array(np.full(keys.num_rows, number))
            replaced.put(pa.Table.from_arrays([*columns, numbers], schema=schema), codes, stays)
            for a, there in zip(asked, stays.tolist(), strict=True):
                known.pop(a, None)
                if there:
                    known[a] = number
            if draw.random() < 0.3:
                runs = replaced.runs()
                replaced = Replaced(schema, key)
                replaced.take_runs(runs)
            assert bag(replaced.all()) == Counter({(*a, n): 1 for a, n in known.items()})
            assert len(replaced) == len(known)


def test_changes_replace_too() -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    replaced = Replaced(schema, ("k",))
    replaced.take_in(changes_of(schema, [((1, 10), 1), ((2, 20), 1), ((None, 30), 1)]))
    replaced.take_in(changes_of(schema, [((1, 10), -1), ((1, 11), 1), ((2, 20), -1)]))
    assert bag(replaced.all()) == {(1, 11): 1, (None, 30): 1}
    assert bag(replaced.rows_of(pa.table({"k": [None, 2]})).changes) == {(None, 30): 1}


def test_what_has_gone_leaves_it() -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    replaced = Replaced(schema, ("k",))
    for begin in range(0, 1000, 100):
        rows = pa.table({"k": np.arange(begin, begin + 100), "n": np.zeros(100, np.int64)})
        replaced.take_in(Changes.of(rows))
    for _ in range(10):
        replaced.take_in(Changes.of(replaced.all().rows.slice(0, 100), -1))
    assert replaced.entries == 0


# -- ranked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("key", "type_"), [(("s",), "i"), (("s",), "d"), ((), "t")], ids=str)
def test_the_first_and_last_values_of_keys(
    key: tuple[str, ...], type_: str, last: bool, hashing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.operators.tree.arrangement._FIRST_DEPTH", 1)
    monkeypatch.setattr("anabranch.operators.tree.arrangement._DEEPER", 2)
    schema = pa.schema([SCHEMA.field(name) for name in (*key, type_)])
    for seed in range(3):
        draw = random.Random(f"{SEED} {seed}")
        source = Source(schema, draw)
        arrangement = Arrangement(schema, key, ranked=type_)
        for _ in range(10):
            some = source.some(draw.choice([1, 3, 30]))
            arrangement.take_in(some.filter(pc.is_valid(some.rows.column(type_)).to_numpy()))
            there: dict[Row, Bag] = {}
            for values, count in bag(arrangement.all()).items():
                there.setdefault(values[:-1], Counter())[values] = count
            asked = list(there) + [("absent",)] * bool(key)
            columns = [pa.array([each[0] for each in asked], pa.string())] if key else []
            count = len(asked) if key else 1
            found = arrangement.edge_of(columns, count, last=last)
            said = {asked[of]: row for of, row in zip(found.of.tolist(), _rows(found.changes), strict=True)}
            best = max if last else min
            edges = {each: best(rows, key=lambda values: order(values[-1])) for each, rows in there.items()}
            assert said == {each: (values, there[each][values]) for each, values in edges.items()}


def _rows(changes: Changes) -> list[tuple[Row, int]]:
    columns = [column.to_pylist() for column in changes.rows.columns]
    return list(zip(map(row, zip(*columns, strict=True)), changes.weights.tolist(), strict=True))


def test_little_is_read_where_the_first_goes_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("k", pa.int64()), ("x", pa.int64())])
    arrangement = Arrangement(schema, ("k",), ranked="x")
    count, step = 40_000, 100
    rows = pa.table({"k": np.zeros(count, np.int64), "x": np.arange(count)})
    arrangement.take_in(Changes.of(rows))
    read = 0
    edge = Arrangement._edge

    def counting(*arguments: Any) -> Any:
        nonlocal read
        found = edge(*arguments)
        read += found[1]
        return found

    monkeypatch.setattr(Arrangement, "_edge", counting)
    for begin in range(0, count // 2, step):
        arrangement.take_in(Changes.of(rows.slice(begin, step), -1))
        found = arrangement.edge_of([pa.array([0])], 1, last=False)
        assert bag(found.changes) == {(0, begin + step): 1}
    assert read < 200 * count / 6


# -- in order ----------------------------------------------------------------------------------------


def test_in_order_rows_below_a_bound_are_taken_out() -> None:
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("x", pa.int64())])
    for seed in range(6):
        draw = random.Random(f"{SEED} {seed}")
        arrangement = Arrangement(schema, ("t",), in_order=True)
        there: Bag = Counter()
        bound = -30
        for _ in range(20):
            rows = [((draw.randrange(bound, bound + 30), draw.randrange(3)), 1) for _ in range(draw.randrange(20))]
            gone = [(values, -1) for values, count in there.items() if count > 0 and draw.random() < 0.5]
            arrangement.take_in(changes_of(schema, rows + gone))
            for values, weight in rows + gone:
                there[values] += weight
            bound += draw.randrange(8)
            taken = arrangement.take_out_before(pa.scalar(bound, schema.field("t").type))
            numbers = Changes(taken.rows.set_column(0, "t", taken.rows.column(0).cast(pa.int64())), taken.weights)
            assert bag(numbers) == {v: n for v, n in there.items() if n and v[0] < bound}
            there = Counter({v: n for v, n in there.items() if n and v[0] >= bound})
            first = arrangement.first()
            assert (None if first is None else first.value) == min((v[0] for v in there), default=None)

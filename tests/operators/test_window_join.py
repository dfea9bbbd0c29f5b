"""Window joins equal the naive oracle, micro-batch by micro-batch, however the streams come in."""

from __future__ import annotations

import contextlib
import itertools
import random
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import QueryError
from anabranch.expressions import compile
from anabranch.log.offset import MIN_TIME
from anabranch.operators.join import operator as window_join
from anabranch.operators.join import run, steps
from anabranch.operators.join.analysis import analyse
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.work import Work
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from anabranch.testing.harness import same
from anabranch.windows.index import chains as chain_index
from tests.operators.join_oracle import (
    Condition,
    Filter,
    Join,
    Source,
    Window,
    batch,
    check,
    join_of,
    oldest_needed,
    results,
    rows_windows,
    told,
    uniform,
)
from tests.operators.join_rows import (
    COLUMNS,
    EQUALITIES,
    FAMILIES,
    SCHEMA,
    Row,
    Template,
    between,
    less,
    plus,
    rows_of,
    some_rows,
    some_values,
    table_of,
)
from tests.sampling import ALL, examples

SIZES = [0, 1, 2, 5, 20, 20, 100, 100]
ROWS_PER_STREAM = {2: 40, 3: 16, 4: 8, 5: 6}
FILTERS = [
    Filter("i > 0", lambda row: less(0, row["i"])),
    Filter("ok", lambda row: row["ok"]),
    Filter("s IS NULL OR s <> 'a'", lambda row: row["s"] is None or row["s"] != "a"),
    Filter("n % 3 <> 1", lambda row: row["n"] % 3 != 1),
    Filter("n % 3 <> 1", lambda row: row["n"] % 3 != 1),
    Filter("false", lambda row: False),
]
YEAR = 365 * 86_400_000_000
SAME_I = EQUALITIES[0]
ROWS_IN_TURN = next(template for template in FAMILIES["comparison"] if template.sql == "`A.n` < `B.n`")


def conditions(*templates: Template, aliases: str = "ABC") -> tuple[Condition, ...]:
    return tuple(Condition(*template.named(*aliases[: template.sources])) for template in templates)


@contextlib.contextmanager
def all_sizes(chance: random.Random) -> Iterator[None]:
    """Now and then what is made for millions of rows is made for a handful: blocks, slices, indices and tasks."""
    with pytest.MonkeyPatch.context() as patch:
        if chance.random() < 0.75:
            patch.setattr(window_join, "ROWS_PER_TASK", 1)
            patch.setattr(window_join, "_ROWS_PER_BATCH", chance.choice([1, 7, 1000]))
            patch.setattr(run, "DRIVERS", chance.choice([1, 4, 1000]))
            patch.setattr(run, "_WIDE", chance.choice([0, 3, 1000]))
            patch.setattr(steps, "ROOM", chance.choice([1, 16, 1000]))
            patch.setattr(steps, "_BLOCK", chance.choice([1, 4, 1000]))
            patch.setattr(steps, "_TOO_FAR", chance.choice([0, 8, 1000]))
            patch.setattr(chain_index, "LEAST_ROOM", chance.choice([2, 8, 1024]))
            patch.setattr(chain_index, "_MOST_ENTRIES", chance.choice([30, (1 << 31) - 1]))
        yield


# -- what joins are made of, drawn by lot ------------------------------------------------------------


def some_windows(kind: str, count: int, chance: random.Random) -> list[Window]:
    """Windows between sources: all the same, all different, some missing, or not the same in both directions."""
    sizes = SIZES if count < 4 else SIZES[-4:]
    if kind == "uniform":
        return uniform(count, chance.choice(sizes))
    pairs = list(itertools.combinations(range(count), 2))
    if kind == "chain":
        pairs = [(i, i + 1) for i in range(count - 1)]
    elif kind == "star":
        pairs = [(0, i) for i in range(1, count)]
    elif kind == "asymmetric":
        tree = [(chance.randrange(i), i) for i in range(1, count)]
        pairs = [*tree, *chance.sample(pairs, chance.randint(0, min(2, len(pairs))))]
    windows = []
    for i, j in pairs:
        size = chance.choice(sizes)
        low, high = -size, size
        if kind == "asymmetric":
            low = chance.choice([-60, -20, -20, -5, -1, 0, 2, 10])
            high = low + chance.choice([0, 1, 5, 30, 90, 90] if count < 4 else [30, 90])
        windows.append((j, i, low, high) if chance.random() < 0.3 else (i, j, low, high))
    return windows


def some_conditions(family: str, aliases: Sequence[str], chance: random.Random) -> tuple[Condition, ...]:
    """Conditions of one family along the sources, several at once for `mixed`, for `composite` keys of two parts."""
    if family == "none":
        return ()
    if family == "mixed":
        names = [chance.choice(list(FAMILIES)) for _ in range(chance.randint(1, 3))]
        return tuple(c for name in names for c in some_conditions(name, aliases, chance)[:2])
    if family == "composite":
        pairs = [pair for pair in itertools.pairwise(aliases) if chance.random() < 0.8]
        chosen = [(chance.choice(EQUALITIES), pair) for pair in pairs for _ in range(2)]
        return tuple(Condition(*template.named(*pair)) for template, pair in chosen)
    template = chance.choice([t for t in FAMILIES[family] if t.sources <= len(aliases)] or EQUALITIES)
    if chance.random() < 0.5:
        groups = [aliases[at : at + template.sources] for at in range(len(aliases) - template.sources + 1)]
    else:
        groups = [chance.sample(aliases, template.sources)]
    most = len(groups) if template in EQUALITIES else 2
    return tuple(Condition(*template.named(*group)) for group in groups[:most])


def some_sources(streams: Sequence[str], chance: random.Random) -> tuple[Source, ...]:
    filters = [chance.choice(FILTERS) if chance.random() < 0.15 else None for _ in streams]
    return tuple(Source(*source) for source in zip("ABCDE", streams, filters, strict=False))


def some_streams(sources: Sequence[Source], chance: random.Random) -> dict[str, list[Row]]:
    """Rows for each stream, with the same few values in all and beginning at about the same time."""
    names, most = sorted({source.stream for source in sources}), ROWS_PER_STREAM[len(sources)]
    base, values = chance.choice([1_000, 1_000, -25, -YEAR, 50 * YEAR]), some_values(chance)
    counts = [chance.choice([*[most] * 30, most // 2, most // 2, 1, 0]) for _ in names]
    begins = [base + chance.choice([0, 0, 0, 0, 3, 20]) for _ in names]
    return {n: some_rows(c, chance, begin, values) for n, c, begin in zip(names, counts, begins, strict=True)}


# -- against the oracle ------------------------------------------------------------------------------


def test_conditions_mean_the_same_in_sql_and_in_the_oracle() -> None:
    chance = random.Random(1)
    rows = [row for seed in range(6) for row in some_rows(6, random.Random(seed))]
    for template in itertools.chain(*FAMILIES.values()):
        combinations = list(
            itertools.product(*[chance.sample(rows, 20 if template.sources < 3 else 9)] * template.sources)
        )
        columns: dict[str, pa.ChunkedArray] = {}
        for place in range(template.sources):
            table = table_of([rows[place] for rows in combinations])
            columns |= {f"{'ABC'[place]}.{name}": table.column(name) for name in COLUMNS}
        joined = pa.table(columns)
        wanted = [template.holds(*rows) for rows in combinations]
        assert compile(template.sql, joined.schema).evaluate(joined).to_pylist() == wanted, template.sql


@pytest.mark.slow
@examples(100)
@given(
    count=st.sampled_from([2, 2, 3, 3, 4, 5]),
    windows=st.sampled_from(["uniform", "different", "chain", "star", "asymmetric", "asymmetric"]),
    family=st.sampled_from([*FAMILIES, "equality", "none", "mixed", "composite"]),
    order=st.sampled_from(["arrival", "time"]),
    seed=st.integers(0, 2**32),
)
def test_windows_of_time(count: int, windows: str, family: str, order: Any, seed: int) -> None:
    chance = random.Random(seed)
    sources = some_sources("stuvw"[:count], chance)
    join = Join(
        sources,
        tuple(some_windows(windows, count, chance)),
        some_conditions(family, [source.alias for source in sources], chance),
        order=order,
    )
    with all_sizes(chance):
        check(join, some_streams(sources, chance), chance)


@pytest.mark.slow
@examples(40)
@given(
    count=st.sampled_from([2, 2, 3, 4]),
    size=st.sampled_from([1, 2, 3, 10, 1000]),
    family=st.sampled_from([*FAMILIES, "equality", "none", "mixed"]),
    seed=st.integers(0, 2**32),
)
def test_windows_of_rows(count: int, size: int, family: str, seed: int) -> None:
    chance = random.Random(seed)
    sources = some_sources("stuvw"[:count], chance)
    aliases = [source.alias for source in sources]
    windows = tuple(rows_windows(count, size))
    join = Join(sources, windows, some_conditions(family, aliases, chance), unit="rows", order="time")
    with all_sizes(chance):
        check(join, some_streams(sources, chance), chance)


@pytest.mark.slow
@examples(40)
@given(
    streams=st.sampled_from(["ss", "ss", "sss", "sts", "sstt", "stss"]),
    windows=st.sampled_from(["uniform", "different", "chain", "asymmetric", "rows"]),
    family=st.sampled_from([*FAMILIES, "equality", "none", "mixed"]),
    order=st.sampled_from(["arrival", "time"]),
    seed=st.integers(0, 2**32),
)
def test_streams_joined_with_themselves(streams: str, windows: str, family: str, order: Any, seed: int) -> None:
    chance = random.Random(seed)
    count = len(streams)
    sources = some_sources(streams, chance)
    chosen = some_conditions(family, [source.alias for source in sources], chance)
    if windows == "rows":
        size = chance.choice([1, 2, 5, 50])
        join = Join(sources, tuple(rows_windows(count, size)), chosen, unit="rows", order="time")
    else:
        join = Join(sources, tuple(some_windows(windows, count, chance)), chosen, order=order)
    with all_sizes(chance):
        check(join, some_streams(sources, chance), chance)


@pytest.mark.parametrize("template", [t for family in FAMILIES.values() for t in family], ids=lambda t: t.sql)
def test_every_condition_finds_its_results(template: Template) -> None:
    """The same rows with every condition, so that none is tested on nothing."""
    chance = random.Random(5)
    count = max(2, template.sources)
    streams = {}
    for name in "xyz"[:count]:
        pool = [row for seed in range(20) for row in some_rows(3, random.Random(seed))]
        picked = chance.sample(pool, 30 if count == 2 else 12)
        columns = {c: [row[c] for row in picked] for c in picked[0] if c not in ("n", "t", "ts")}
        streams[name] = rows_of(sorted(chance.randrange(40) for _ in picked), **columns)
    for order in ("arrival", "time"):
        join = join_of("xyz"[:count], uniform(count, 20), conditions(template), order=order)
        assert check(join, streams, chance)


@pytest.mark.parametrize("seed", range(4))
def test_streams_in_real_logs(seed: int) -> None:
    chance = random.Random(seed)
    join = join_of("st", uniform(2, 5), conditions(SAME_I), order=["arrival", "time"][seed % 2])
    streams = some_streams(join.sources, chance)
    with tempfile.TemporaryDirectory() as directory:
        check(join, streams, chance, directory=directory)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["time", "rows"])
def test_order_of_time_is_the_same_however_cut(unit: Any) -> None:
    chance = random.Random(8)
    streams = {
        name: rows_of(
            sorted(begin + chance.randrange(200) for _ in range(60)), i=[chance.randrange(4) for _ in range(60)]
        )
        for name, begin in (("s", 1_000), ("t", 1_020), ("u", 990))
    }
    windows = uniform(3, 30) if unit == "time" else rows_windows(3, 6)
    join = join_of("stu", windows, conditions(SAME_I), unit=unit, order="time")

    def filled() -> OperatorHarness:
        harness = join.harness()
        for name, rows in streams.items():
            harness.push(name, table_of(rows))
            harness.advance(name, 9_999)
        return harness

    wanted = filled().step()
    assert told(wanted) == [(*found.rows, found.time) for found in results(join, streams)]
    assert wanted.num_rows > 100
    for size in (1, 3, 17):
        for parallelism in (1, 3):
            assert same(filled().run(parallelism, rows=size), wanted)


# -- keys and conditions -----------------------------------------------------------------------------


def test_null_keys_never_join() -> None:
    join = join_of("st", uniform(2, 100), conditions(SAME_I))
    nothing = {name: rows_of(range(10), i=None) for name in "st"}
    assert check(join, nothing, random.Random(1)) == []
    some = {name: rows_of(range(10), i=[None, 1] * 5) for name in "st"}
    assert len(check(join, some, random.Random(2))) == 25


def test_key_of_two_parts_with_one_null_never_joins() -> None:
    join = join_of("st", uniform(2, 100), conditions(SAME_I, EQUALITIES[1]))
    streams = {name: rows_of(range(8), i=[None, None, 1, 1] * 2, s=["a", None, "a", None] * 2) for name in "st"}
    assert len(check(join, streams, random.Random(1))) == 4


def test_parts_of_a_key_do_not_run_together() -> None:
    pairs = [("a", "bc"), ("ab", "c"), ("", "abc"), ("abc", ""), ("a", "b"), ("b", "a")]
    schema = StreamSchema.of({"n": "INT", "p": "STRING", "q": "STRING", "ts": "TIMESTAMP"}, time="ts")
    operator = WindowJoin(
        sources=(("A", "s", None), ("B", "t", None)), unit="time", windows=((0, 1, -9, 9),),
        conditions=("`A.p` = `B.p`", "`A.q` = `B.q`"),
        columns=(("A", "`A.n`"), ("B", "`B.n`"), ("_time", "_time")), time="_time",
    )  # fmt: skip
    harness = OperatorHarness(operator, {"s": schema, "t": schema})
    times = pa.array(range(6), pa.int64()).cast(TIME_TYPE)
    for name in "st":
        p, q = zip(*pairs, strict=True)
        harness.push(name, pa.table({"n": pa.array(range(6), pa.int32()), "p": list(p), "q": list(q), "ts": times}))
    assert [row[:2] for row in told(harness.step())] == [(n, n) for n in range(6)]


def test_nan_joins_nan_and_the_zeros_join() -> None:
    x = [float("nan"), 0.0, -0.0, 1.0]
    join = join_of("st", uniform(2, 100), conditions(EQUALITIES[4]))
    found = check(join, {name: rows_of(range(4), x=x) for name in "st"}, random.Random(1))
    assert sorted(result.rows for result in found) == [(0, 0), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]


def test_whole_numbers_equal_to_one_double_need_not_be_equal_to_each_other() -> None:
    """2^53 and 2^53 + 1 are one DOUBLE: A = B and B = C do not make A = C."""
    whole_as_double = EQUALITIES[16]
    assert whole_as_double.sql == "`A.l` = `B.x`"
    chosen = (*conditions(whole_as_double, aliases="AB"), *conditions(whole_as_double, aliases="CB"))
    join = join_of("stu", uniform(3, 100), chosen)
    near = [2**53, 2**53 + 1, 2**53 + 2]
    streams = {"s": rows_of([1, 2, 3], l=near), "t": rows_of([1, 2], x=2.0**53), "u": rows_of([2, 3, 3], l=near)}
    assert len(check(join, streams, random.Random(1))) == 8


@pytest.mark.parametrize("family", ["equality", "band", "comparison"])
def test_whole_numbers_meet_float_as_float(family: str) -> None:
    """2^24 + 1 is no FLOAT: beside one it is 2^24."""
    streams = {name: rows_of(range(3), i=2**24 + 1, l=2**24 + 1, f=2.0**24) for name in "st"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_WIDE", 0)
        for template in (each for each in FAMILIES[family] if "f`" in each.sql and "x`" not in each.sql):
            found = check(join_of("st", uniform(2, 100), conditions(template)), streams, random.Random(1))
            assert len(found) == 9, template.sql


def test_decimals_that_are_rounded_where_they_are_compared_are_joined_by_what_is_left() -> None:
    schema = {"a": StreamSchema.of({"v": "DECIMAL(12,3)", "ts": "TIMESTAMP"}, time="ts")}
    schema["b"] = StreamSchema.of({"v": "DECIMAL(38,2)", "ts": "TIMESTAMP"}, time="ts")
    arrow = pa.schema([(f"{name}.v", of.arrow.field("v").type) for name, of in schema.items()])
    found = analyse(["`a.v` = `b.v`", "`a.v` <= `b.v`"], arrow, {"a.v": 0, "b.v": 1})
    assert (found.equalities, found.bands, found.comparisons) == ((), (), ())
    table = pa.table([[Decimal("1.004")], [Decimal("1.00")]], schema=arrow)
    assert [test.value.evaluate(table).to_pylist() for test in found.tests] == [[True], [True]]


@pytest.mark.slow
def test_decimals_of_different_scale_are_equal_by_value() -> None:
    """0.03 and 0.0300 are one number, though not one DOUBLE if their digits are multiplied by 10^-2 and 10^-4."""
    cents = [Decimal(n) / 100 for n in range(200)]
    same_decimal, same_whole = EQUALITIES[11], EQUALITIES[12]
    assert (same_decimal.sql, same_whole.sql) == ("`A.d` = `B.c`", "`A.i` = `B.d`")
    streams = {name: rows_of(range(200), i=[*range(200)], d=cents, c=cents) for name in "st"}
    found = check(join_of("st", uniform(2, 1_000), conditions(same_decimal)), streams, random.Random(1))
    assert [result.rows for result in found] == [(n, n) for n in range(200)]
    assert len(check(join_of("st", uniform(2, 1_000), conditions(same_whole)), streams, random.Random(1))) == 2
    not_above = next(t for t in FAMILIES["comparison"] if t.sql == "`A.c` <= `B.d`")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_WIDE", 0)
        found = check(join_of("st", uniform(2, 3), conditions(not_above)), streams, random.Random(1))
    assert {m - n for _, (n, m) in found} == {0, 1, 2, 3}


def test_bands_at_the_ends_of_whole_numbers_wrap_around() -> None:
    """The meaning of + and - is Spark's, which wrap: the distance of the two ends is 1."""
    ends = [-(2**31), -(2**31) + 1, -1, 0, 2**31 - 2, 2**31 - 1]
    long = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 2, 2**63 - 1]
    later = Template(
        "`B.i` BETWEEN `A.i` + 1 AND `A.i` + 5", lambda a, b: between(b["i"], plus(a["i"], 1), plus(a["i"], 5))
    )
    streams = {name: rows_of(range(6), i=ends, l=long) for name in "st"}
    for template in [*FAMILIES["band"][:5], later]:
        assert check(join_of("st", uniform(2, 100), conditions(template)), streams, random.Random(1))


@pytest.mark.slow
def test_skewed_keys() -> None:
    """One key holds 30 % of the rows, as with the sources of packets."""
    chance = random.Random(4)
    streams = {
        name: rows_of(
            sorted(chance.randrange(2_000) for _ in range(400)),
            i=[0 if chance.random() < 0.3 else chance.randrange(1, 200) for _ in range(400)],
        )
        for name in "st"
    }
    found = check(join_of("st", uniform(2, 100), conditions(SAME_I)), streams, chance)
    hot = sum(streams["s"][n]["i"] == 0 for _, (n, _) in found)
    assert hot > 0.8 * len(found) > 800


def test_new_keys_in_every_batch() -> None:
    """Strings that were never seen before come with every batch, and some come back."""
    chance = random.Random(6)
    join = join_of("st", uniform(2, 40), conditions(EQUALITIES[1]))
    streams = {
        name: rows_of(range(0, 600, 3), s=[f"key {n + chance.randrange(5)}" for n in range(200)]) for name in "st"
    }
    assert len(check(join, streams, chance)) > 150


def test_no_condition_at_all() -> None:
    join = join_of("stu", uniform(3, 2))
    streams = {name: rows_of(range(12)) for name in "stu"}
    found = check(join, streams, random.Random(1))
    assert len(found) == sum(max(ns) - min(ns) <= 2 for ns in itertools.product(range(12), repeat=3))


def test_condition_that_is_never_true() -> None:
    streams = {name: rows_of(range(12), i=1) for name in "st"}
    for never in ("false", "`A.i` <> `B.i`", "CAST(NULL AS BOOLEAN)", "`A.i` = NULL"):
        join = join_of("st", uniform(2, 100), [Condition(never, lambda rows: False)])
        assert check(join, streams, random.Random(1)) == []


# -- time --------------------------------------------------------------------------------------------


def test_many_rows_of_one_instant() -> None:
    for size in (0, 7):
        join = join_of("st", uniform(2, size), conditions(SAME_I))
        streams = {name: rows_of([5] * 30, i=[n % 3 for n in range(30)]) for name in "st"}
        assert len(check(join, streams, random.Random(1))) == 300


def test_windows_of_zero() -> None:
    join = join_of("stu", uniform(3, 0))
    streams = {"s": rows_of([1, 2, 2, 3, 7]), "t": rows_of([0, 2, 3, 3, 8]), "u": rows_of([2, 2, 3, 7, 8])}
    assert len(check(join, streams, random.Random(1))) == 2 * 1 * 2 + 1 * 2 * 1


def test_both_ends_of_a_window_are_in_it() -> None:
    join = join_of("st", [(0, 1, -3, 5)])
    streams = {"s": rows_of([100]), "t": rows_of([96, 97, 100, 105, 106])}
    assert [found.rows for found in check(join, streams, random.Random(1))] == [(0, 1), (0, 2), (0, 3)]


def test_window_that_begins_later() -> None:
    """B comes 10 to 20 after A: rows of the same time never meet."""
    join = join_of("st", [(0, 1, 10, 20)])
    streams = {"s": rows_of(range(0, 60, 5)), "t": rows_of(range(0, 60, 5))}
    assert {found.rows[1] - found.rows[0] for found in check(join, streams, random.Random(1))} == {2, 3, 4}


def test_two_windows_on_one_pair_both_hold() -> None:
    join = join_of("st", [(0, 1, -10, 3), (1, 0, -2, 7)])
    streams = {"s": rows_of(range(30)), "t": rows_of(range(30))}
    assert {n - m for _, (m, n) in check(join, streams, random.Random(1))} == set(range(-7, 3))


def test_windows_that_no_rows_can_keep() -> None:
    """B right after A, C right after B, and C before A: nothing, and nothing is kept."""
    join = join_of("stu", [(0, 1, 1, 2), (1, 2, 1, 2), (0, 2, -9, 0)])
    assert check(join, {name: rows_of(range(30)) for name in "stu"}, random.Random(1)) == []


def test_equal_times_across_streams() -> None:
    times = [1, 1, 1, 2, 2, 5]
    streams = {name: rows_of(times) for name in "stu"}
    for order in ("arrival", "time"):
        check(join_of("stu", uniform(3, 0), order=order), streams, random.Random(1))
        check(join_of("stu", uniform(3, 1), order=order), streams, random.Random(2))
    for size in (1, 2, 4):
        check(join_of("stu", rows_windows(3, size), unit="rows", order="time"), streams, random.Random(3))


def test_the_source_named_first_comes_first_among_rows_of_one_time() -> None:
    """At time 5 both rows of A stand before that of B, so B sees the last of them; at 6 A sees B."""
    join = join_of("st", rows_windows(2, 1), unit="rows", order="time")
    streams = {"s": rows_of([5, 5, 6]), "t": rows_of([5, 7])}
    found = check(join, streams, random.Random(1))
    assert [result.rows for result in found] == [(1, 0), (2, 0), (2, 1)]


def test_gaps_of_years() -> None:
    times = [t + year * YEAR for year in (0, 1, 30, 2_000) for t in (0, 1, 2, 5)]
    for size in (2, YEAR):
        join = join_of("stu", [(0, 1, -size, size), (1, 2, -size, size)], conditions(SAME_I))
        streams = {name: rows_of(times, i=1) for name in "stu"}
        assert check(join, streams, random.Random(1))


def test_times_before_1970() -> None:
    times = [-YEAR, -YEAR + 1, -11, -10, -1, -1, 0, 3, 12]
    for order in ("arrival", "time"):
        join = join_of("st", [(0, 1, -1, 10)], order=order)
        streams = {name: rows_of(times) for name in "st"}
        assert len(check(join, streams, random.Random(1))) > len(times)


def test_windows_as_wide_as_time_itself() -> None:
    """The windows of a chain add up to more than 64 bits hold."""
    wide = 2**61
    join = join_of("stuvw", [(i, i + 1, -wide, wide) for i in range(4)])
    streams = {name: rows_of([-8_000 * YEAR // 10, 5 * YEAR]) for name in "stuvw"}
    for order in ("arrival", "time"):
        assert len(check(Join(join.sources, join.windows, order=order), streams, random.Random(1))) == 32


# -- streams that do not keep step -------------------------------------------------------------------


@pytest.mark.parametrize("order", ["arrival", "time"])
def test_one_stream_empty(order: Any) -> None:
    join = join_of("stu", uniform(3, 10), order=order)
    harness = join.harness()
    for name in "st":
        harness.push(name, table_of(rows_of(range(20))))
    assert harness.run(rows=6).num_rows == 0
    harness.advance("u", 15)
    assert harness.step().num_rows == 0
    assert check(join, {"s": rows_of(range(9)), "t": rows_of(range(9)), "u": []}, random.Random(1)) == []


def test_one_stream_far_ahead_until_the_other_catches_up() -> None:
    join = join_of("st", uniform(2, 10), conditions(SAME_I))
    streams = {"s": rows_of(range(300), i=[n % 7 for n in range(300)]), "t": rows_of(range(300), i=3)}
    found = results(join, streams)
    harness = join.harness()
    harness.push("s", table_of(streams["s"]))
    assert harness.run(rows=50).num_rows == 0
    assert harness.operator.needs(harness.offsets)["s"].time == MIN_TIME
    for at in range(0, 300, 40):
        harness.push("t", table_of(streams["t"][at : at + 40]))
        start = harness.offsets
        answer = told(harness.step())
        assert answer == batch(join, found, start, harness.offsets)
        assert {row[-1] for row in answer} == {299}
    assert harness.answers().num_rows == len(found)


def test_results_that_are_complete_do_not_wait_for_a_stalled_stream() -> None:
    streams = {"s": rows_of(range(40)), "t": rows_of([3, 4, 5])}
    eager, patient = (join_of("st", uniform(2, 20), order=order) for order in ("arrival", "time"))
    eager_harness, patient_harness = eager.harness(), patient.harness()
    for harness in (eager_harness, patient_harness):
        harness.push("t", table_of(streams["t"]))
        harness.step()
    for row in streams["s"]:
        for harness in (eager_harness, patient_harness):
            harness.push("s", table_of([row]))
        wanted = [(row["n"], n, max(row["t"], 5)) for n, t in enumerate([3, 4, 5]) if abs(row["t"] - t) <= 20]
        assert sorted(told(eager_harness.step())) == sorted(wanted)
        patient_harness.step()
    assert told(patient_harness.answers()) == [(*r.rows, r.time) for r in results(patient, streams) if r.time < 5]
    patient_harness.advance("t", 1_000)
    assert {row[-1] for row in told(patient_harness.step())} == set(range(5, 26))
    assert patient_harness.answers().num_rows == eager_harness.answers().num_rows == 75


def test_rows_on_the_edge_of_the_common_time_wait() -> None:
    """In order of time a row of the very time that was reached may be followed by another of that time."""
    join = join_of("st", uniform(2, 0), order="time")
    harness = join.harness()
    harness.push("s", table_of(rows_of([5])))
    harness.push("t", table_of(rows_of([5])))
    assert harness.step().num_rows == 0
    harness.push("s", table_of([{**row, "n": 1} for row in rows_of([5])]))
    harness.advance("s", 6)
    assert harness.step().num_rows == 0
    harness.advance("t", 6)
    assert told(harness.step()) == [(0, 0, 5), (1, 0, 5)]


def test_heartbeats_move_the_time_of_later_answers() -> None:
    join = join_of("st", uniform(2, 100))
    harness = join.harness()
    harness.push("s", table_of(rows_of([10])))
    harness.advance("s", 50)
    harness.step()
    harness.push("t", table_of(rows_of([20])))
    assert told(harness.step()) == [(0, 0, 50)]
    harness.replay()
    assert harness.operator.reached(harness.offsets) == 50


# -- one stream twice --------------------------------------------------------------------------------


def test_a_row_joins_itself_if_the_condition_says_so() -> None:
    rows = rows_of(range(6), i=[1, 1, 2, 2, 1, None])
    itself = check(join_of("ss", uniform(2, 2), conditions(SAME_I)), {"s": rows}, random.Random(1))
    assert [r.rows for r in itself if r.rows[0] == r.rows[1]] == [(n, n) for n in range(5)]
    later = check(join_of("ss", uniform(2, 2), conditions(SAME_I, ROWS_IN_TURN)), {"s": rows}, random.Random(1))
    assert [r.rows for r in later] == [(0, 1), (2, 3)]


def test_a_stream_joined_with_itself_has_a_filter_on_each_side() -> None:
    sources = (
        Source("x", "s", Filter("i = 1", lambda row: row["i"] == 1)),
        Source("y", "s", Filter("i = 2", lambda row: row["i"] == 2)),
    )
    join = Join(sources, ((0, 1, -3, 3),))
    rows = rows_of(range(12), i=[1, 2, 3] * 4)
    found = check(join, {"s": rows}, random.Random(1))
    assert {(rows[n]["i"], rows[m]["i"]) for _, (n, m) in found} == {(1, 2)}


def test_windows_of_rows_count_rows_that_the_filter_leaves_out() -> None:
    """As WINDOW = n ROWS of one stream does, it counts rows of the stream, before WHERE."""
    sources = (Source("A", "s", Filter("ok", lambda row: row["ok"])), Source("B", "t"))
    join = Join(sources, ((0, 1, 2, 2),), unit="rows", order="time")
    streams = {"s": rows_of([1, 2, 3, 4], ok=[True, True, False, False]), "t": rows_of([3, 5])}
    assert [r.rows for r in check(join, streams, random.Random(1))] == [(1, 0)]


# -- what is still needed ----------------------------------------------------------------------------


def least_row(harness: OperatorHarness, stream: str, rows: list[Row]) -> int:
    """The first row of a stream that the operator says it still needs."""
    floor = harness.operator.needs(harness.offsets)[stream]
    starts = [] if floor.row is None else [floor.row]
    if floor.time is not None:
        starts.append(sum(row["t"] < floor.time for row in rows))
    return max(min(starts, default=0) - floor.before, 0)


NARROW: dict[str, Join] = {
    "pair": join_of("st", uniform(2, 5)),
    "uniform": join_of("stu", uniform(3, 5)),
    "different": join_of("stu", [(0, 1, -2, 2), (1, 2, -9, 9), (0, 2, -4, 4)]),
    "chain": join_of("stuv", [(0, 1, -3, 3), (1, 2, -4, 4), (2, 3, -5, 5)]),
    "star": join_of("stuv", [(0, 1, -3, 3), (0, 2, -4, 4), (3, 0, -5, 5)]),
    "one_way": join_of("stu", [(0, 1, 2, 8), (1, 2, -7, -3)]),
    "itself": join_of("sts", [(0, 1, -3, 3), (1, 2, 0, 6)]),
    "itself_alone": join_of("ss", [(0, 1, 1, 6)]),
    "zero": join_of("st", uniform(2, 0)),
}


@pytest.mark.parametrize("order", ["arrival", "time"])
@pytest.mark.parametrize("name", NARROW)
def test_old_rows_leave_when_no_stream_can_reach_them(name: str, order: Any) -> None:
    """Also over streams between that no window binds; and never earlier, which the harness sees."""
    join = Join(NARROW[name].sources, NARROW[name].windows, order=order)
    names = sorted({source.stream for source in join.sources})
    chance = random.Random(1)
    streams = {n: rows_of(sorted(chance.randrange(200) for _ in range(60))) for n in names}
    found = results(join, streams)
    harness = join.harness()
    moved = dict.fromkeys(names, 0)
    for at in range(0, 60, 4):
        # The first stream is ahead of the others by one batch.
        for n in names:
            behind = 4 if n == names[0] else 0
            harness.push(n, table_of(streams[n][max(at - 4 + behind, 0) : at + behind]))
        start = harness.offsets
        assert told(harness.step()) == batch(join, found, start, harness.offsets)
        harness.forget()
        for n in names:
            taken = harness.offsets[n].row
            needed = sum(row["t"] < oldest_needed(join, harness.offsets, n) for row in streams[n][:taken])
            assert least_row(harness, n, streams[n][:taken]) == needed
            moved[n] = max(moved[n], needed)
    assert min(moved.values()) > 30


def test_rows_that_a_stalled_stream_may_still_reach_stay() -> None:
    """More than the window behind one stream alone is not enough to leave."""
    join = join_of("stu", uniform(3, 10))
    harness = join.harness()
    rows = rows_of(range(0, 200, 2))
    for name in "st":
        harness.push(name, table_of(rows))
    harness.push("u", table_of(rows_of([50])))
    harness.run(rows=9)
    assert [least_row(harness, name, rows) for name in "st"] == [20, 20]
    harness.advance("u", 120)
    harness.step()
    assert [least_row(harness, name, rows) for name in "st"] == [55, 55]


@pytest.mark.slow
def test_rows_of_windows_of_rows_leave() -> None:
    join = join_of("st", rows_windows(2, 5), unit="rows", order="time")
    harness = join.harness()
    for at in range(0, 100, 10):
        for name in "st":
            harness.push(name, table_of(rows_of(range(100))[at : at + 10]))
        harness.step()
        harness.forget()
    assert all(80 <= least_row(harness, name, rows_of(range(100))) <= 94 for name in "st")
    assert told(harness.answers()) == [
        (*r.rows, r.time) for r in results(join, {n: rows_of(range(100)) for n in "st"}) if r.time < 99
    ]


def test_narrow_windows_over_a_long_time_read_little() -> None:
    """A batch reads its own rows and those of its windows, not the stream again."""
    join = join_of("st", uniform(2, 10), conditions(SAME_I))
    harness = join.harness()
    chance = random.Random(9)
    streams = {name: rows_of(range(3_000), i=[chance.randrange(9) for _ in range(3_000)]) for name in "st"}
    for name, rows in streams.items():
        harness.push(name, table_of(rows))
    for _ in range(30):
        harness.step(rows=100)
    i = {name: np.array([row["i"] for row in rows]) for name, rows in streams.items()}
    wanted = sum(
        int((i["s"][max(k, 0) : 3_000 + min(k, 0)] == i["t"][max(-k, 0) : 3_000 - max(k, 0)]).sum())
        for k in range(-10, 11)
    )
    assert harness.answers().num_rows == wanted
    assert harness.work.rows_read <= 3 * 6_000


# -- columns -----------------------------------------------------------------------------------------


def test_columns_are_computed_from_all_sources_and_the_time() -> None:
    operator = WindowJoin(
        sources=(("left one", "s", None), ("r", "t", None)), unit="time", windows=((0, 1, -9, 9),),
        conditions=("`left one.i` = `r.l`",),
        columns=(
            ("sum", "`left one.i` + `r.l`"), ("both", "`left one.s` || `r.s`"), ("one", "1"), ("at", "_time"),
            ("late", "_time > `r.ts`"),
        ),
        time="at", order="time",
    )  # fmt: skip
    harness = OperatorHarness(operator, {"s": SCHEMA, "t": SCHEMA})
    harness.push("s", table_of(rows_of([1, 2], i=[3, 4], s=["a", None])))
    harness.push("t", table_of(rows_of([1, 1, 5], l=[4, 3, 3], s="z")))
    for name in "st":
        harness.advance(name, 99)
    answer = harness.step()
    assert answer.schema == pa.schema(
        [("sum", pa.int64()), ("both", pa.string()), ("one", pa.int32()), ("at", TIME_TYPE), ("late", pa.bool_())]
    )
    columns = [answer.column(name).to_pylist() for name in ("sum", "both", "one", "late")]
    assert list(zip(*columns, strict=True)) == [(6, "az", 1, False), (8, None, 1, True), (6, "az", 1, False)]
    assert answer.column("at").cast(pa.int64()).to_pylist() == [1, 2, 5]


def test_names_with_dots_quotes_and_blanks() -> None:
    schema = StreamSchema.of({"a.b": "INT", "it's `it`": "INT", "n": "INT", "when": "TIMESTAMP"}, time="when")
    operator = WindowJoin(
        sources=(("x y", "one stream", "`a.b` > 0"), ("z", "other.stream", None)), unit="time",
        windows=((0, 1, -9, 9),), conditions=("`x y.a.b` = `z.it's ``it```",),
        columns=(("n", "`z.n`"), ("_time", "_time")), time="_time",
    )  # fmt: skip
    harness = OperatorHarness(operator, {"one stream": schema, "other.stream": schema})
    rows = [{"a.b": n % 3, "it's `it`": n % 4, "n": n, "when": f"1970-01-01 00:00:00.00000{n}"} for n in range(8)]
    harness.push("one stream", rows)
    harness.push("other.stream", rows)
    harness.step()
    harness.restart()
    wanted = [m for n in range(8) for m in range(8) if n % 3 > 0 and n % 3 == m % 4]
    assert sorted(harness.answers().column("n").to_pylist()) == sorted(wanted)


# -- many rows ---------------------------------------------------------------------------------------


def numbered(times: np.ndarray[Any, Any], i: np.ndarray[Any, Any]) -> pa.Table:
    schema = pa.schema([("n", pa.int32()), ("i", pa.int32()), ("ts", TIME_TYPE)])
    arrays = [np.arange(len(times), dtype=np.int32), i.astype(np.int32)]
    return pa.Table.from_arrays([*map(pa.array, arrays), pa.array(times).cast(TIME_TYPE)], schema=schema)


SMALL = StreamSchema.of({"n": "INT", "i": "INT", "ts": "TIMESTAMP"}, time="ts")


@pytest.mark.parametrize("parallelism", [1, 3])
def test_more_results_than_one_block_holds(parallelism: int) -> None:
    join = join_of("st", uniform(2, 10_000))
    harness = OperatorHarness(join.operator(), {"s": SMALL, "t": SMALL})
    times = np.sort(np.random.default_rng(1).integers(0, 9_000, 700))
    for name in "st":
        harness.push(name, numbered(times, times))
    answer = harness.step(parallelism)
    a, b = (grid.ravel() for grid in np.meshgrid(np.arange(700), np.arange(700), indexing="ij"))
    newest = np.maximum(times[a], times[b])
    by = np.lexsort((b, a, newest))
    for column, wanted in zip(answer.columns, (a[by], b[by], newest[by]), strict=True):
        assert np.array_equal(column.cast(pa.int64()).to_numpy(), wanted)


@pytest.mark.slow
def test_millions_of_rows_in_one_window() -> None:
    count, keys = (5_000_000, 4_000_000) if ALL else (1_500_000, 1_200_000)
    random_numbers = np.random.default_rng(2)
    i = [random_numbers.integers(0, keys, count) for _ in "st"]
    times = np.arange(count)
    join = join_of("st", uniform(2, count), conditions(SAME_I))
    harness = OperatorHarness(join.operator(), {"s": SMALL, "t": SMALL})
    for name, values in zip("st", i, strict=True):
        harness.push(name, numbered(times, values))
    for _ in range(4):
        harness.step(rows=count // 4)
    answer = harness.answers()
    a, b = (answer.column(name).to_numpy() for name in "AB")
    counts = [np.bincount(values, minlength=keys) for values in i]
    assert len(a) == int((counts[0] * counts[1]).sum())
    assert np.array_equal(i[0][a], i[1][b])
    assert len(np.unique(a.astype(np.int64) * count + b)) == len(a)


@pytest.mark.parametrize(
    "windows", [((0, 1, 2, 2), (1, 2, 2, 2)), ((0, 1, 2, 2), (1, 2, 2, 2), (0, 2, 3, 3))], ids=["left out", "another"]
)
def test_windows_of_rows_are_given_for_all_pairs_or_refused(windows: Any) -> None:
    """A result would otherwise need rows that are further back than any window says."""
    sources = tuple((alias, "s", None) for alias in "ABC")
    with pytest.raises(QueryError, match="windows of ROWS are the same for all pairs"):
        WindowJoin(sources, "rows", windows, (), (("_time", "_time"),), "_time")


@pytest.mark.parametrize("count", [1, 7, 60])
def test_the_scratch_says_how_many_rows_are_kept(count: int) -> None:
    """Those of the windows, of both sources; not as many as there ever were."""
    join = join_of("st", uniform(2, 10), conditions(SAME_I))
    harness = join.harness()
    for at in range(count):
        for name in "st":
            harness.push(name, table_of(rows_of([100 + at], i=[1])))
        harness.work = Work()
        harness.step()
    assert 2 * min(count, 10) - 1 <= harness.work.scratch_rows <= 2 * min(count, 13)
    assert harness.work.scratch_bytes > 0
    harness.work = Work()
    harness.advance("s", 10_000)
    harness.step()
    assert not harness.work.measured or harness.work.scratch_rows > 0

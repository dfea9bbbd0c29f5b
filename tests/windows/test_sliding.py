"""A sliding window answers as if it kept every tuple, whatever it is made of."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.windows import RINGS, Ranges, SlidingWindow, make_storage
from anabranch.windows.answering import is_number
from anabranch.windows.index import make_index
from tests.sampling import examples
from tests.windows.naive import NaiveWindow, same

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole numbers": (pa.int64(), st.integers(-3, 3) | st.integers(-(2**53), 2**53)),
    "bytes": (pa.int8(), st.integers(-128, 127)),
    "doubles": (pa.float64(), st.sampled_from([float("nan"), float("inf"), -0.0, 0.0, -1.5, 1.5, 1e300])),
    "text": (pa.string(), st.text("ab", max_size=4)),
    "decimals": (pa.decimal128(9, 2), st.integers(-99, 99).map(lambda n: Decimal(n) / 4)),
    "times": (pa.timestamp("us"), st.integers(0, 9).map(lambda n: datetime.datetime(2026, 1, 1 + n))),  # noqa: DTZ001
}

LAYOUTS: list[tuple[str | None, str | None, str | None]] = [
    *itertools.product(["LIST", "AGGR", "HASH"], ["L", "T", "H", "UH"], [None]),
    *itertools.product(["LIST"], ["L", "T", "H", "UH"], RINGS),
    (None, None, None),
    (None, None, "DB"),
]


@st.composite
def streams(draw: st.DrawFn) -> list[list[tuple[str, Any]]]:
    """Batches of tuples (value, step in time), heartbeats and changes of `every`."""
    values = draw(st.sampled_from(list(VALUES)))
    value = st.none() | VALUES[values][1]
    step = st.sampled_from([0, 0, 1, 2, 7, 60, -1, -5, -30])
    rows = st.lists(st.tuples(value, step), max_size=14)
    event = (
        st.tuples(st.just("append"), rows)
        | st.tuples(st.just("advance"), st.sampled_from([0, 3, 20, 1000]))
        | st.tuples(st.just("every"), st.integers(1, 4))
    )
    return [[("type", values)], draw(st.lists(event, max_size=25))]


def check(window: SlidingWindow, naive: NaiveWindow, ring: bool) -> None:
    values = naive.values()
    assert window.count() == len(values)
    assert window.distinct() == len(set(values))
    assert window.late == naive.late
    assert pairs(window.histogram()) == naive.histogram()
    for k in (1, 3):
        assert pairs(window.top(k)) == naive.top(k)
    assert same(window.mode().as_py()) == (naive.top(1)[0][0] if values else None)
    for p in (0, 0.25, 1 / 3, 0.5, 0.99, 1):
        assert same(window.quantile(p, discrete=True).as_py()) == naive.discrete_quantile(p)
        if is_number(window.domain.type):
            assert same(window.quantile(p)) == same(naive.quantile(p))
    if is_number(window.domain.type):
        assert same(window.median()) == same(naive.quantile(0.5))
    assert [same(v) for v in window.sorted().column("value").to_pylist()] == values
    assert window.self_join_size() == sum(n * n for _, n in naive.histogram())
    for value in {t.value for t in naive.tuples[-6:]}:
        assert window.frequency(value) == values.count(same(value))
    if ring:
        check_ring(window, naive)


def check_ring(window: SlidingWindow, naive: NaiveWindow) -> None:
    visible = naive.visible()
    if visible:
        assert window.sorted(["row"]).column("row").to_pylist() == [t.row for t in visible]
        joined = window.self_join()
        assert list(
            zip(joined.column("left_row").to_pylist(), joined.column("right_row").to_pylist(), strict=True)
        ) == [(a.row, b.row) for a in visible for b in visible if same(a.value) == same(b.value)]
        assert joined.num_rows == window.self_join_size()
    for value in {t.value for t in naive.tuples[-6:]}:
        rows = [t.row for t in visible if same(t.value) == same(value)]
        assert window.lookup(value).num_rows == len(rows)
        if rows:
            assert window.lookup(value).column("row").to_pylist() == rows


def pairs(table: pa.Table) -> list[tuple[Any, int]]:
    values = [same(v) for v in table.column("value").to_pylist()]
    return list(zip(values, table.column("count").to_pylist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["rows", "time"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: "-".join(str(part) for part in layout))
@examples(25)
@given(
    stream=streams(),
    shape=st.sampled_from([(4, 1), (6, 3), (40, 4), (20, 20)]),
    delay=st.sampled_from([0, 0, 3, 25]),
    memory_bytes=st.sampled_from([None, 0, 40]),
)
@example(  # all tuples in one instant
    stream=[[("type", "whole numbers")], [("append", [(1, 0)] * 14), ("append", [(2, 0)] * 3), ("advance", 1000)]],
    shape=(6, 3),
    delay=0,
    memory_bytes=None,
)
@example(  # a gap longer than the window
    stream=[[("type", "text")], [("append", [("a", 0), ("b", 60), ("a", 60)]), ("append", [("c", 1)])]],
    shape=(6, 3),
    delay=3,
    memory_bytes=0,
)
def test_a_window_equals_keeping_every_tuple(
    unit: Literal["rows", "time"],
    layout: tuple[str | None, str | None, str | None],
    stream: list[list[tuple[str, Any]]],
    shape: tuple[int, int],
    delay: int,
    memory_bytes: int | None,
) -> None:
    storage, index, ring = layout
    type_ = VALUES[stream[0][0][1]][0]
    delay = delay if unit == "time" else 0
    window = SlidingWindow(
        *shape,
        unit,
        storage=storage,
        index=index,
        ring=ring,
        type=type_,
        delay=delay,
        memory_bytes=memory_bytes,
    )
    window.domain._spacing = 1
    naive = NaiveWindow(*shape, unit, delay)
    time, went, since, every = 1_000, 0, 0, 1
    for event, content in stream[1]:
        if event == "every":
            window.every = every = content
            continue
        if event == "advance":
            if unit == "rows":
                continue
            time += content
            naive.advance(time)
            moved = window.advance(time)
        else:
            times = []
            rows = list(range(naive.rows, naive.rows + len(content)))
            for value, step in content:
                # A step back is one tuple out of order; a step forward moves the stream on.
                time += max(step, 0)
                times.append(time + min(step, 0))
                naive.append(value, times[-1])
            column = pa.array([value for value, _ in content], type_)
            moved = window.append(column, np.array(times, np.int64), pa.table({"row": pa.array(rows, pa.int64())}))
        assert moved == naive.went - went
        went = naive.went
        since += moved
        assert window.due == (since >= every)
        if since >= every:
            since %= every
        check(window, naive, ring is not None)


@pytest.mark.parametrize("index", ["L", "T", "H", "UH", None])
@pytest.mark.parametrize("storage", ["LIST", "AGGR", "HASH", None])
@examples(20)
@given(
    rows=st.lists(st.tuples(st.integers(-4, 4), st.integers(0, 5)), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=6),
)
def test_groups_do_not_mix(storage: Any, index: Any, rows: list[tuple[int, int]], cuts: list[int]) -> None:
    window = SlidingWindow(12, 4, storage=storage, index=index, groups=2)
    naive = NaiveWindow(12, 4, "rows")
    for low, high in itertools.pairwise(sorted({0, *cuts, len(rows)})):
        batch = rows[low:high]
        window.append(np.array([v for v, _ in batch], np.int64), groups=[g for _, g in batch])
        for value, group in batch:
            naive.append(value, 0, group)
        for group in range(window.index.groups):
            assert pairs(window.histogram(group)) == naive.histogram(group)
            assert window.distinct(group) == len(naive.histogram(group))
            if naive.values(group):
                assert window.mode(group).as_py() == naive.top(1, group)[0][0]
                assert window.quantile(0, True, group).as_py() == naive.values(group)[0]
                assert window.quantile(1, True, group).as_py() == naive.values(group)[-1]


@pytest.mark.parametrize("ring", RINGS)
@pytest.mark.parametrize("index", ["L", "T", "H", "UH"])
@examples(15)
@given(rows=st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 2)), max_size=60), size=st.sampled_from([1, 7, 60]))
def test_rings_of_groups_do_not_mix(ring: str, index: str, rows: list[tuple[int, int]], size: int) -> None:
    window = SlidingWindow(12, 4, index=index, ring=ring, groups=1)
    naive = NaiveWindow(12, 4, "rows")
    for low in range(0, len(rows), size):
        batch = rows[low : low + size]
        numbers = pa.table({"row": pa.array(range(low, low + len(batch)), pa.int64())})
        window.append([v for v, _ in batch], rows=numbers, groups=[g for _, g in batch])
        for value, group in batch:
            naive.append(value, 0, group)
        for group in range(window.index.groups):
            visible = naive.visible(group)
            assert window.sorted(group=group).column("value").to_pylist() == [t.value for t in visible]
            if naive.complete:
                assert window.sorted(["row"], group).column("row").to_pylist() == [t.row for t in visible]
                found = window.lookup(1, group=group).column("row").to_pylist()
                assert found == [t.row for t in visible if t.value == 1]


@pytest.mark.parametrize("storage", ["LIST", "GROUP"])
@examples(40)
@given(
    values=st.lists(st.none() | st.integers(-20, 130), max_size=60),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    groups=st.booleans(),
)
def test_a_grouped_index_counts_the_ranges_of_the_window(
    storage: str, values: list[int | None], cuts: list[int], groups: bool
) -> None:
    ranges = Ranges.equal(0, 100, 10)
    options = {"ranges": ranges} if storage == "GROUP" else {}
    window = SlidingWindow(
        12,
        4,
        storage=make_storage(storage, **options),
        index=make_index("G", ranges=ranges),
        groups=2 if groups else None,
    )
    naive = NaiveWindow(12, 4, "rows")
    owners = [i % 2 if groups else 0 for i in range(len(values))]
    for low, high in itertools.pairwise(sorted({0, *cuts, len(values)})):
        window.append(values[low:high], groups=owners[low:high] if groups else None)
        for value, group in zip(values[low:high], owners[low:high], strict=True):
            naive.append(None if value is None else min(max(value // 10, 0), 9) * 10 + 4, 0, group)
        for group in range(2 if groups else 1):
            assert pairs(window.histogram(group)) == naive.histogram(group)
            assert pairs(window.top(2, group)) == naive.top(2, group)
            if naive.values(group):
                assert window.mode(group).as_py() == naive.top(1, group)[0][0]
                middle = naive.values(group)[(len(naive.values(group)) - 1) // 2]
                assert window.quantile(0.5, True, group).as_py() == middle


@examples(30)
@given(
    rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40)), max_size=80),
    cuts=st.lists(st.integers(0, 80), max_size=8),
    delay=st.sampled_from([0, 7]),
    unit=st.sampled_from(["rows", "time"]),
)
def test_batches_make_no_difference(rows: list[tuple[int, int]], cuts: list[int], delay: int, unit: Any) -> None:
    whole, parts = (SlidingWindow(24, 4, unit, delay=delay if unit == "time" else 0) for _ in range(2))
    values, times = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    went = whole.append(values, times)
    bounds = sorted({0, *cuts, len(rows)})
    assert sum(parts.append(values[a:b], times[a:b]) for a, b in itertools.pairwise([*bounds, len(rows)])) == went
    assert parts.histogram() == whole.histogram()
    assert parts.late == whole.late


def test_the_newest_basic_window_is_invisible_until_it_is_full() -> None:
    window = SlidingWindow(4, 2)
    assert window.append([1]) == 0
    assert (window.count(), window.median(), window.mode().as_py()) == (0, None, None)
    assert window.append([2]) == 1
    assert window.sorted().column("value").to_pylist() == [1, 2]


def test_null_fills_a_window_of_rows_but_is_in_no_answer() -> None:
    window = SlidingWindow(4, 2)
    assert window.append([1, None, None, None, 3, 4]) == 3
    assert window.sorted().column("value").to_pylist() == [3, 4]
    assert window.append(pa.nulls(4, pa.int64())) == 2
    assert window.count() == 0


def test_null_and_groups_without_tuples_are_asked_for_in_vain() -> None:
    for type_ in (pa.int64(), pa.string()):
        window = SlidingWindow(2, 1, type=type_, ring="DB", groups=1)
        window.append(pa.array([1, 2]).cast(type_), groups=[0, 0])
        assert window.frequency(None) == window.lookup(None).num_rows == 0
        assert window.count(9) == window.distinct(10) == window.frequency(None, 11) == 0
        assert window.histogram(12).num_rows == window.sorted(group=13).num_rows == window.top(3, 14).num_rows == 0
        assert window.mode(15).as_py() is window.quantile(0.5, True, 16).as_py() is None
        with pytest.raises(ValueError, match="not -1"):
            window.count(-1)


@pytest.mark.parametrize("size", [1, 7, 100, 1000])
def test_discrete_quantiles_are_the_first_with_so_large_a_part_below(size: int) -> None:
    window = SlidingWindow(size, 1)
    window.append(np.arange(size))
    for hundredths in range(101):
        wanted = next(i for i in range(size) if (i + 1) / size >= hundredths / 100)
        assert window.quantile(hundredths / 100, discrete=True).as_py() == wanted


def test_a_heartbeat_empties_a_window_over_time() -> None:
    window = SlidingWindow(datetime.timedelta(seconds=10), 5, "time")
    window.append([1, 2], [datetime.datetime(2026, 1, 1, 0, 0, second, tzinfo=datetime.UTC) for second in (1, 3)])
    assert window.count() == 1
    assert window.advance(datetime.datetime(2026, 1, 1, 0, 0, 4, tzinfo=datetime.UTC)) == 1
    assert window.count() == 2
    assert window.advance(datetime.datetime(2036, 1, 1, tzinfo=datetime.UTC)) > 1e8
    assert window.count() == 0


def test_one_time_is_kept_per_basic_window_that_of_its_oldest_tuple() -> None:
    window = SlidingWindow(40, 4, "time", delay=10)
    window.append([1, 2, 3], [18, 13, 24])
    window.advance(70)
    assert [w.time for w in window.basic_windows.attached()] == [24]
    window = SlidingWindow(40, 4, "time", delay=10)
    window.append([1, 2, 3], [18, 13, 24])
    window.advance(30)
    assert [(w.number, w.time) for w in window.basic_windows.attached()] == [(1, 13)]


def test_entries_beyond_the_budget_are_in_a_file_that_does_not_grow() -> None:
    window = SlidingWindow(1000, 10, memory_bytes=2000, storage="LIST")
    sizes = []
    for first in range(0, 20_000, 100):
        window.append(np.arange(first, first + 100) % 77)
        assert window.basic_windows.nbytes <= 2000
        sizes.append(window.basic_windows.spilled_bytes)
        held = np.arange(max(0, first - 900), first + 100) % 77
        assert window.histogram().column("count").to_pylist() == np.unique(held, return_counts=True)[1].tolist()
    assert 0 < max(sizes) <= 4000


def test_values_that_are_gone_are_forgotten() -> None:
    window = SlidingWindow(100, 10, type=pa.string())
    for first in range(0, 5000, 10):
        window.append([f"{n * 7919 % 10007:05}" for n in range(first, first + 10)])
    assert len(window.domain) <= 140
    assert window.index.live <= 140
    assert window.count() == window.distinct() == 100


def test_what_is_handed_in_may_be_written_to_again() -> None:
    window = SlidingWindow(4, 2)
    for dtype in (np.int64, np.int32):
        values = np.array([7], dtype)
        window.append(values)
        values[0] = 9
    assert window.sorted().column("value").to_pylist() == [7, 7]


def structures(window: SlidingWindow) -> tuple[str, str]:
    """The names of the storage and of the index, which have been chosen."""
    assert window.basic_windows.storage is not None
    return window.basic_windows.storage.name, window.index.name


def test_structures_are_chosen_when_the_first_basic_window_is_complete() -> None:
    few, many = SlidingWindow(100_000, 10), SlidingWindow(1000, 10, needs=["count"])
    few.append(np.arange(20_000) % 50)
    many.append(np.arange(200))
    assert structures(few) == ("HASH", "T")
    assert structures(many) == ("LIST", "H")
    assert many.distinct() == 200
    groups = SlidingWindow(100_000, 10, groups=9000)
    groups.append(np.arange(20_000) % 5, groups=np.arange(20_000) % 9973)
    assert structures(groups)[0] == "LIST"


def test_ranges_answer_within_their_error() -> None:
    dice = np.random.default_rng(5)
    ranges = Ranges.relative(6, pa.float64())
    storage, index = make_storage("GROUP", ranges=ranges), make_index("G", ranges=ranges)
    window = SlidingWindow(10_000, 20, storage=storage, index=index, type=pa.float64())
    values = dice.lognormal(0, 3, 35_000)
    window.append(values)
    held = np.sort(values[-10_000:])
    for p in (0.01, 0.5, 0.9, 0.999):
        exact = held[int(np.ceil(p * len(held))) - 1]
        assert abs(window.quantile(p, discrete=True).as_py() - exact) <= exact / 2**6
    assert window.count() == 10_000
    assert window.index.live < 2_000


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"size": 10, "basic_windows": 3}, "10 cannot be divided into 3"),
        ({"size": 10, "basic_windows": 0}, "into 0"),
        ({"size": 10, "basic_windows": 2, "unit": "days"}, "'rows' or 'time'"),
        ({"size": 10, "basic_windows": 2, "delay": 1}, "no delay"),
        ({"size": 10, "basic_windows": 2, "ring": "DB", "storage": "AGGR"}, "LIST, not AGGR"),
        ({"size": 10, "basic_windows": 2, "every": 0}, "every 0"),
    ],
)
def test_a_window_that_cannot_be_made_says_why(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        SlidingWindow(**arguments)


def test_questions_that_cannot_be_answered_say_why() -> None:
    window = SlidingWindow(2, 1, type=pa.string())
    window.append(["a", "b"])
    rings = SlidingWindow(2, 1, type=pa.string(), needs=["lookup"])
    rings.append(["a"], rows=pa.table({"x": [1]}))
    groups = SlidingWindow(2, 1, type=pa.string(), groups=1)
    refused: list[tuple[Callable[[], object], str]] = [
        (window.median, "discrete=True"),
        (lambda: window.quantile(2, True), "between 0 and 1"),
        (lambda: window.lookup("a"), "ring='DB'"),
        (lambda: window.sorted(["x"]), "ring='DB'"),
        (lambda: window.advance(3), "clock"),
        (lambda: window.append(["a"], groups=[0]), "made with groups"),
        (lambda: window.append(["a"], [1, 2]), "as many times, not 2"),
        (lambda: rings.append(["a"]), "with all tuples or with none"),
        (lambda: rings.append(["a"], rows=pa.table({"x": [1, 2]})), "as many rows, not 2"),
        (lambda: groups.append(["a"]), "made with groups"),
        (lambda: groups.append(["a"], groups=[-1]), "from 0 on"),
    ]
    for ask, says in refused:
        with pytest.raises(ValueError, match=says):
            ask()
    # What was refused has left no trace.
    assert rings.append(["b"], rows=pa.table({"x": [2]})) == 1
    assert rings.lookup("b").to_pydict() == {"value": ["b"], "x": [2]}
    assert window.append(["c"]) == 0
    with pytest.raises(ValueError, match="needs the times"):
        SlidingWindow(2, 1, "time").append([1])
    with pytest.raises(ValueError, match="have no time"):
        SlidingWindow(2, 1, "time").append([1], pa.array([None], pa.timestamp("us")))


def test_a_window_is_drawn() -> None:
    window = SlidingWindow(4, 2, storage="AGGR", index="L")
    window.append([3, 3, 1, 2, 5], np.arange(5))
    assert window.draw().splitlines() == [
        "0 from 0 → 3:2",
        "1 from 2 → 1:1 → 2:1",
        "1 tuples not yet visible",
        "L-INDEX",
        "→ 1:1 → 2:1 → 3:2",
    ]

"""Summaries of windows say what their rows say, and are read instead of them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.archive.summaries.lazy import LazySummaries
from anabranch.archive.summaries.questions import SummaryQuestion, answers, question_by_summaries, why_not
from anabranch.archive.summaries.reads import Summarised, summaries_for
from anabranch.archive.summaries.rollups import Shape, combine, summarise
from anabranch.log.offset import MIN_TIME, End
from anabranch.log.storage import Storage
from anabranch.testing.memory_log import MemoryLog

from .rollup_oracle import SCHEMA, VALUES, check, close, log_of, plain, some_rows

KEYS: list[tuple[str, ...]] = [(), ("k",), ("g",), ("k", "g")]


# -- pure functions ------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("every", [1, 7, 100, 10**6])
def test_summaries_equal_the_naive_ones(keys: tuple[str, ...], every: int) -> None:
    rows = some_rows(1, 400)
    check(summarise(rows, "ts", every, keys, VALUES), Shape(every, keys, VALUES), rows)


def test_summaries_of_rows_in_any_order_are_the_same() -> None:
    rows = some_rows(2, 300)
    mixed = rows.take(pa.array(np.random.default_rng(3).permutation(300)))
    check(summarise(mixed, "ts", 50, ("k",), VALUES), Shape(50, ("k",), VALUES), rows)


@pytest.mark.parametrize("keys", [(), ("k",)])
def test_summaries_of_nothing_are_none(keys: tuple[str, ...]) -> None:
    none = summarise(SCHEMA.arrow.empty_table(), "ts", 10, keys, VALUES)
    assert none.num_rows == 0
    assert none.schema == Shape(10, keys, VALUES).schema(SCHEMA.arrow)
    assert combine([none, none], Shape(10, keys, VALUES), 20, ()).num_rows == 0


def test_column_of_nulls_has_a_count_of_zero_and_nothing_else() -> None:
    rows = some_rows(4, 50).set_column(4, "d", pa.nulls(50, pa.float64()))
    summary = summarise(rows, "ts", 10**6, (), ("d",)).select(["d_count", "d_sum", "d_min", "d_max"])
    assert set(summary.to_pylist()[0].items()) == {("d_count", 0), ("d_sum", None), ("d_min", None), ("d_max", None)}


def test_sums_of_large_whole_numbers_are_exact() -> None:
    numbers = [2**63 - 1] * 1000 + [-(2**63)] * 3
    rows = pa.table({"ts": pa.array([0] * 1003).view(pa.timestamp("us", "UTC")), "b": numbers})
    summary = summarise(rows, "ts", 10, (), ("b",))
    assert int(summary.column("b_sum")[0].as_py()) == sum(numbers)
    twice = combine([summary, summary], Shape(10, (), ("b",)))
    assert int(twice.column("b_sum")[0].as_py()) == 2 * sum(numbers)


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("every", [20, 60, 2000])
def test_finer_summaries_add_up_to_coarser_ones_with_fewer_keys(keys: tuple[str, ...], every: int) -> None:
    rows = some_rows(5, 500)
    fine = Shape(20, ("k", "g"), VALUES)
    parts = [summarise(rows.slice(at, 90), "ts", 20, fine.keys, VALUES) for at in range(0, 500, 90)]
    check(combine(parts, fine, every, keys), Shape(every, keys, VALUES), rows)


def test_summaries_do_not_add_up_to_what_they_are_not_made_of() -> None:
    table = summarise(some_rows(6, 20), "ts", 20, ("k",), ("i",))
    for every, keys in [(30, ("k",)), (20, ("g",)), (10, ())]:
        with pytest.raises(ValueError, match="do not add up"):
            combine(table, Shape(20, ("k",), ("i",)), every, keys)


def test_names_of_columns_never_meet() -> None:
    shape = Shape(10, ("rows", "v_sum"), ("v",))
    assert len({name.lower() for name in shape.names}) == len(shape.names)
    rows = pa.table(
        {"ts": pa.array([1, 2]).view(pa.timestamp("us", "UTC")), "rows": [7, 7], "v_sum": ["x", "y"], "v": [1.0, 2.0]}
    )
    table = summarise(rows, "ts", 10, shape.keys, shape.values)
    assert table.column(shape.rows_at).to_pylist() == [1, 1]
    assert combine(table, shape, 10, ()).column(2).to_pylist() == [2]


# -- read instead of rows ------------------------------------------------------------------------


class Counting:
    """A log that counts the rows read of it, other than to find its first and last time."""

    def __init__(self, log: MemoryLog, first: int = 0) -> None:
        self.log, self.first, self.rows = log, first, 0

    @property
    def schema(self) -> pa.Schema:
        return self.log.schema

    @property
    def time_column(self) -> str:
        return self.log.time_column

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        assert start >= self.first
        self.rows += 0 if columns == ["ts"] and end == start + 1 else end - start
        return self.log.read(start, end, columns)

    def row_at_time(self, time: int, end: int) -> int:
        return max(self.log.row_at_time(time, end), self.first)

    def first_row(self) -> int:
        return self.first


class Case:
    """A stream with summaries beside it."""

    def __init__(self, path: Path, rows: pa.Table, first: int = 0) -> None:
        self.rows, self.first = rows, first
        self.log = log_of(rows)
        self.storage = Storage(str(path))
        self.store = LazySummaries(self.storage, SCHEMA.arrow)

    def ask(
        self, shape: Shape, since: int | None = None, until: int | None = None, end: End | None = None, **more: Any
    ) -> Summarised:
        """The summaries, which are checked, and what was read for them, which is counted."""
        reader, end = Counting(self.log, self.first), end or self.log.offset().place
        found = summaries_for(reader, since, until, shape, end, self.store, **more)
        check(found.table, shape, self.rows.slice(self.first, end.row - self.first), since, until)
        assert found.rows_read == reader.rows
        return found


SHAPE = Shape(100, ("k",), VALUES)


def test_second_time_nothing_is_read_of_the_rows(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(7, 2000))
    first = case.ask(SHAPE, -300, 600)
    assert first.rows_read == first.rows_there > 1500
    again = case.ask(SHAPE, -300, 600)
    assert (again.rows_read, again.summaries_read) == (0, again.table.num_rows)
    assert repr(again.table.to_pydict()) == repr(first.table.to_pydict()), "to the last bit"
    assert again.fraction < 0.05 < first.fraction == 1
    another = LazySummaries(Storage(str(tmp_path)), SCHEMA.arrow)
    assert summaries_for(case.log, -300, 600, SHAPE, case.log.offset().place, another).rows_read == 0


def test_unaligned_range_reads_only_the_rows_of_its_edges(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(8, 2000))
    case.ask(SHAPE, -300, 600)
    edges = case.ask(SHAPE, -250, 550)
    times = case.rows.column("ts").cast(pa.int64()).to_numpy()
    assert edges.rows_read == ((times >= -250) & (times < -200)).sum() + ((times >= 500) & (times < 550)).sum()
    inside = case.ask(SHAPE, 120, 130)
    assert inside.rows_read == inside.rows_there
    assert case.store.covered(SHAPE) == [(-300, 600)]


@pytest.mark.slow
def test_random_ranges_keep_saying_the_same_as_rows(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(9, 1500))
    draw = np.random.default_rng(10)
    shapes = [SHAPE, Shape(50, ("k", "g"), VALUES), Shape(200, (), ("d", "i")), Shape(150, ("g",), ("b",))]
    read = there = 0
    for _ in range(60):
        since, until = sorted(draw.integers(-400, 800, 2).tolist())
        found = case.ask(shapes[draw.integers(len(shapes))], since, until)
        read, there = read + found.rows_read, there + found.rows_there
    assert read < there / 2


def test_window_is_kept_only_when_the_time_of_the_stream_has_passed_it(tmp_path: Path) -> None:
    rows = some_rows(11, 2000)
    case = Case(tmp_path, rows)
    times = rows.column("ts").cast(pa.int64()).to_numpy()
    border = int(np.searchsorted(times, 200))
    case.ask(SHAPE, end=End(border, 199))
    assert case.store.covered(SHAPE) == [(-300, 100)]
    case.ask(SHAPE, end=End(border, 200))
    assert case.store.covered(SHAPE) == [(-300, 200)]
    case.ask(SHAPE, end=End(border, 450))
    assert case.store.covered(SHAPE) == [(-300, 400)], "empty windows are known to be empty, by a heartbeat"


@pytest.mark.slow
def test_stream_that_grows_is_read_from_where_it_was(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(12, 2000))
    times = case.rows.column("ts").cast(pa.int64()).to_numpy()
    seen = 0
    for row in range(200, 2001, 200):
        found = case.ask(SHAPE, end=case.log.offset(row).place)
        window = int(np.searchsorted(times, times[seen - 1] // 100 * 100)) if seen else 0
        assert found.rows_read == row - window
        seen = row


def test_stream_without_rows_has_no_summaries(tmp_path: Path) -> None:
    case = Case(tmp_path, SCHEMA.arrow.empty_table())
    assert case.ask(SHAPE, end=End(0, MIN_TIME)).fraction == 1
    assert case.ask(SHAPE, 0, 1000, end=End(0, 5000)).table.num_rows == 0
    case = Case(tmp_path, some_rows(13, 100))
    assert case.ask(SHAPE, 5000, 6000).table.num_rows == 0
    assert case.ask(SHAPE, 50, 50).rows_read == 0


def test_quiet_times_between_rows_are_remembered_as_such(tmp_path: Path) -> None:
    case = Case(
        tmp_path, pa.concat_tables([some_rows(14, 50, span=90, start=0), some_rows(15, 50, span=90, start=10**6)])
    )
    case.ask(SHAPE, 0, 2 * 10**6)
    assert case.ask(SHAPE, 500, 900_000).rows_read == 0
    assert case.ask(SHAPE, 0, 10**6).rows_read == 0


def test_rows_removed_from_the_front_are_no_longer_counted(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(16, 2000))
    case.ask(SHAPE)
    case.first = 700
    later = case.ask(SHAPE)
    assert 0 < later.rows_read < 400, "the window that was cut, and the one that is still open"
    fresh = Case(tmp_path / "fresh", case.rows, first=700)
    fresh.ask(SHAPE)
    cut = int(case.rows.column("ts")[700].value) // 100 * 100
    assert fresh.store.covered(SHAPE)[0][0] == cut + 100
    case.store.forget_before(10**6)
    assert case.store.covered(SHAPE) == []


def test_finer_summaries_and_those_of_more_columns_are_used(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(17, 3000))
    case.ask(Shape(50, ("k", "g"), VALUES), -300, 600)
    for coarser in [Shape(100, ("k",), ("d",)), Shape(300, (), ("m", "b")), Shape(50, ("g",), ())]:
        found = case.ask(coarser, -300, 600)
        assert found.rows_read == 0
        assert found.summaries_read > found.table.num_rows
        assert case.ask(coarser, -300, 600).summaries_read == found.table.num_rows, "and kept in turn"
    assert case.ask(Shape(300, (), ("m", "b")), -250, 550).rows_read == 0, "edges are made of finer windows"


def test_summaries_of_other_columns_are_not_used(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(18, 500))
    case.ask(Shape(100, (), ("i",)), -300, 600)
    assert case.ask(Shape(100, (), ("d",)), -300, 600).rows_read > 0
    assert case.ask(Shape(100, ("k",), ("i",)), -300, 600).rows_read > 0
    assert case.ask(Shape(150, (), ("i",)), -300, 600).rows_read > 0


def test_columns_of_another_type_drop_what_was_kept(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(19, 500))
    case.ask(Shape(100, ("k",), ("i",)))
    case.ask(Shape(100, ("k",), ("d",)))
    wider = SCHEMA.arrow.set(SCHEMA.arrow.get_field_index("i"), pa.field("i", pa.int64())).append(
        pa.field("new", pa.string())
    )
    store = LazySummaries(case.storage, wider)
    assert store.shapes() == [Shape(100, ("k",), ("d",))], "a new column leaves the others as they were"
    assert store.covered(Shape(100, ("k",), ("i",))) == []
    assert len(case.storage.child("summaries").directories()) == 2
    store.drop_unfit()
    assert len(case.storage.child("summaries").directories()) == 1
    assert case.store.bytes() > 0
    store.drop_all()
    assert case.store.shapes() == []


@pytest.mark.slow
def test_many_small_questions_leave_few_files(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(20, 500, span=10_000))
    spans = [(at, at + 100) for at in range(-300, 9000, 100)]
    for at in np.random.default_rng(21).permutation(len(spans)).tolist():
        case.ask(SHAPE, *spans[at])
    (directory,) = case.storage.child("summaries").directories()
    assert len(case.storage.child("summaries", directory).files()) < 40
    assert case.store.covered(SHAPE) == [(-300, 9000)]
    assert case.ask(SHAPE, -300, 9000).rows_read == 0


def test_processes_that_summarise_the_same_at_once_do_no_harm(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(22, 2000))
    end = case.log.offset().place
    stores = [LazySummaries(Storage(str(tmp_path)), SCHEMA.arrow) for _ in range(3)]
    tables = [summaries_for(case.log, a, b, SHAPE, end, None).table for a, b in [(-300, 300), (0, 600), (-300, 600)]]
    for store, span, table in zip(stores, [(-300, 300), (0, 600), (-300, 600)], tables, strict=True):
        store.add(SHAPE, span, table)
        store.add(SHAPE, span, table)
    assert case.ask(SHAPE, -300, 600).rows_read == 0
    assert case.ask(SHAPE, -200, 500).rows_read == 0


def test_file_that_is_gone_or_torn_costs_time_and_no_answer(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(23, 2000))
    whole = case.ask(SHAPE, -300, 600)
    (file,) = (tmp_path / "summaries").rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:100])
    assert case.ask(SHAPE, -300, 600).rows_read == whole.rows_there
    assert case.ask(SHAPE, -300, 600).rows_read == 0, "a torn file is written anew"
    covered = case.store.covered(SHAPE)
    file.unlink()
    assert case.store.read(SHAPE, covered[0]) is None
    assert case.ask(SHAPE, -300, 600).rows_read == whole.rows_there
    assert case.ask(SHAPE, -300, 600).rows_read == 0


def test_summaries_that_cannot_be_kept_cost_time_and_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(tmp_path, some_rows(28, 500))

    def full(*_: Any, **__: Any) -> str:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Storage, "write", full)
        assert case.ask(SHAPE, -300, 600).rows_read > 0
    assert case.ask(SHAPE, -300, 600).rows_read > 0
    assert case.ask(SHAPE, -300, 600).rows_read == 0


# -- questions -----------------------------------------------------------------------------------


ALL = tuple(
    (f"{function}_{value}", function, value) for value in VALUES for function in ("count", "sum", "avg", "min", "max")
)
QUESTION = SummaryQuestion((("key", "k"),), (("n", "count", None), *ALL))


def naive_answer(rows: pa.Table, question: SummaryQuestion, since: int, until: int) -> dict[Any, list[Any]]:
    found: dict[Any, list[dict[str, Any]]] = {}
    times = rows.column("ts").cast(pa.int64()).to_pylist()
    for time, row in zip(times, rows.to_pylist(), strict=True):
        if since <= time < until:
            key = tuple(time // by * by if isinstance(by, int) else plain(row[by]) for _, by in question.keys)
            found.setdefault(key, []).append(row)
    if not question.keys:
        found.setdefault((), [])
    return {key: [naive_value(f, c, group) for _, f, c in question.aggregates] for key, group in found.items()}


def naive_value(function: str, column: str | None, group: list[dict[str, Any]]) -> Any:
    there = [
        1.0 if column is None else float(row[column]) for row in group if column is None or row[column] is not None
    ]
    if function == "count":
        return float(len(there))
    if not there:
        return None
    if function in ("sum", "avg"):
        return math.fsum(there) / (1 if function == "sum" else len(there))
    if any(map(math.isnan, there)):
        there = there if function == "max" else [n for n in there if not math.isnan(n)] or there
        return math.nan if function == "max" else min(there)
    # Of whole numbers and decimals they are exact, in the type of their column.
    assert column is not None
    return (min if function == "min" else max)(row[column] for row in group if row[column] is not None)


def near(got: list[Any], wanted: list[Any]) -> bool:
    return close(tuple(map(plain, got)), tuple(map(plain, wanted)))


def answered(answer: pa.Table, question: SummaryQuestion) -> dict[Any, list[Any]]:
    """The answer by key; its bounds are the values themselves."""
    found = {}
    for row in answer.cast(
        pa.schema([f.with_type(pa.int64()) if pa.types.is_timestamp(f.type) else f for f in answer.schema])
    ).to_pylist():
        values = [row[name] for name, _, _ in question.aggregates]
        for end in ("low", "high"):
            assert repr([row[f"{name}_{end}"] for name, _, _ in question.aggregates]) == repr(values)
        found[tuple(plain(row[name]) for name, _ in question.keys)] = values
    return found


@pytest.mark.parametrize(
    "keys", [(), (("key", "k"),), (("hour", 200), ("key", "k")), (("g", "g"), ("hour", 100)), (("hour", 300),)]
)
def test_answers_from_summaries_equal_those_from_rows(tmp_path: Path, keys: tuple[tuple[str, str | int], ...]) -> None:
    case = Case(tmp_path, some_rows(25, 800))
    question = SummaryQuestion(keys, QUESTION.aggregates)
    for since, until in [(-300, 700), (-222, 333), (140, 150), (900, 950)]:
        answer = question_by_summaries(question, case.ask(question.shape(100), since, until))
        names = [n for name, _, _ in question.aggregates for n in (name, f"{name}_low", f"{name}_high")]
        assert answer.column_names == [*(name for name, _ in keys), *names, "_fraction"]
        got, wanted = answered(answer, question), naive_answer(case.rows, question, since, until)
        assert set(got) == set(wanted)
        for key in wanted:
            assert near(got[key], wanted[key])


def test_fraction_is_what_was_read_per_row_there_is(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(26, 2000))
    first = question_by_summaries(QUESTION, case.ask(QUESTION.shape(100), -300, 600))
    again = question_by_summaries(QUESTION, case.ask(QUESTION.shape(100), -300, 600))
    assert set(first.column("_fraction").to_pylist()) == {1.0}
    there = sum(first.column("n").to_pylist())
    assert set(again.column("_fraction").to_pylist()) == {9 * 4 / there}
    assert first.drop_columns("_fraction").schema == again.drop_columns("_fraction").schema


def test_filter_over_keys_is_applied_to_summaries(tmp_path: Path) -> None:
    case = Case(tmp_path, some_rows(27, 800))
    question = SummaryQuestion((("g", "g"),), QUESTION.aggregates, filter_columns=("k",))
    assert question.shape(100).keys == ("g", "k")
    found = case.ask(question.shape(100), -250, 600)
    answer = question_by_summaries(question, found, lambda table: pc.not_equal(table.column("k"), "b"))
    rows = case.rows.filter(pc.not_equal(case.rows.column("k"), "b"))
    got, wanted = answered(answer, question), naive_answer(rows, question, -250, 600)
    assert {key: values[0] for key, values in got.items()} == {key: values[0] for key, values in wanted.items()}
    assert all(near(got[key], wanted[key]) for key in wanted)
    nobody = question_by_summaries(
        SummaryQuestion((), (("n", "count", None), ("s", "sum", "i")), ("k",)), found, nothing
    )
    assert nobody.select(["n", "s"]).to_pylist() == [{"n": 0.0, "s": None}]


def nothing(table: pa.Table) -> pa.Array:
    return pa.array([False] * table.num_rows)


def test_summaries_with_the_fewest_rows_are_chosen_among_those_that_can_answer() -> None:
    def shape(every: int, keys: str, values: str) -> Shape:
        return Shape(every, tuple(keys), tuple(values))

    question = SummaryQuestion((("key", "k"),), (("n", "count", None), ("s", "avg", "i")))
    schema = SCHEMA.arrow
    shapes = [
        shape(60, "k", "i"),
        shape(600, "kg", "i"),
        shape(600, "k", "ib"),
        shape(600, "k", "i"),
        shape(6000, "k", "b"),
    ]
    assert answers(question, shapes, schema) == shape(600, "k", "i")
    assert answers(question, shapes[-1:], schema) is None
    hourly = SummaryQuestion((("key", "k"), ("hour", 120)), question.aggregates)
    assert answers(hourly, shapes, schema) == shape(60, "k", "i")


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (SummaryQuestion((), (("m", "median", "i"),)), "count, sum, avg, min, max, not median"),
        (SummaryQuestion((), (("m", "max", "k"),)), '"k" is none'),
        (SummaryQuestion((), (("m", "max", "gone"),)), '"gone" is none'),
        (SummaryQuestion((("g", "g"),), (("n", "count", None),)), 'not grouped by "g"'),
        (SummaryQuestion((), (("n", "count", None),), ("d",)), 'not grouped by "d"'),
        (SummaryQuestion((), (("s", "sum", "d"),)), '"d" is not summarised'),
        (SummaryQuestion((("t", 90),), (("n", "count", None),)), "not made of whole windows"),
    ],
)
def test_what_summaries_cannot_answer_is_said(question: SummaryQuestion, said: str) -> None:
    assert said in str(why_not(question, Shape(60, ("k",), ("i",)), SCHEMA.arrow))


def test_what_summaries_can_answer_is_not_refused() -> None:
    question = SummaryQuestion((("k", "k"), ("t", 120)), (("n", "count", None), ("s", "sum", "i")), ("k",))
    assert why_not(question, Shape(60, ("k",), ("i",)), SCHEMA.arrow) is None

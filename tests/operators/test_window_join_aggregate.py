"""Aggregates over joins equal those computed from the joined rows; counting alone equals finding the rows."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.base import Inputs
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.combination import WindowCombination
from anabranch.operators.join.operator import WindowJoin
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.slt.small_tasks import small_tasks

SCHEMA = StreamSchema.of({"k": "BIGINT", "v": "INT", "ts": "TIMESTAMP"}, time="ts")
SAME = "`A.k` = `B.k`"
END = 10_000


def join(*conditions: str, window: int = 6, names: str = "AB") -> WindowJoin:
    windows = tuple((i, j, -window, window) for i in range(len(names)) for j in range(i + 1, len(names)))
    columns = tuple((f"{name}_{c}", f"`{name}.{c}`") for name in names for c in ("k", "v"))
    sources = tuple((name, name.lower(), None) for name in names)
    return WindowJoin(sources, "time", windows, conditions, (*columns, ("_time", "_time")), "_time", order="time")


def aggregate(inner: WindowJoin, period: int, keys: tuple[str, ...], **aggregates: tuple[str, str | None]) -> Any:
    named = tuple((f"g{i}", key) for i, key in enumerate(keys))
    asked = tuple((name, function, argument) for name, (function, argument) in aggregates.items())
    columns = (*((n, n) for n, _ in named), *((n, n) for n, _, _ in asked), ("_time", "window_end"))
    return WindowJoinAggregate(inner, period, named, asked, columns, "_time")


def stream(seed: int, count: int = 60) -> list[tuple[int | None, int, int]]:
    chance = random.Random(seed)
    times = sorted(chance.randrange(120) for _ in range(count))
    return [(chance.choice([None, 1, 1, 2, 3]), chance.randrange(-5, 9), time) for time in times]


def table(rows: list[tuple[int | None, int, int]]) -> pa.Table:
    k, v, ts = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table({"k": pa.array(k, pa.int64()), "v": pa.array(v, pa.int32()), "ts": pa.array(ts, pa.int64()).cast(TIME_TYPE)})  # fmt: skip  # noqa: E501


def answers(operator: Any, streams: dict[str, list[Any]], rows: int | None = None, parallelism: int = 1) -> pa.Table:
    harness = OperatorHarness(operator, dict.fromkeys(streams, SCHEMA))
    for name, data in streams.items():
        harness.push(name, table(data))
        harness.advance(name, END)
    return harness.run(parallelism=parallelism, rows=rows)


def naive(operator: WindowJoinAggregate, streams: dict[str, list[Any]], key: str | None) -> dict[Any, list[Any]]:
    """The joined rows of each period and group."""
    found = defaultdict(list)
    for row in answers(operator.join, streams).to_pylist():
        end = (int(row["_time"].timestamp() * 1_000_000 + 0.5) // operator.period + 1) * operator.period
        found[end, row[key] if key else None].append(row)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("names", ["AB", "ABC"])
def test_sums_and_counts_equal_those_of_the_joined_rows(seed: int, names: str) -> None:
    streams = {name.lower(): stream(seed * 10 + i, 40) for i, name in enumerate(names)}
    conditions = [SAME, "`B.k` = `C.k`"][: len(names) - 1]
    operator = aggregate(
        join(*conditions, "`A.v` < `B.v`", names=names), 17, ("`A.k`",),
        n=("count", None), total=("sum", "`B.v` - `A.v`"), least=("min", "`A.v`"),
    )  # fmt: skip
    wanted = {
        group: (len(rows), sum(r["B_v"] - r["A_v"] for r in rows), min(r["A_v"] for r in rows))
        for group, rows in naive(operator, streams, "A_k").items()
    }
    with small_tasks(rows=5):
        for rows, parallelism in ((None, 1), (7, 1), (None, 3), (11, 2)):
            got = {
                (int(r["_time"].timestamp() * 1_000_000 + 0.5), r["g0"]): (r["n"], r["total"], r["least"])
                for r in answers(operator, streams, rows, parallelism).to_pylist()
            }
            assert got == wanted, (rows, parallelism)
    assert wanted


@pytest.mark.slow
@pytest.mark.parametrize("keys", [(), ("`A.k`",), ("`B.k`", "`A.k`")])
def test_counting_alone_gives_what_finding_the_rows_gives(keys: tuple[str, ...]) -> None:
    for seed in range(8):
        streams = {"a": stream(seed, 80), "b": stream(seed + 100, 50)}
        counted = aggregate(join(SAME), 13, keys, n=("count", None))
        found = replace(counted, join=join(SAME, "true"))
        inputs = Inputs({name: MemoryLog(SCHEMA) for name in "ab"})
        assert counted.explain(inputs)["materialises"] == "counts of matches only"
        assert found.explain(inputs)["materialises"] == "numbers of matching rows"
        with small_tasks(rows=9):
            for rows in (None, 6):
                got = answers(counted, streams, rows)
                assert got.num_rows > 0
                assert got.equals(answers(found, streams, rows))


@pytest.mark.parametrize(
    ("conditions", "keys"),
    [(("`A.k` = `B.k`", "`A.v` = `B.v`"), ()), (("`A.k` = `B.k`",), ("`A.v`",)), (("`A.k` = `B.v`",), ()), ((), ())],
)
def test_where_counting_alone_would_not_do(conditions: tuple[str, ...], keys: tuple[str, ...]) -> None:
    operator = aggregate(join(*conditions), 13, keys, n=("count", None))
    inputs = Inputs({name: MemoryLog(SCHEMA) for name in "ab"})
    assert operator.explain(inputs)["materialises"] == "numbers of matching rows"
    streams = {"a": stream(1), "b": stream(2)}
    wanted = {group: len(rows) for group, rows in naive(operator, streams, "A_v" if keys else None).items()}
    got = {
        (int(r["_time"].timestamp() * 1_000_000 + 0.5), r["g0"] if keys else None): r["n"]
        for r in answers(operator, streams).to_pylist()
    }
    assert got == wanted


def test_a_combination_has_a_row_for_every_period_in_which_anything_came() -> None:
    period = 10
    pairs = replace(aggregate(join(SAME, window=1), period, (), pairs=("count", None)), columns=(("pairs", "pairs"), ("_time", "window_end")))  # fmt: skip  # noqa: E501
    total = replace(aggregate(join(SAME, window=1), period, (), total=("sum", "`A.v`")), columns=(("total", "total"), ("_time", "window_end")))  # fmt: skip  # noqa: E501
    columns = (("pairs", "pairs"), ("total", "total"), ("both", "pairs + total"), ("_time", "window_end"))
    operator = WindowCombination(period, (("pairs", pairs, 0), ("total", total, None)), columns, "_time")
    streams = {"a": [(1, 5, 3), (2, 6, 14), (1, 1, 31)], "b": [(1, 0, 3), (1, 0, 4), (2, 0, 32), (1, 0, 32)]}
    got = answers(operator, streams)
    assert got.drop_columns(["_time"]).to_pylist() == [
        {"pairs": 2, "total": 10, "both": 12},
        {"pairs": 1, "total": 1, "both": 2},
    ]
    assert answers(operator, streams, rows=1).equals(got)

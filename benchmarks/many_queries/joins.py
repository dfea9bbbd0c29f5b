"""Window joins of many members of a host, searched together and each by itself, in one process without Spark.

    python -m benchmarks.many_queries.joins [rows of each stream] [members …]

Two streams, a row every 10 µs of their own time, are joined on a key of 100,000 values within a second, and taken in by
micro-batches of 200,000 rows of each. What members answer together is compared with what each answers by itself.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.log.slices import slices_of
from anabranch.operators.base import Operator
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.together import changes, families, roster
from anabranch.operators.together.body import said_of
from anabranch.operators.together.together import Together
from anabranch.schema import StreamSchema
from anabranch.testing.harness import OperatorHarness

SECOND = 1_000_000
BATCH = 200_000
KEYS, CODES = 100_000, 1_000
SCHEMA = StreamSchema.of({"k": "BIGINT", "c": "INT", "x": "DOUBLE", "at": "TIMESTAMP"}, time="at")


def stream(seed: int, count: int, keys: int = KEYS) -> pa.Table:
    chance = np.random.default_rng(seed)
    columns = [chance.integers(0, keys, count), chance.integers(0, CODES, count).astype(np.int32), chance.random(count)]
    return pa.table([*columns, pa.array(np.arange(count) * 10).view(pa.timestamp("us", "UTC"))], schema=SCHEMA.arrow)


def joined(a: str | None, b: str | None = None, names: tuple[str, str] = ("A", "B"), **more: Any) -> WindowJoin:
    """What `SELECT A.k, A.x, B.x FROM a A, b B WINDOW = … WHERE A.k = B.k AND …` is planned as."""
    first, second = names
    columns = (("k", f"`{first}.k`"), ("x", f"`{first}.x`"), ("other", f"`{second}.x`"), ("_time", "_time"))
    sources = ((first, "a", a), (second, "b", b))
    windows = ((0, 1, -SECOND, SECOND),)
    return WindowJoin(sources, "time", windows, (f"`{second}.k` = `{first}.k`",), columns, "_time", **more)


def summed(a: str) -> WindowJoinAggregate:
    aggregates = (("count(*)", "count", None), ("sum(B.x)", "sum", "`B.x`"))
    columns = (("n", "`count(*)`"), ("s", "`sum(B.x)`"), ("_time", "window_end"))
    return WindowJoinAggregate(joined(a, order="time"), SECOND, (), aggregates, columns, "_time")


KINDS: dict[str, Callable[[int], Operator]] = {
    "A.c = c": lambda n: joined(f"c = {n % CODES}"),
    "A.c = c AND B.c = c": lambda n: joined(f"c = {n % CODES}", f"c = {n % CODES}"),
    "A.x BETWEEN x AND x + 0.001": lambda n: joined(f"x BETWEEN {n / 1000} AND {(n + 1) / 1000}"),
    "the same, written otherwise": lambda n: joined(f"{['c = 7', '7 = c'][n % 2]} ", names=(f"p{n}", f"q{n}")),
    "count, sum of A.c = c": lambda n: summed(f"c = {n % CODES}"),
}


@contextmanager
def each_by_itself() -> Iterator[None]:
    kinds, families.KINDS = families.KINDS, ()
    try:
        yield
    finally:
        families.KINDS = kinds


def added(number: int, operator: Operator) -> dict[str, Any]:
    body = {"plan": {"operator": operator.to_json()}, **said_of(operator, lambda _: SCHEMA.arrow)}
    return {"_time": 0, "change": changes.ADDED, "member": None, "name": f"q{number}", "body": json.dumps(body)}


def run(members: list[Operator], streams: dict[str, pa.Table]) -> tuple[float, dict[int, list[pa.Table]]]:
    """Rows a second of both streams, and what each member has answered."""
    host = OperatorHarness(
        Together("members", ("a", "b")), {"members": roster.SCHEMA, **dict.fromkeys(streams, SCHEMA)}
    )
    host.push("members", pa.Table.from_pylist([added(n, m) for n, m in enumerate(members)], roster.SCHEMA.arrow))
    host.step()
    for name, rows in streams.items():
        host.push(name, rows)
    begin = time.perf_counter()
    host.run(rows=BATCH)
    seconds = time.perf_counter() - begin
    if host.reported("failed"):
        raise AssertionError(host.reported("failed"))
    answers: dict[int, list[pa.Table]] = {}
    for member, table in slices_of(host.answers()):
        answers.setdefault(member, []).append(table)
    return sum(rows.num_rows for rows in streams.values()) / seconds, answers


def main(rows: int, counts: list[int]) -> None:
    streams = {name: stream(seed, rows) for seed, name in enumerate("ab")}
    small = {name: table.slice(0, 1000) for name, table in streams.items()}
    print(f"{'':32}{'members':>8}{'alone':>14}{'together':>14}{'':>8}{'answers':>12}")
    for name, kind in KINDS.items():
        for count in counts:
            members = [kind(number) for number in range(count)]
            run(members[:10], small)  # what is compiled on first use
            together, answers = run(members, streams)
            with each_by_itself():
                run(members[:10], small)
                alone, expected = run(members, streams)
            if answers.keys() != expected.keys():
                raise AssertionError(f"other members of {name} have answers")
            for member, tables in answers.items():
                if pa.concat_tables(tables) != pa.concat_tables(expected[member]):
                    raise AssertionError(f"member {member} of {name}")
            total = sum(table.num_rows for tables in answers.values() for table in tables)
            print(
                f"{name:32}{count:8,}{alone:12,.0f}/s{together:12,.0f}/s{together / alone:7.0f}×{total:12,}", flush=True
            )


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:]]
    main(given[0] if given else 1_000_000, given[1:] or [100, 1_000])

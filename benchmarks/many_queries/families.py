"""Windowed aggregates of many members of a host, folded together and each by itself, in one process without Spark.

    python -m benchmarks.many_queries.families [members …]

Rows come in micro-batches of 100,000, a second of their own time each; windows close every ten seconds. That the
answers are the same, `tests/queries/test_families.py` says.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.expressions.atoms import atoms_of
from anabranch.operators.base import Operator
from anabranch.operators.together import changes, roster
from anabranch.operators.together.together import Together
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import StreamSchema
from anabranch.testing.harness import OperatorHarness
from benchmarks.many_queries.rows import CODES, rows

SECOND = 1_000_000
BATCH = 100_000
BATCHES = 20
SCHEMA = StreamSchema.of(
    {"k": "INT", "code": "INT", "b": "BIGINT", "x": "DOUBLE", "y": "DOUBLE", "t": "STRING", "flag": "BOOLEAN",
     "at": "TIMESTAMP"}, time="at",
)  # fmt: skip
COUNT, MEAN = ("count(*)", "count", None), ("avg(x)", "avg", "x")


def windowed(where: str, size: int = 10, slide: int = 10, aggregates: Any = (COUNT, MEAN)) -> WindowAggregate:
    """What `SELECT … WHERE … WINDOW = … SLIDE …` is planned as."""
    columns = (*((f"c{i}", f"`{name}`") for i, (name, _, _) in enumerate(aggregates)), ("_time", "window_end"))
    return WindowAggregate("s", "time", size * SECOND, slide * SECOND, (), tuple(aggregates), columns, "_time", where)


def a_range(number: int) -> tuple[int, int]:
    chance = random.Random(number)
    low = chance.randrange(CODES)
    return low, low + chance.randrange(1, CODES // 5)


def some_codes(number: int) -> str:
    return ", ".join(map(str, random.Random(number).sample(range(CODES), 5)))


ASKED = [COUNT, MEAN, ("sum(y)", "sum", "y"), ("min(x)", "min", "x"), ("max(y)", "max", "y"), ("sum(b)", "sum", "b")]


def some_aggregates(number: int) -> WindowAggregate:
    chance = random.Random(number)
    return windowed("flag", aggregates=chance.sample(ASKED, chance.randrange(1, 4)))


KINDS: dict[str, Callable[[int], WindowAggregate]] = {
    "code = c": lambda n: windowed(f"code = {n % CODES}"),
    "code BETWEEN a AND b": lambda n: windowed("code BETWEEN {} AND {}".format(*a_range(n))),
    "x BETWEEN a AND b": lambda n: windowed("x BETWEEN {} AND {}".format(*(end / CODES for end in a_range(n)))),
    "code IN (5 of them)": lambda n: windowed(f"code IN ({some_codes(n)})"),
    "t LIKE 'p%'": lambda n: windowed(f"t LIKE 'machine-{n % 200:03d}%'"),
    "x > a, every second of ten": lambda n: windowed(f"x > {n / 20_000}", 10, 1),
    "median(x) of code = c": lambda n: windowed(f"code = {n % CODES}", aggregates=[("median(x)", "median", "x")]),
    "the same rows, other aggregates": some_aggregates,
}


@contextmanager
def each_by_itself() -> Iterator[None]:
    from anabranch.operators.together import families

    kinds, families.KINDS = families.KINDS, ()
    families.families_among.cache_clear()
    try:
        yield
    finally:
        families.KINDS = kinds
        families.families_among.cache_clear()


def host_of(members: list[WindowAggregate]) -> OperatorHarness:
    harness = OperatorHarness(Together("members", ("s",)), {"members": roster.SCHEMA, "s": SCHEMA})
    harness.push("members", pa.Table.from_pylist([added(n, m) for n, m in enumerate(members)], roster.SCHEMA.arrow))
    harness.step()
    return harness


def added(number: int, operator: Operator) -> dict[str, Any]:
    condition, _ = operator.condition()
    body = {"plan": {"operator": operator.to_json()}, "atoms": list(atoms_of(condition, SCHEMA.arrow).items())}
    return {"_time": 0, "change": changes.ADDED, "member": None, "name": f"q{number}", "body": json.dumps(body)}


def timed(members: list[WindowAggregate], batches: int) -> list[float]:
    """Seconds of each micro-batch, after two small ones to warm up."""
    host = host_of(members)
    seconds = []
    for first, count in [(0, 100), (100, 100), *((BATCH * number, BATCH) for number in range(1, batches + 1))]:
        host.push("s", rows(first, count, BATCH))
        begin = time.perf_counter()
        host.step()
        seconds.append(time.perf_counter() - begin)
    return seconds[2:]


def main(counts: list[int]) -> None:
    print(f"{'':34}{'members':>8}{'alone':>12}{'together':>12}{'':>8}{'a window closes':>17}{'none closes':>13}")
    for name, kind in KINDS.items():
        for count in counts:
            members = [kind(number) for number in range(count)]
            with each_by_itself():
                alone = BATCH / float(np.mean(timed(members, 1 if count > 1000 else 2)))
            seconds = np.array(timed(members, BATCHES))
            rate = BATCHES * BATCH / seconds.sum()
            slow, usual = seconds.max(), np.median(seconds)
            print(
                f"{name:34}{count:8,}{alone:10,.0f}/s{rate:10,.0f}/s{rate / alone:7.0f}×{slow:15.3f} s{usual:11.3f} s"
            )


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1000, 10_000])

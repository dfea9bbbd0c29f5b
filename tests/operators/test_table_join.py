"""A stream joined with a table as it was, against looking at each row and each change before it."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.table.join import TableJoin
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from tests.sampling import sampled

STREAM = StreamSchema.of({"k": "BIGINT", "b": "STRING", "n": "INT", "ts": "TIMESTAMP"}, time="ts")
CHANGES = StreamSchema.of({"_change": "STRING", "k": "INT", "b": "STRING", "p": "INT", "at": "TIMESTAMP"}, time="at")
JOIN = TableJoin(
    "s", "S", "c", "T", (("k", "k"), ("b", "b")), "_change IN ('insert', 'update_after')", "left", (), None,
    (("k", "`S.k`"), ("b", "`S.b`"), ("n", "`S.n`"), ("p", "`T.p`"), ("there", "`T.k` IS NOT NULL"), ("ts", "`S.ts`")),
    "ts",
)  # fmt: skip


def times(values: list[int]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(TIME_TYPE)


def some_changes(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """A log as a table writes it: what goes was there, what comes was not; several at one time."""
    rows: dict[tuple[int, str], int] = {}
    log: list[dict[str, Any]] = []
    at = 0
    for _ in range(count):
        at += chance.choice([0, 1, 3])
        key = (chance.randint(0, 3), chance.choice("xy"))
        p = chance.randint(0, 99)

        def said(change: str, value: int, key: tuple[int, str] = key, at: int = at) -> dict[str, Any]:
            return {"_change": change, "k": key[0], "b": key[1], "p": value, "at": at}

        if key not in rows:
            log.append(said("insert", p))
            rows[key] = p
        elif chance.random() < 0.4:
            log.append(said("delete", rows.pop(key)))
        else:
            log += [said("update_before", rows[key]), said("update_after", p)]
            rows[key] = p
    return log


def naive(rows: list[dict[str, Any]], changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Each row with what the changes up to its time have made of its key."""
    answers = []
    for row in rows:
        found = None
        for change in changes:
            if change["at"] <= row["ts"] and (change["k"], change["b"]) == (row["k"], row["b"]):
                found = change["p"] if change["_change"] in ("insert", "update_after") else None
        answers.append((row["k"], row["b"], row["n"], found, found is not None))
    return answers


@pytest.mark.parametrize("seed", sampled(list(range(50)), 6, "table_join"))
def test_each_row_meets_the_version_of_its_time(seed: int) -> None:
    chance = random.Random(seed)
    changes = some_changes(chance, 40)
    at = chance.randint(-3, 5)  # some rows are before the table's first version
    rows: list[dict[str, Any]] = []
    for n in range(40):
        at += chance.choice([0, 0, 1, 4])
        key = chance.choice([None, 0, 1, 2, 3, 2**40])
        rows.append({"k": key, "b": chance.choice(["x", "y", "z", None]), "n": n, "ts": at})
    harness = OperatorHarness(JOIN, {"s": STREAM, "c": CHANGES})
    left, right = list(rows), list(changes)
    while left or right:  # both come as they come, the stream also before the table
        for log, name, time in ((left, "s", "ts"), (right, "c", "at")):
            some = [log.pop(0) for _ in range(min(len(log), chance.randint(0, 9)))]
            if some:
                table = pa.Table.from_pylist([{k: v for k, v in row.items() if k != time} for row in some])
                harness.push(name, table.append_column(time, times([row[time] for row in some])))
        harness.step(parallelism=chance.randint(1, 3), rows=chance.choice([None, 1, 3]))
        harness.replay(parallelism=2)
        if chance.random() < 0.3:
            harness.forget()
    harness.advance("c", 10**6)
    harness.run(rows=chance.choice([None, 2]))
    answers = [tuple(row.values())[:5] for row in harness.answers().to_pylist()]
    assert answers == naive(rows, changes)
    assert harness.due() == {}


def test_a_row_waits_for_the_tables_time_to_pass_its_own() -> None:
    harness = OperatorHarness(JOIN, {"s": STREAM, "c": CHANGES})
    harness.push("s", pa.table({"k": [1], "b": ["x"], "n": [1], "ts": times([10])}))
    harness.advance("c", 10)
    assert harness.step().num_rows == 0
    assert harness.due() == {"c": 11}
    small = pa.int32()
    change = {
        "_change": ["insert"],
        "k": pa.array([1], small),
        "b": ["x"],
        "p": pa.array([5], small),
        "at": times([10]),
    }
    harness.push("c", pa.table(change))
    harness.advance("c", 11)
    assert harness.step().column("p").to_pylist() == [5]

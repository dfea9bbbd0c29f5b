"""Windowed aggregates that are folded together answer what each does alone, whatever ranges they ask for."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import QueryError
from anabranch.operators.together.families import answering, folded, labels, runs
from anabranch.operators.together.families.waste import RunApart
from anabranch.testing.sparkless import SparklessDatabase
from tests.queries.test_together import STREAM, TEXTS, UNKIND, a_row, alone, told
from tests.sampling import SEED, sampled

VALUES = [
    "count(*) AS n", "count(x) AS n, sum(f) AS total, avg(k) AS mean", "min(x) AS least, max(t) AS most",
    "sum(m) AS total, min(m) AS least, max(d) AS most", "approx_count_distinct(t) AS some, avg(f) AS mean",
    "sum(k) AS total, count(*) FILTER (WHERE flag) AS flagged", "avg(x) AS mean", "sum(x) AS total",
    "stddev(f) AS spread, var_pop(k) AS variance", "sum(b) AS total", "median(f) AS middle", "count(DISTINCT t) AS n",
    "mode(k) AS common, max(x) AS most",
]  # fmt: skip
TIMES = [
    "WINDOW = INTERVAL 30 SECONDS", "WINDOW = INTERVAL 60 SECONDS SLIDE INTERVAL 20 SECONDS",
    "WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 15 SECONDS", "WINDOW = INTERVAL 7 SECONDS",
    "WINDOW = INTERVAL 64 SECONDS SLIDE INTERVAL 2 SECONDS", "WINDOW = INTERVAL 1 SECOND SLIDE INTERVAL 3 SECONDS",
]  # fmt: skip
ROWS = ["WINDOW = 40 ROWS", "WINDOW = 50 ROWS SLIDE 20 ROWS", "WINDOW = 64 ROWS SLIDE 3 ROWS"]
WINDOWS = [TIMES[:1], TIMES[1:2], ROWS[:1], TIMES, ROWS, TIMES[2:3]]
COLUMNS = ["k", "x", "t", "d", "at", "b", "flag"]
RESTS = ["", "", " AND x >= 0", " AND t LIKE '%a%' AND k > 0"]
GROUPS = ["", "", "d", "flag, d"]


def a_range(chance: random.Random, column: str) -> str:
    """A condition of ranges of a column."""
    if column == "t":
        text = chance.choice(TEXTS).replace("\0", "").replace("%", "")
        return chance.choice(
            [f"t {chance.choice(['=', '<', '>=', '<>'])} '{text}'", f"t LIKE '{text}%'", f"t IN ('{text}', 'ab', 'z')",
             f"t BETWEEN '{text}' AND 'b'", "t IS NULL", "t IS NOT NULL"]
        )  # fmt: skip
    if column == "flag":
        return chance.choice(["flag", "NOT flag", "flag IS NULL", "flag = TRUE"])
    constants = {
        "k": lambda: str(chance.randrange(-4, 13)),
        "x": lambda: chance.choice(["0", "-0.0", "1.5", "-1.5", "1e300", "0.1"]),
        "d": lambda: f"DATE '2026-01-0{chance.randrange(1, 6)}'",
        "at": lambda: f"TIMESTAMP '2026-01-01 00:0{chance.randrange(0, 4)}:{chance.randrange(10, 60)}'",
        "b": lambda: chance.choice(["5", "0", "9007199254740993", "9223372036854775807"]),
    }
    one, two, three = (constants[column]() for _ in range(3))
    return chance.choice(
        [f"{column} {chance.choice(['=', '<', '<=', '>', '>=', '<>'])} {one}", f"{column} BETWEEN {one} AND {two}",
         f"{column} IN ({one}, {two}, {three})", f"{column} > {one} AND {column} <= {two}",
         f"{column} <> {one} AND {column} <> {two}", f"({column} = {one} OR {column} IS NULL)",
         f"({column} < {one} OR {column} >= {two})", f"{column} <=> {one}", f"NOT ({column} > {one})",
         f"{column} = {one}", f"{column} IS NULL", f"{column} IS NOT NULL"]
    )  # fmt: skip


class Families:
    """Members of a few families, drawn by lot."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._kinds = [
            (chance.choice(COLUMNS), chance.choice(WINDOWS), chance.choice(RESTS), chance.choice(GROUPS))
            for _ in range(3)
        ]  # fmt: skip

    def a_member(self) -> str:
        chance = self._chance
        column, windows, rest, group = chance.choice(self._kinds)
        window = chance.choice(windows)
        where = "" if chance.random() < 0.1 and not rest else f" WHERE {a_range(chance, column)}{rest}"
        values = chance.choice(VALUES).replace(" AS ", chance.choice([" AS ", " AS ", " AS my_"]))
        keys = chance.choice([f"{group}, ", ""]) if group else ""
        told = chance.choice(["", "window_end, ", "window_start, "]) + keys + values
        grouped = f" GROUP BY {group}" if group else ""
        having = chance.choice(["", "", " HAVING count(*) > 1"])
        limited = f" ORDER BY {values.split(' AS ')[-1]} DESC LIMIT 2" if group and chance.random() < 0.2 else ""
        return f"SELECT {told} FROM s{where} {window}{grouped}{having}{limited}"


@pytest.fixture(autouse=True)
def small_families(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two members make a family, and one that fails does so for a reason that is known."""
    monkeypatch.setattr(folded, "LEAST", 2)
    monkeypatch.setattr(folded, "LEAST_ALIKE", 2)
    run, problems = folded.FoldedFamily.run, list[Exception]()

    def watched(family: folded.FoldedFamily, *given: Any) -> Any:
        try:
            yield from run(family, *given)
        except Exception as problem:
            if not isinstance(problem, RunApart | QueryError):
                problems.append(problem)
            raise

    monkeypatch.setattr(folded.FoldedFamily, "run", watched)
    yield
    assert problems == []


@pytest.mark.parametrize("how", UNKIND)
@pytest.mark.parametrize("round_", sampled(range(3), 1, "families"))
def test_members_of_families_that_come_and_go_answer_what_each_does_alone(
    tmp_path: Path, how: str, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{SEED} {how} {round_}")
    families = Families(chance)
    monkeypatch.setattr(labels, "_ROWS_PER_VALUE", chance.choice([0, 8, 1000]))
    monkeypatch.setattr(runs, "_PARTS_AT_ONCE", chance.choice([5, 1 << 21]))
    monkeypatch.setattr(answering, "_PAIRS_AT_ONCE", chance.choice([7, 1 << 20]))
    second, names = 0, itertools.count()
    parts: list[list[dict[str, Any]]] = []
    asked: dict[str, str] = {}
    for process in range(3):
        with SparklessDatabase(
            tmp_path / "river", settings={"batch_rows": 53, "segment_bytes": 4000}, unkindness=UNKIND[how]
        ) as db:
            if process == 0:
                db.sql(STREAM)
            for _ in range(3):
                parts.append([a_row(chance, second := second + chance.choice([0, 1, 1, 2])) for _ in range(40)])
                db.append("s", parts[-1])
                new = {f"q{next(names)}": families.a_member() for _ in range(chance.randrange(0, 8))}
                if new:
                    db.create_queries(new)
                asked |= new
                if chance.random() < 0.7:
                    db.catch_up()
                if len(asked) > 4 and chance.random() < 0.5:
                    gone = chance.choice(list(asked))
                    db.drop_query(gone)
                    del asked[gone]
            db.catch_up()
            answers = {name: told(db, name) for name in asked}
            states = {name: db.get_query(name).status for name in asked}
    expected = alone(tmp_path / "alone", asked, parts)
    for name, text in asked.items():
        if states[name] != "failed":
            assert answers[name] == expected[name], text

"""Joins that are members of a host share what they have in common, and answer what each answers by itself."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from anabranch.operators.join.steps import live
from anabranch.operators.live import forget_all
from anabranch.operators.together import families, meeting
from anabranch.operators.together.families import equal, join_sums, joins, waste
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import SEED, sampled

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = (
    "CREATE STREAM a (k INT, c INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at",
    "CREATE STREAM b (k INT, c INT, y DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at",
)
UNKIND = {
    "kind": Unkindness(),
    "repeated": Unkindness(replay=True),
    "forgetful": Unkindness(forget=True),
    "faulty": Unkindness(faults=True),
}
Rows = list[dict[str, Any]]


def a_row(chance: random.Random, second: int, number: str) -> dict[str, Any]:
    row = {
        "k": chance.randrange(4),
        "c": chance.randrange(5),
        number: chance.choice([0.0, -0.0, 0.1, 0.2, 1e16, 1.5, float("nan")]),
        "t": chance.choice(["a", "ab", "b", "ä"]),
    }
    return {name: None if chance.random() < 0.1 else value for name, value in row.items()} | {
        "at": BASE + dt.timedelta(seconds=second)
    }


def a_join(chance: random.Random) -> str:
    a, b = chance.choice([("A", "B"), ("p", "q"), ("B", "A")])
    sources = [f"a {a}", f"b {b}"]
    chance.shuffle(sources)
    constant = chance.randrange(5)
    own = [
        f"{a}.c = {constant}",
        f"{constant} < {a}.c",
        f"{b}.c = {constant}",
        f"{b}.c IN ({constant}, 1)",
        f"{a}.t LIKE 'a%'",
        f"{b}.t IN ('a', 'ä')",
        f"{a}.x IS NOT NULL",
        f"{b}.y > 0.1",
        f"{a}.c + 1 > {constant}",
    ]
    across = chance.choice(
        [
            [f"{a}.k = {b}.k"],
            [f"{b}.k = {a}.k"],
            [f"{a}.k <= {b}.k", f"{b}.k = {a}.k"],
            [f"{b}.k = {a}.k", f"{b}.k >= {a}.k"],
            [f"{a}.x < {b}.y"],
            [f"{b}.y > {a}.x"],
            [f"abs({a}.k - {b}.k) <= 1"],
        ]
    )
    where = across + chance.sample(own, chance.choice([0, 1, 1, 2]))
    chance.shuffle(where)
    window = chance.choice(["INTERVAL 3 SECONDS"] * 3 + ["INTERVAL 5 SECONDS", "4 ROWS"])
    tail = f"FROM {', '.join(sources)} WINDOW = {window} WHERE {' AND '.join(where)}"
    if chance.random() < 0.4:
        values, group = chance.choice(
            [
                (f"sum({a}.x) AS total, count(*) AS n", ""),
                (f"{a}.k AS key, sum({a}.x + {b}.y) AS s", f" GROUP BY {a}.k"),
                ("count(*) AS n", ""),
                ("count(*) AS how_many", ""),
                (f"{b}.k, count(*) AS n", f" GROUP BY {b}.k"),
            ]
        )
        return f"SELECT {values} {tail}{group} EMIT EVERY INTERVAL 10 SECONDS"
    columns = chance.choice(
        [
            f"{a}.k, {b}.y AS other",
            f"{a}.*",
            f"{b}.y * 2 AS z, {a}.c",
            f"{a}.at AS first, {b}.at AS second",
            "1 AS one",
        ]
    )
    return f"SELECT {columns} {tail}{chance.choice(['', ' EMIT IN ORDER'])}"


@dataclass
class Story:
    """What happens to a host: rows that come, and members that come and go."""

    asked: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, Rows]] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)

    def happen(self, path: Path, seed: str, unkindness: Unkindness, ask: Callable[[random.Random], str]) -> None:
        chance, names, second = random.Random(seed), itertools.count(), {"a": 0, "b": 0}
        for process in range(3):
            with SparklessDatabase(path, settings={"batch_rows": 37}, unkindness=unkindness) as db:
                if not process:
                    for text in STREAMS:
                        db.sql(text)
                for _ in range(3):
                    for stream, number in (("a", "x"), ("b", "y")):
                        part = []
                        for _ in range(chance.randrange(0, 50)):
                            second[stream] += chance.choice([0, 0, 1])
                            part.append(a_row(chance, second[stream], number))
                        if part:
                            db.append(stream, part)
                            self.rows.append((stream, part))
                    second = {stream: max(own, max(second.values()) - 10) for stream, own in second.items()}
                    new = {f"q{next(names)}": ask(chance) for _ in range(chance.randrange(0, 8))}
                    if new:
                        db.create_queries(new)
                    self.asked |= new
                    if chance.random() < 0.7:
                        db.catch_up()
                    if len(self.asked) > 4 and chance.random() < 0.5:
                        gone = chance.choice(list(self.asked))
                        db.drop_query(gone)
                        del self.asked[gone]
                db.catch_up()
                assert {db.get_query(name).status for name in self.asked} == {"running"}
                self.answers = {name: told(db, name) for name in self.asked}


def told(db: SparklessDatabase, name: str) -> list[Any]:
    return [tuple(map(repr, row.values())) for row in db.get_query(name).table().to_pylist()]


def alone(path: Path, story: Story) -> dict[str, list[Any]]:
    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        for text in STREAMS:
            db.sql(text)
        for stream, part in story.rows:
            db.append(stream, part)
        for name, text in story.asked.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in story.asked}


@pytest.mark.parametrize("how", [*UNKIND, "apart"])
@pytest.mark.parametrize("round_", sampled(range(6), 1, "joins together"))
def test_members_that_come_and_go_answer_what_each_does_alone(
    tmp_path: Path, how: str, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_sums, "LEAST", 2)
    monkeypatch.setattr(meeting, "_LEAST_PARTS", 2)
    if how == "apart":  # now and then a search that is shared finds too much
        monkeypatch.setattr(waste, "FOR_NOTHING", 0)
    seed = f"{SEED} {how} {round_}"
    together, one_by_one = Story(), Story()
    together.happen(tmp_path / "together", seed, UNKIND.get(how, Unkindness()), a_join)
    monkeypatch.setattr(families, "KINDS", ())
    one_by_one.happen(tmp_path / "one_by_one", seed, UNKIND.get(how, Unkindness()), a_join)
    expected = alone(tmp_path / "alone", one_by_one)
    assert any(expected.values())
    for name, text in together.asked.items():
        assert together.answers[name] == one_by_one.answers[name], text
        if "EMIT" in text or "ROWS" in text:
            assert together.answers[name] == expected[name], text
        else:  # in order of arrival it follows from micro-batches which result is first
            assert sorted(row[:-1] for row in together.answers[name]) == sorted(row[:-1] for row in expected[name])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river") as db:
        for text in STREAMS:
            db.sql(text)
        yield db


def fill(db: SparklessDatabase, rows: int) -> None:
    for stream, number in (("a", "x"), ("b", "y")):
        db.append(
            stream,
            [
                {"k": i % 7, "c": i % 20, number: float(i), "t": "a" * (i % 3), "at": BASE + dt.timedelta(seconds=i)}
                for i in range(rows)
            ],
        )


def nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.operators.together.together.Together._run_one", lambda *_: pytest.fail("by itself"))


def sizes_of(monkeypatch: pytest.MonkeyPatch, family: type[Any]) -> set[int]:
    """How many members the families have that are run from now on."""
    sizes: set[int] = set()
    run = family.run

    def counted(self: Any, *more: Any) -> Any:
        sizes.add(len(self.entries))
        return run(self, *more)

    monkeypatch.setattr(family, "run", counted)
    return sizes


def test_one_join_however_it_is_written_is_searched_once(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = "INTERVAL 3 SECONDS"
    nothing_by_itself(monkeypatch)
    sizes = sizes_of(monkeypatch, joins.JoinFamily)
    db.create_queries(
        {
            "one": f"SELECT A.x, B.y FROM a A, b B WINDOW = {window} WHERE A.k = B.k AND A.x + 1 > B.y AND A.c + 1 > 3",
            "two": f"SELECT q.y AS other FROM a p JOIN b q ON q.k = p.k WINDOW = {window} "
            "WHERE 3 < p.c + 1 AND q.y < p.x + 1",
            "three": f"SELECT a.x FROM b, a WINDOW(b, a) = {window} "
            "WHERE b.k = a.k AND (a.x + 1 > b.y AND a.c + 1 > 3)",
            "four": "SELECT * FROM a B, b A WINDOW(B, A) = BETWEEN - INTERVAL 3 SECONDS AND INTERVAL 3 SECONDS "
            "WHERE A.k = B.k AND B.x + 1 > A.y AND B.c + 1 > 3",
        }
    )
    fill(db, 100)
    db.catch_up()
    assert sizes == {4}
    assert len(told(db, "one")) == len(told(db, "four")) > 0
    assert db.get_query("two").table().column_names == ["other", "_time"]


def test_in_windows_of_rows_the_first_of_the_streams_comes_first(tmp_path: Path) -> None:
    story, chance = Story(), random.Random(SEED)
    select = "SELECT A.at AS first, A.x, B.at AS second, B.y FROM"
    story.asked = {
        f"{first[0]}{c}": f"{select} {first}, {second} WINDOW = 2 ROWS WHERE A.k = B.k AND A.c > {c}"
        for first, second in (("a A", "b B"), ("b B", "a A"))
        for c in (-1, 0)
    }
    for part in range(5):
        for stream, number in (("a", "x"), ("b", "y")):
            story.rows.append((stream, [a_row(chance, 2 * part + place // 20, number) for place in range(40)]))
    with SparklessDatabase(tmp_path / "together") as db:
        for text in STREAMS:
            db.sql(text)
        db.create_queries(story.asked)
        for stream, rows in story.rows:
            db.append(stream, rows)
            db.catch_up()
        answers = {name: told(db, name) for name in story.asked}
    assert answers == alone(tmp_path / "alone", story)
    assert len(answers["a-1"]) != len(answers["b-1"])


def test_rows_that_nobody_wants_are_left_out_before_the_search(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[tuple[int, int]] = []
    counted = waste.Waste.found

    def noted(self: waste.Waste, results: int, wanted: int) -> None:
        found.append((results, wanted))
        counted(self, results, wanted)

    monkeypatch.setattr(waste.Waste, "found", noted)
    text = "SELECT A.x FROM a A, b B WINDOW = INTERVAL 1 MINUTE WHERE A.k = B.k AND {}"
    own = [f"A.c = {c} AND B.c = {c}" for c in range(8)]
    db.create_queries({f"q{number}": text.format(where) for number, where in enumerate(own)})
    fill(db, 200)
    db.catch_up()
    results, wanted = (sum(counts) for counts in zip(*found, strict=True))
    assert results == wanted == sum(len(told(db, f"q{number}")) for number in range(8)) > 0


def test_a_search_that_finds_too_much_for_nothing_is_left(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waste, "FOR_NOTHING", 0)
    sizes = sizes_of(monkeypatch, joins.JoinFamily)
    text = "SELECT A.x FROM a A, b B WINDOW = INTERVAL 1 MINUTE WHERE A.k = B.k AND A.c = {} AND B.c = {}"
    pairs = [(0, 0), (0, 2), (2, 4), (4, 0)]
    db.create_queries({f"q{number}": text.format(*pair) for number, pair in enumerate(pairs)})
    fill(db, 300)
    db.catch_up()
    assert sizes == {4}
    expected = sum(
        i % 7 == j % 7 and i % 20 == 2 and j % 20 == 4
        for i in range(300)
        for j in range(max(0, i - 60), min(300, i + 61))
    )
    assert len(told(db, "q2")) == expected > 0


def test_what_a_search_keeps_is_forgotten_when_others_are_wanted(db: SparklessDatabase) -> None:
    text = "SELECT A.x FROM a A, b B WINDOW = INTERVAL 1 MINUTE WHERE A.k = B.k AND A.c = {}"
    forget_all()
    kept = []
    for number in range(6):
        db.create_queries({f"q{2 * number + i}": text.format(2 * number + i) for i in range(2)})
        fill(db, 20)
        db.catch_up()
        fill(db, 20)
        db.catch_up()
        kept.append(sum("wanted by" in name for name in live._kept))
    assert kept[-1] == kept[1] > 0


def test_members_that_mean_the_same_are_computed_once(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing_by_itself(monkeypatch)
    sizes = sizes_of(monkeypatch, equal.EqualFamily)
    window, shed = "WINDOW = INTERVAL 10 SECONDS", "WITH (memory = '1 MB', shed = 'oldest')"
    fraction = "SELECT (SELECT sum(x) FROM a) / (SELECT count(*) FROM b WHERE k > 1)"
    db.create_queries(
        {
            "one": f"{fraction} AS share EMIT EVERY INTERVAL 10 SECONDS",
            "two": f"{fraction} AS fraction EMIT EVERY INTERVAL 10 SECONDS",
            "rows": f"SELECT k, x FROM a WHERE c = 1 AND k > 2 {window} ORDER BY x DESC",
            "renamed": f"SELECT k AS key, x AS value FROM a WHERE 2 < k AND 1 = c {window} ORDER BY x DESC",
            "exact": f"SELECT A.x FROM a A, b B {window} WHERE A.k = B.k {shed}",
            "precise": f"SELECT p.x AS x2 FROM a p, b q {window} WHERE q.k = p.k {shed}",
        }
    )
    fill(db, 100)
    db.catch_up()
    assert sizes == {2}
    for first, second in (("one", "two"), ("rows", "renamed"), ("exact", "precise")):
        assert told(db, first) == told(db, second) != []
    assert db.get_query("two").table().column_names[0] == "fraction"
    assert db.get_query("renamed").table().column_names[:2] == ["key", "value"]


def test_explain_says_what_is_searched_once(db: SparklessDatabase) -> None:
    join = "SELECT A.x FROM a A, b B WINDOW = INTERVAL 3 SECONDS WHERE A.k = B.k"
    db.create_queries(
        {
            "plain": join,
            "also": join.replace("A.k = B.k", "B.k = A.k"),
            "one": f"{join} AND A.c = 1 AND B.t = 'a'",
            "two": f"{join} AND A.c IN (2, 3) AND B.t = 'b'",
            "odd": f"{join} AND A.c = 1",
            "rows": "SELECT x FROM a WINDOW = INTERVAL 3 SECONDS",
            "renamed": "SELECT x AS value FROM a WINDOW = INTERVAL 3 SECONDS",
        }
    )
    text = {name: " ".join(db.get_query(name).explain().split()) for name in ("plain", "two", "odd", "rows")}
    assert "join: searched once for 2 queries" in text["plain"]
    assert "looked up" not in text["plain"]
    assert "join: searched once for 2 queries; results are looked up by a.c, b.t" in text["two"]
    assert "join: by itself" in text["odd"]
    assert "windows: computed once for 2 queries that say the same" in text["rows"]


def test_one_of_a_family_that_fails_is_stopped_alone(db: SparklessDatabase) -> None:
    text = (
        "SELECT sum(A.c * 1000000000000000000L) AS s FROM a A, b B WINDOW = INTERVAL 3 SECONDS "
        "WHERE A.k = B.k AND A.c = {} EMIT EVERY INTERVAL 1 MINUTE"
    )
    db.create_queries({"fails" if c == 9 else f"fine{c}": text.format(c) for c in (0, 1, 9, 2)})
    fill(db, 200)
    db.catch_up()
    db.catch_up()
    assert db.get_query("fails").status == "failed"
    assert db.get_query("fine1").status == "running"
    assert len(told(db, "fine1")) > 0

"""Merges, and queries over history, as members of hosts answer what each answers by itself, wherever it is run."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine import cohorts
from anabranch.errors import CatalogError, QueryError
from anabranch.operators.together.families import merges, state_of
from anabranch.operators.together.families.merges import MergeFamily
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import SEED, sampled

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = tuple(
    f"CREATE STREAM {name} (k INT, c INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at" for name in ("a", "b")
)
UNKIND = {
    "kind": Unkindness(),
    "repeated": Unkindness(replay=True),
    "forgetful": Unkindness(forget=True),
    "faulty": Unkindness(faults=True),
}
PLACES = (None, "host", "other")
Rows = list[dict[str, Any]]


def a_row(chance: random.Random, second: float) -> dict[str, Any]:
    row = {
        "k": chance.randrange(4),
        "c": chance.randrange(5),
        "x": chance.choice([0.0, 0.1, 0.2, 1.5, float("nan")]),
        "t": chance.choice(["a", "ab", "b", "ä"]),
    }
    return {name: None if chance.random() < 0.1 else value for name, value in row.items()} | {
        "at": BASE + dt.timedelta(seconds=second)
    }


def a_merge(chance: random.Random) -> str:
    p, f = chance.choice([("p", "f"), ("f", "p"), ("A", "B")])
    left, right = chance.choice([("a", "b"), ("a", "b"), ("b", "a")])
    within = chance.choice([f"within({p}.k, {f}.k, 1)", f"within({p}.x, {f}.x, 0.1) AND {p}.k = {f}.k"])
    options = chance.choice(
        [
            "",
            " WITH (window = 5, step = 2)",
            " WITH (policy = 'nearest', window = 7, step = 3, delta = 0.1)",
            " WITH (pace = 'rows', window = 6, step = 2, wait = INTERVAL 9 SECONDS)",
        ]
    )
    kind = chance.choice(["", "", "LEFT ", "LEFT ANTI "])
    own = [
        f"{p}.c = {chance.randrange(5)}",
        f"{p}.t LIKE 'a%'",
        f"{p}.c IN (1, {chance.randrange(5)})",
        f"{p}.x IS NOT NULL",
        f"{p}.c <> 0",
        f"10 / {p}.c > 3",
        f"{p}.c + {p}.k > 2",
    ]
    own += [] if "ANTI" in kind else [f"{f}.c = {chance.randrange(5)}", f"{p}.c < {f}.c"]
    wanted = [own[4], own[5]] if chance.random() < 0.2 else [w for w in chance.sample(own, 2) if "/" not in w]
    where = f" WHERE {' AND '.join(wanted)}" if wanted and chance.random() < 0.8 else ""
    columns = chance.choice([f"{p}.k, {p}.c AS c", f"{p}.t", f"{p}.c + 1 AS d, {p}.x AS x"])
    return f"SELECT {columns} FROM {left} {p} {kind}MERGE JOIN {right} {f} ON {within}{options}{where}"


def a_query(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return a_merge(chance)
    c, second = chance.randrange(5), chance.randrange(0, 40)
    since = f"SINCE TIMESTAMP '2026-01-01 00:00:{second:02}'"
    last = "LAST 2 INTERVAL 10 SECONDS WITHIN INTERVAL 3 SECONDS"
    return chance.choice(
        [
            f"SELECT k, count(*) AS n FROM a {since} WHERE c <> {c} GROUP BY k EMIT EVERY INTERVAL 7 SECONDS",
            f"SELECT count(*) AS n FROM a {since} WHERE c = {c} EMIT EVERY INTERVAL 10 SECONDS",
            f"SELECT p.k AS k, p.at AS at FROM b p JOIN ARCHIVE a h {last} ON p.k = h.k WHERE p.c = {c}",
            f"SELECT p.k AS k, p.at AS at FROM a p JOIN ARCHIVE a h {last} ON p.k = h.k AND p.c = h.c",
            f"SELECT count(*) AS n, max(x) AS m FROM a WHERE c = {c} WINDOW = INTERVAL 5 SECONDS",
            f"SELECT k, at FROM b WHERE c = {c}",
        ]
    )


def told(db: SparklessDatabase, name: str) -> list[Any]:
    return [tuple(map(repr, row.values())) for row in db.get_query(name).table().to_pylist()]


def alone(path: Path, texts: dict[str, str], rows: list[tuple[str, Rows]]) -> dict[str, list[Any]]:
    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        open_streams(db)
        for stream, part in rows:
            db.append(stream, part)
        for name, text in texts.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in texts}


def open_streams(db: SparklessDatabase) -> None:
    for text in STREAMS:
        db.sql(text)
    db.sql("CREATE ARCHIVE ON a USING plain")


@pytest.mark.slow
@pytest.mark.parametrize(("how", "round_"), sampled(itertools.product(UNKIND, range(6)), 2, "members with state"))
def test_members_that_come_and_go_and_move_answer_what_each_does_alone(tmp_path: Path, how: str, round_: int) -> None:
    chance, names, second = random.Random(f"{SEED} {how} {round_}"), itertools.count(), {"a": 0.0, "b": 0.0}
    asked: dict[str, str] = {}
    rows: list[tuple[str, Rows]] = []
    stopped: set[str] = set()
    settings = {"batch_rows": 37, "segment_bytes": 4000, "alone_queries": 0}
    for process in range(3):
        with SparklessDatabase(tmp_path / "river", settings=settings, unkindness=UNKIND[how]) as db:
            if not process:
                open_streams(db)
                for host in filter(None, PLACES):  # which reads both streams
                    db.sql(f"CREATE CONTINUOUS QUERY of_{host} ON HOST {host} AS {a_merge(random.Random(1))}")
            moves = db._queries.moves
            for _ in range(3):
                for stream, time in second.items():
                    steps = itertools.accumulate(chance.choice([0, 0, 0.5, 1]) for _ in range(chance.randrange(40)))
                    part = [a_row(chance, time + step) for step in steps]
                    if part:
                        db.append(stream, part)
                        rows.append((stream, part))
                newest = {name: (of[-1]["at"] - BASE).total_seconds() for name, of in rows}
                second = {stream: max(newest.get(stream, 0.0), max(newest.values()) - 10) for stream in second}
                if chance.random() < 0.4:
                    db.archive("a").append()
                new = {f"q{next(names)}": a_query(chance) for _ in range(chance.randrange(1, 7))}
                host = chance.choice(["host", "host", "other"])
                db.create_queries(new, host=host)
                asked |= new
                if chance.random() < 0.6:
                    db.catch_up()
                for name in chance.sample(sorted(asked), min(3, len(asked))):
                    if moves.is_moving(name):
                        continue
                    what = chance.randrange(4)
                    if what == 0:
                        (db.get_query(name).start if name in stopped else db.get_query(name).stop)()
                        stopped ^= {name}
                    elif what == 1 and len(asked) > 3:
                        db.drop_query(name)
                        del asked[name]
                        stopped.discard(name)
                    elif what == 2:
                        move(db, name, chance.choice(PLACES), at_once=chance.random() < 0.5)
                db._queries.look_after()
            if process == 2:
                for _ in range(6):
                    db.catch_up()
                    moves.go_on()
                for name in stopped:
                    db.get_query(name).start()
                db.catch_up()
                assert {db.get_query(name).status for name in asked} == {"running"}
                answers = {name: told(db, name) for name in asked}
    expected = alone(tmp_path / "alone", asked, rows)
    assert any(expected.values())
    for name, text in asked.items():
        assert answers[name] == expected[name], text


def move(db: SparklessDatabase, name: str, to: str | None, *, at_once: bool) -> None:
    if at_once:
        db.move_query(name, to)
    else:
        db._queries.moves.begin(name, to)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river", settings={"segment_bytes": 1500, "segment_parts": 2}) as db:
        for text in STREAMS:
            db.sql(text.replace(" TIMESTAMP BY at", " TIMESTAMP BY at RETAIN INTERVAL 5 SECONDS"))
        yield db


def fill(db: SparklessDatabase, first: int, end: int) -> None:
    """A row a second of each stream, in so many appends that old ones can leave."""
    for low in range(first, end, 10):
        for stream in ("a", "b"):
            numbers = range(low, min(low + 10, end))
            times = [BASE + dt.timedelta(seconds=i) for i in numbers]
            rows = [
                {"k": i % 7, "c": i % 4, "x": i / 2, "t": "a", "at": at} for i, at in zip(numbers, times, strict=True)
            ]
            db.append(stream, rows)
        db.catch_up()


ON = "FROM a p MERGE JOIN b f ON within(p.k, f.k, 0) WITH (window = 4, step = 2)"
NEAREST = ON.replace("WITH (", "WITH (policy = 'nearest', ")
LATE = (
    "FROM a p LEFT ANTI MERGE JOIN b f ON within(p.x, f.x, 0) AND p.k = f.k "
    "WITH (window = 6, step = 2, wait = INTERVAL 60 SECONDS)"
)


def are_gone(db: SparklessDatabase) -> bool:
    """Whether retention has let go of the first rows."""
    readers = [db.reader(name) for name in ("a", "b")]
    for reader in readers:
        reader.refresh()
    return all(reader.first_row() > 0 for reader in readers)


def once(text: str, tmp_path: Path, rows: int) -> list[Any]:
    """What a query answers that stands alone, over all rows."""
    with SparklessDatabase(tmp_path / "alone") as db:
        for create in STREAMS:
            db.sql(create)
        db.query(text, name="q")
        fill(db, 0, rows)
        return told(db, "q")


def test_merges_that_differ_in_constants_are_merged_once(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"c{c}": f"SELECT p.c AS c, p.x AS x {ON} WHERE p.c = {c}" for c in range(4)}
    texts["written"] = "SELECT A.t FROM a A INNER MERGE JOIN b B ON within(A.k, B.k, 0) WITH (step = 2, window = 4)"
    texts["computed"] = f"SELECT p.x {ON} WHERE p.c <> 0 AND 12 / p.c > 4 AND p.t = 'a'"
    texts["nearest"] = f"SELECT p.x {NEAREST} WHERE p.c = 1"
    for name, text in texts.items():  # one by one: what counts is with which rows they begin
        db.create_queries({name: text})
    sizes: list[int] = []
    run = MergeFamily.run

    def counted(family: MergeFamily, *given: Any) -> Any:
        sizes.append(len(family.entries))
        return run(family, *given)

    monkeypatch.setattr(MergeFamily, "run", counted)
    fill(db, 0, 60)
    assert set(sizes) == {6, 1}
    answers = {name: told(db, name) for name in texts}
    assert [len(answers[f"c{c}"]) for c in range(4)] == [15, 15, 15, 14]
    assert len(answers["written"]) == 59
    assert len(answers["computed"]) == 30
    explained = " ".join(db.get_query("c1").explain().split())
    assert "merge: merged once for 6 queries; merged records are looked up by s0.c, s0.t" in explained
    assert "merge: by itself" in " ".join(db.get_query("nearest").explain().split())
    assert db.get_query("c1").stats()["merge"]["streams"] == ["p", "f"]
    assert db.get_query("c1").stats()["merge"]["merged"] >= 56


def test_what_a_merge_keeps_goes_along_when_its_rows_are_gone(db: SparklessDatabase, tmp_path: Path) -> None:
    text = f"SELECT p.x, p.at AS at {LATE} WHERE p.c <> 9"
    places = ("crowd", None, "crowd", "others", None)
    db.sql(f"CREATE CONTINUOUS QUERY q ON HOST crowd AS {text}")
    db.sql(f"CREATE CONTINUOUS QUERY stays ON HOST crowd AS SELECT p.k {LATE}")
    for number, place in enumerate(places, 1):
        fill(db, 40 * number - 40, 40 * number)
        db.append("a", [{"k": 1, "c": 1, "x": -1.0 - number, "at": BASE + dt.timedelta(seconds=40 * number - 1)}])
        assert are_gone(db)
        assert db.move_query("q", place).host == place
    fill(db, 200, 240)
    assert db.get_query("q").status == "running"
    states = db._queries.get("crowd")._member.scratch
    db._queries.look_after()
    assert len(list((Path(states) / "state").iterdir())) == 1  # of "stays": what has left is gone
    with SparklessDatabase(tmp_path / "alone") as other:
        for create in STREAMS:
            other.sql(create)
        other.query(text, name="q")
        for number in range(1, 7):
            fill(other, 40 * number - 40, 40 * number)
            if number < 6:
                late = BASE + dt.timedelta(seconds=40 * number - 1)
                other.append("a", [{"k": 1, "c": 1, "x": -1.0 - number, "at": late}])
        assert told(db, "q") == told(other, "q")
    assert told(db, "q")


def test_one_that_is_stopped_goes_on_long_after_others_of_its_family(db: SparklessDatabase, tmp_path: Path) -> None:
    texts = {name: f"SELECT p.x, p.at AS at {LATE} WHERE p.c {sign} 2" for name, sign in (("q", "="), ("goes", "<>"))}
    db.create_queries(texts)
    fill(db, 0, 30)
    db.append("a", [{"k": 1, "c": 2, "x": -1.0, "at": BASE + dt.timedelta(seconds=29)}])
    db.catch_up()
    db.get_query("q").stop()
    fill(db, 30, 500)  # more micro-batches than states are kept of
    db.get_query("q").start()
    db.catch_up()
    fill(db, 500, 520)
    assert {db.get_query(name).status for name in texts} == {"running"}
    assert told(db, "q")[0][0] == "-1.0"


@pytest.mark.parametrize("since", ["", "2026-01-01 00:00:03"])
def test_one_whose_state_is_lost_is_stopped_alone(db: SparklessDatabase, since: str) -> None:
    merge = f"SELECT p.x {ON}"
    counts = f"SELECT count(*) AS n FROM a SINCE TIMESTAMP '{since}' EMIT EVERY INTERVAL 5 SECONDS"
    db.create_queries({"q": counts if since else merge, "rows": "SELECT x FROM a WHERE c = 1", "other": f"{merge} "})
    db.create_queries({"third": f"SELECT f.x {LATE.replace('LEFT ANTI', '')}"})
    fill(db, 0, 60)
    assert are_gone(db)
    entry = db.catalog.hosted.roster("host").by_name["q"]
    folder = Path(db._queries.get("host")._member.scratch) / str(state_of(entry))
    for file in folder.iterdir():
        file.write_bytes(b"AnSt not what was written")
    db.get_query("host").stop()
    assert {finding.what for finding in db.check().findings} == {"file damaged"}
    db.get_query("host").start()
    fill(db, 60, 100)
    name = "TOTALS_LOST" if since else "MERGE_STATE_LOST"
    assert name in str(db.get_query("q").failure)
    assert db.get_query("rows").status == db.get_query("third").status == "running"
    assert len(told(db, "rows")) == 25
    db.drop_query("q")
    db.create_queries({"q": counts if since else merge})
    fill(db, 100, 110)
    assert db.get_query("q").status == "running"


def test_what_those_kept_that_are_dropped_is_let_go(db: SparklessDatabase) -> None:
    db.create_queries({f"q{c}": f"SELECT p.x {ON} WHERE p.c = {c}" for c in range(2)})
    db.create_queries({"n": "SELECT count(*) AS n FROM a SINCE TIMESTAMP '2026-01-01' EMIT EVERY INTERVAL 5 SECONDS"})
    fill(db, 0, 20)
    folder = Path(db._queries.get("host")._member.scratch) / "state"
    assert len(list(folder.iterdir())) == 2
    for name, left in (("n", 1), ("q0", 1), ("q1", 0)):
        db.create_queries({f"r{name}": "SELECT x FROM a"})
        db.drop_query(name)
        fill(db, 20 if name == "n" else 30 if name == "q0" else 40, 30 if name == "n" else 40 if name == "q0" else 50)
        db._queries.look_after()
        assert len(list(folder.iterdir())) == left


def test_one_of_a_family_that_fails_is_stopped_alone(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = merges._lookups

    def failing(members: Any, schema: Any) -> Any:
        if any("9" in repr(matching.columns) for _, matching in members):
            raise MemoryError("of this one")
        return lookups(members, schema)

    monkeypatch.setattr(merges, "_lookups", failing)
    texts = {f"q{c}": f"SELECT p.c + {c} AS r {ON} WHERE p.c = 1" for c in (1, 2, 3, 9, 4)}
    db.create_queries(texts)
    fill(db, 0, 30)
    assert "of this one" in str(db.get_query("q9").failure)
    monkeypatch.setattr(merges, "_lookups", lookups)
    db.get_query("q9").start()  # what the family keeps is kept for it
    fill(db, 30, 60)
    assert {db.get_query(name).status for name in texts} == {"running"}
    answers = {name: [int(row[0]) - int(name[1:]) for row in told(db, name)] for name in texts}
    assert answers == dict.fromkeys(texts, [1] * 15)


def test_one_that_begins_in_the_archive_catches_up_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohorts, "CATCH_UP_ROWS", 20)
    text = (
        "SELECT k, count(*) AS n FROM a SINCE TIMESTAMP '2026-01-01 00:00:07' GROUP BY k EMIT EVERY INTERVAL 9 SECONDS"
    )
    with SparklessDatabase(tmp_path / "river", settings={"segment_bytes": 1500, "segment_parts": 2}) as db:
        for create in STREAMS:
            db.sql(create.replace(" TIMESTAMP BY at", " TIMESTAMP BY at RETAIN INTERVAL 5 SECONDS"))
        db.sql("CREATE ARCHIVE ON a USING plain")
        db.create_queries({"rows": "SELECT x FROM a"})
        for low in range(0, 200, 40):
            fill(db, low, low + 40)
            db.archive("a").append()
        fill(db, 200, 220)
        logged = db.reader("a")
        logged.refresh()
        assert logged.first_logged_row() > 20
        db.create_queries({"q": text})
        db.catch_up()
        fill(db, 220, 240)
        assert db.get_query("q").status == "running"
        assert told(db, "q") == once(text, tmp_path, 240)
        db.move_query("q", None)
        fill(db, 240, 260)
        db.move_query("q", "host")
        fill(db, 260, 280)
        with SparklessDatabase(tmp_path / "other") as other:
            for create in STREAMS:
                other.sql(create)
            other.query(text, name="q")
            fill(other, 0, 280)
            assert told(db, "q") == told(other, "q")


def test_what_must_stand_alone_says_why(db: SparklessDatabase) -> None:
    with pytest.raises(QueryError, match=r"MUST_STAND_ALONE.*how much of history that reads"):
        db.sql(
            "CREATE CONTINUOUS QUERY q ON HOST crowd AS SELECT count(*) AS n FROM a "
            "SINCE TIMESTAMP '2026-01-01' REDUCE BY uniform(0.5) EMIT EVERY INTERVAL 5 SECONDS"
        )
    with pytest.raises(CatalogError, match="ARCHIVE_NOT_FOUND"):
        db.sql(
            "CREATE CONTINUOUS QUERY q ON HOST crowd AS SELECT p.k FROM b p "
            "JOIN ARCHIVE a h LAST 2 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR ON p.k = h.k"
        )


def test_rounds_of_members_come_by_the_clock_though_no_row_does(tmp_path: Path) -> None:
    clock = ManualClock(BASE)
    with SparklessDatabase(tmp_path / "river", clock=clock) as db:
        db.sql("CREATE STREAM a (k INT)")
        db.sql("CREATE STREAM b (k INT)")
        db.create_queries(
            {
                f"q{k}": f"SELECT p.k FROM a p LEFT ANTI MERGE JOIN b f ON within(p.k, f.k, 0) "
                f"WITH (wait = INTERVAL 10 SECONDS) WHERE p.k = {k}"
                for k in (1, 2)
            }
        )
        db.append("a", [{"k": 1}, {"k": 2}])
        db.append("b", [{"k": 2}])
        db.catch_up()
        assert told(db, "q1") == []
        clock.advance(30)
        db.catch_up()
        assert [row[0] for row in told(db, "q1")] == ["1"]
        assert told(db, "q2") == []

"""Members of a host answer what they would answer if each stood alone, whoever else comes and goes."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import math
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from anabranch.database import Database
from anabranch.errors import AnabranchError, CatalogError, QueryError
from anabranch.operators.base import Inputs
from anabranch.operators.together.families import folded
from anabranch.queries.hosts import Problem
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import SEED

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAM = (
    "CREATE STREAM s (k INT, b BIGINT, x DOUBLE, f FLOAT, t STRING, flag BOOLEAN, d DATE, m DECIMAL(10, 2), "
    "at TIMESTAMP) TIMESTAMP BY at"
)
TEXTS = ["", "a", "a\0", "ab", "äb", "ä", "z", "日本", "日本語", "A%", "a_b"]
NUMBERS = [0.0, -0.0, 1.5, -1.5, 1e300, math.inf, -math.inf, math.nan, 16777217.0]


def a_row(chance: random.Random, second: int) -> dict[str, Any]:
    row = {
        "k": chance.randrange(-3, 12),
        "b": chance.choice([0, 5, 2**53 + 1, -(2**63), 2**63 - 1]),
        "x": chance.choice(NUMBERS),
        "f": chance.choice(NUMBERS[:4]),
        "t": chance.choice(TEXTS),
        "flag": chance.random() < 0.5,
        "d": dt.date(2026, 1, chance.randrange(1, 5)),
        "m": Decimal(chance.randrange(-200, 200)) / 100,
    }
    return {name: None if chance.random() < 0.1 else value for name, value in row.items()} | {
        "at": BASE + dt.timedelta(seconds=second)
    }


def a_condition(chance: random.Random) -> str:
    text = chance.choice(TEXTS).replace("\0", "")
    number = chance.choice(["0", "-1.5", "1.5", "1e0", "16777217", "0.1", "-0.0"])
    whole = chance.randrange(-3, 12)
    some = ", ".join(str(chance.randrange(-3, 12)) for _ in range(chance.randrange(1, 5)))
    op = chance.choice(["=", "<", "<=", ">", ">=", "<>"])
    return chance.choice(
        [
            f"k {op} {whole}",
            f"{whole} {op} k",
            f"k IN ({some})",
            f"k BETWEEN {whole} AND {whole + chance.randrange(-1, 6)}",
            f"k {op} {whole}.5",
            f"b {op} {chance.choice(['5', '9007199254740993', '9223372036854775807', '-9223372036854775808', '5L'])}",
            f"x {op} {number}",
            f"{number} {op} x",
            f"f {op} {number}",
            f"t {op} '{text}'",
            f"t IN ('{text}', 'ab')",
            f"t LIKE '{text.replace('%', '')}%'",
            "t LIKE '%b%'",
            f"{chance.choice(['k', 'x', 't', 'flag', 'd'])} IS {chance.choice(['', 'NOT '])}NULL",
            chance.choice(["flag", "NOT flag", "flag = TRUE"]),
            f"d {op} DATE '2026-01-0{chance.randrange(1, 5)}'",
            f"at {op} TIMESTAMP '2026-01-01 00:0{chance.randrange(0, 3)}:00'",
            f"m {op} {chance.randrange(-200, 200) / 100}",
            f"(k = {whole} OR t = '{text}')",
            f"k + 1 > {whole}",
            f"k <=> {whole}",
        ]
    )


def a_query(chance: random.Random) -> str:
    where = " AND ".join(a_condition(chance) for _ in range(chance.randrange(0, 4)))
    where = f" WHERE {where}" if where else ""
    kind = chance.random()
    if kind < 0.6:
        columns = chance.choice(["k, t, at", "x * 2 AS y, at", "b, x, f", "t", "k, t, at"])
        return f"SELECT {columns} FROM s{where}"
    if kind < 0.9:  # of a family
        own = chance.choice([f"k = {chance.randrange(0, 4)}", f"'{chance.choice(['a', 'ab', 'ä'])}' = t", "flag"])
        rest = chance.choice(["", " AND x >= 0"])
        group = chance.choice(["", " GROUP BY d"])
        values = "count(*) AS n, sum(f) AS total, median(x) AS middle"
        return f"SELECT {values} FROM s WHERE {own}{rest} WINDOW = INTERVAL 30 SECONDS{group}"
    size = chance.choice([20, 30, 60])
    value = chance.choice(["count(*) AS n", "sum(k) AS n, max(x) AS most", "median(x) AS middle"])
    group = chance.choice(["", " GROUP BY k"])
    keys = "k, " if group else ""
    window = f"WINDOW = INTERVAL {size} SECONDS SLIDE INTERVAL 10 SECONDS"
    return f"SELECT window_end, {keys}{value} FROM s{where} {window}{group}"


def alone(path: Path, texts: dict[str, str], rows: list[list[dict[str, Any]]]) -> dict[str, list[Any]]:
    """What queries answer that stand alone, over the rows in any pieces."""
    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        db.sql(STREAM)
        for part in rows:
            db.append("s", part)
        for name, text in texts.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in texts}


def told(db: Database, name: str) -> list[Any]:
    return [tuple(map(repr, row.values())) for row in db.get_query(name).table().to_pylist()]


UNKIND = {
    "kind": Unkindness(),
    "repeated": Unkindness(replay=True),
    "forgetful": Unkindness(forget=True),
    "faulty": Unkindness(faults=True),
}


@pytest.mark.parametrize("how", UNKIND)
@pytest.mark.parametrize("round_", range(3))
def test_members_that_come_and_go_answer_what_each_does_alone(
    tmp_path: Path, how: str, round_: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folded, "LEAST", 2)
    chance = random.Random(f"{SEED} {how} {round_}")
    second = 0
    parts: list[list[dict[str, Any]]] = []
    asked: dict[str, str] = {}
    names = itertools.count()
    settings = {"batch_rows": 37, "segment_bytes": 4000}
    path = tmp_path / "river"
    stopped: set[str] = set()
    for process in range(4):
        with SparklessDatabase(path, settings=settings, unkindness=UNKIND[how]) as db:
            if not parts:
                db.sql(STREAM)
            for _ in range(3):
                parts.append([a_row(chance, second := second + 1) for _ in range(chance.randrange(1, 60))])
                db.append("s", parts[-1])
                new = {f"q{next(names)}": a_query(chance) for _ in range(chance.randrange(0, 6))}
                if new:
                    db.create_queries(new)
                asked |= new
                if chance.random() < 0.7:
                    db.catch_up()
                if len(asked) > 4 and chance.random() < 0.5:
                    gone = chance.choice(list(asked))
                    db.drop_query(gone)
                    if chance.random() < 0.5:
                        asked[gone] = a_query(chance)
                        db.create_queries({gone: asked[gone]})
                    else:
                        del asked[gone]
                    stopped.discard(gone)
                if asked and chance.random() < 0.4:
                    name = chance.choice(list(asked))
                    db.get_query(name).stop()
                    stopped.add(name)
                if stopped and chance.random() < 0.4:
                    name = chance.choice(sorted(stopped))
                    db.get_query(name).start()
                    stopped.discard(name)
            db.catch_up()
            for name in asked:
                assert db.get_query(name).status == ("stopped" if name in stopped else "running")
            if process == 3:
                for name in stopped:
                    db.get_query(name).start()
                db.catch_up()
            answers = {name: told(db, name) for name in asked}
    expected = alone(tmp_path / "alone", asked, parts)
    for name, text in asked.items():
        assert answers[name] == expected[name], text


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        yield db


def fill(db: SparklessDatabase, first: int, end: int) -> None:
    db.append("s", [{"k": i % 10, "x": float(i), "at": BASE + dt.timedelta(seconds=i)} for i in range(first, end)])


def test_numbers_have_no_gaps_and_streams_of_members_are_streams(db: SparklessDatabase) -> None:
    db.create_queries({"threes": "SELECT k, x, at FROM s WHERE k = 3", "all": "SELECT x, at FROM s"})
    for part in range(5):
        fill(db, 100 * part, 100 * (part + 1))
        db.catch_up()
    reader = db.reader("threes")
    assert reader.end().row == 50
    assert reader.read(7, 9).column("x").to_pylist() == [73.0, 83.0]
    assert reader.row_at_time(int((BASE + dt.timedelta(seconds=74)).timestamp() * 1e6), 50) == 8
    assert db.tail("threes", 1).column("x").to_pylist() == [493.0]
    over = db.query("SELECT x FROM threes WHERE x > 400", name="over")
    db.catch_up()
    assert over.table().column("x").to_pylist() == [403.0 + 10 * i for i in range(10)]
    with pytest.raises(CatalogError, match="over"):
        db.drop_query("threes")
    assert [info.name for info in db.streams() if info.name in ("threes", "all")] == ["all", "threes"]


def test_a_member_that_is_stopped_stays_where_it_is_and_goes_on_from_there(db: SparklessDatabase) -> None:
    texts = {f"q{k}": f"SELECT k, x, at FROM s WHERE k = {k}" for k in range(10)}
    texts["sums"] = "SELECT window_end, sum(x) AS total FROM s WINDOW = INTERVAL 30 SECONDS"
    db.create_queries(texts)
    fill(db, 0, 100)
    db.catch_up()
    for name in ("q1", "q2", "sums"):
        db.sql(f"STOP QUERY {name}")
    db.catch_up()
    before = {name: told(db, name) for name in texts}
    fill(db, 100, 200)
    db.catch_up()
    assert [db.get_query(name).status for name in ("q1", "q2", "q3")] == ["stopped", "stopped", "running"]
    assert told(db, "q1") == before["q1"]
    assert told(db, "sums") == before["sums"]
    assert len(told(db, "q3")) == 20
    with pytest.raises(QueryError, match="QUERY_IS_STOPPED"):
        db.get_query("q1").wait(1)
    db.sql("STOP QUERY q1")  # again
    db.sql("START QUERY q1")
    db.sql("START QUERY sums")
    db.sql("START QUERY q3")
    db.catch_up()
    assert [len(told(db, name)) for name in ("q1", "q2", "q3")] == [20, 10, 20]
    assert [row[1] for row in told(db, "q1")] == [repr(float(i)) for i in range(1, 200, 10)]
    assert len(told(db, "sums")) == 6
    db.sql("DROP QUERY q2")
    fill(db, 200, 210)
    db.catch_up()
    assert db.get_query("host")._done()["host.members"].catching == ()


def test_rows_that_a_stopped_member_has_yet_to_read_are_kept(db: SparklessDatabase) -> None:
    def held() -> int | None:
        host = db.get_query("host")
        return host._member.operator.held(host._done(), Inputs(dict(host._member.readers())))["s"].row

    db.create_queries({"all": "SELECT x, at FROM s", "threes": "SELECT x, at FROM s WHERE k = 3"})
    fill(db, 0, 100)
    db.catch_up()
    db.sql("STOP QUERY threes")
    fill(db, 100, 200)
    db.catch_up()
    assert held() == 100
    db.sql("START QUERY threes")
    db.catch_up()
    assert held() == 200
    assert len(told(db, "threes")) == 20


def test_explain_says_what_is_done_together(db: SparklessDatabase) -> None:
    windows = {
        f"w{k}": f"SELECT sum(x) AS s FROM s WHERE k = {k} WINDOW = INTERVAL 1 MINUTE" for k in range(folded.LEAST)
    }
    alone = {"odd": "SELECT max(x) AS s FROM s WINDOW = INTERVAL 1 MINUTE"}
    picked = {"picked": "SELECT x FROM s WHERE 3 = k AND t LIKE '%a%'", "all": "SELECT x FROM s"}
    db.create_queries(windows | alone | picked)
    text = {name: " ".join(db.get_query(name).explain().split()) for name in ("picked", "all", "w3", "odd")}
    assert "host: host rows: read once for all looked up by: 3 = k" in text["picked"]
    assert "computed once for all that say the same: t LIKE '%a%'" in text["picked"]
    assert "looked up" not in text["all"]
    assert "windows: folded once, by k, for 8 queries that differ in it" in text["w3"]
    assert "windows: by itself" in text["odd"]
    assert json.loads(db.get_query("picked").explain("json"))["steps"][-1]["looked up by"] == ["3 = k"]


def test_explain_says_which_part_leaves_the_fewest_of_the_newest_rows(db: SparklessDatabase) -> None:
    db.create_queries({"few": "SELECT x FROM s WHERE 3 = k AND x >= 0"})

    def told() -> dict[str, Any]:
        step: dict[str, Any] = json.loads(db.get_query("few").explain("json"))["steps"][-1]
        return step

    assert sorted(told()["looked up by"]) == ["3 = k", "x >= 0"]
    assert "which of them" not in told()  # there are no rows yet
    fill(db, 0, 100)
    assert told()["looked up by"] == ["3 = k", "x >= 0"]
    assert told()["which of them"].startswith("the one that leaves the fewest rows: 10.00%, 100.00% of the newest 100;")


def test_past_so_many_alone_a_query_is_put_into_a_host_by_itself(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings={"alone_queries": 2}) as db:
        db.sql(STREAM)
        db.sql("CREATE STREAM other (n BIGINT)")
        for number in range(4):
            said = db.sql(f"CREATE CONTINUOUS QUERY q{number} AS SELECT k, x FROM s WHERE k = {number}").message
            assert ("a member of host" in str(said)) == (number >= 2)
        db.sql("CREATE CONTINUOUS QUERY mine ALONE AS SELECT x FROM s WHERE k = 4")
        db.sql("CREATE STREAM kept AS SELECT x, at FROM s")
        db.query("SELECT n FROM other", name="elsewhere")
        db.query("SELECT x FROM s WHERE k = 5", name="asked")
        db.query("SELECT x FROM kept", name="of_kept")
        shown = {row["query"]: row["host"] for row in db.sql("SHOW QUERIES")}
        assert shown == {
            "q0": None, "q1": None, "q2": "host", "q3": "host", "mine": None, "kept": None,
            "elsewhere": "host_2", "asked": "host", "of_kept": "host_3",
        }  # fmt: skip
        fill(db, 0, 100)
        db.catch_up()
        assert [len(told(db, name)) for name in ("q0", "q3", "mine", "asked", "of_kept")] == [10, 10, 10, 10, 100]
        db.settings.change(alone_queries=0)
        assert db.query("SELECT x FROM s", name="late").host is None
        db.settings.change(alone_queries=1, reevaluate_at_most=4)
        assert db.query("SELECT x FROM s", name="paced").host == "host"


def test_all_members_are_followed_by_one_reader(db: SparklessDatabase) -> None:
    db.create_queries({f"k{i}": f"SELECT k, x FROM s WHERE k = {i}" for i in range(10)})
    fill(db, 0, 100)
    db.catch_up()
    followed = db.follow_host(start=0)
    seen: dict[str, list[float]] = {}
    while sum(map(len, seen.values())) < 100:
        name, batch = next(followed)
        seen.setdefault(name, []).extend(batch.column("x").to_pylist())
    assert seen == {f"k{i}": [float(n) for n in range(i, 100, 10)] for i in range(10)}


def test_they_are_shown_by_name_with_their_host(db: SparklessDatabase) -> None:
    db.create_queries({f"Rule{i}": f"SELECT k FROM s WHERE k = {i}" for i in range(12)})
    db.sql("CREATE CONTINUOUS QUERY more ON HOST host AS SELECT x FROM s WHERE k > 5")
    fill(db, 0, 30)
    db.catch_up()
    assert [row["query"] for row in db.sql("SHOW QUERIES LIKE 'rule1_'")] == ["Rule10", "Rule11"]
    assert {(row["host"], row["status"]) for row in db.sql("SHOW QUERIES")} == {("host", "running")}
    assert [row["query"] for row in db.sql("SHOW QUERIES LIKE 'rule1%' LIMIT 2 OFFSET 1")] == ["Rule10", "Rule11"]
    assert [row["query"] for row in db.sql("SHOW QUERIES LIMIT 2")] == ["more", "Rule0"]
    assert len(db.sql("SHOW QUERIES LIMIT 5 OFFSET 1000")) == 0
    with pytest.raises(AnabranchError, match="expected a whole number"):
        db.sql("SHOW QUERIES LIMIT -1")
    (row,) = db.sql("SHOW QUERIES LIKE 'rule3'")
    assert row["stream"] == 3
    assert [info["stream"] for info in db.sql("SHOW STREAMS LIKE 'more'")] == ["more"]
    described = {row["property"]: row["value"] for row in db.sql("DESCRIBE QUERY more")}
    assert described["host"] == "host"
    assert described["stream.rows"] == "12"
    with pytest.raises(AnabranchError, match="pattern"):
        db.sql("SHOW QUERIES LIKE rule")


def test_wrong_ones_are_told_all_at_once_and_none_is_made(db: SparklessDatabase) -> None:
    texts = {f"q{i}": f"SELECT {'nothing' if i % 10 == 3 else 'k'} FROM s WHERE k = {i}" for i in range(40)}
    with pytest.raises(CatalogError, match="4 of 40 queries are wrong") as caught:
        db.create_queries(texts)
    assert str(caught.value).count("nothing") >= 4
    assert "14. q13" in str(caught.value)
    assert db.queries() == []
    problems: list[Problem] = []
    made = db.create_queries(texts, problems=problems)
    assert len(made) == 36
    assert [(problem.place, problem.name) for problem in problems] == [(n, f"q{n}") for n in (3, 13, 23, 33)]
    with pytest.raises(CatalogError, match="exists already"):
        db.create_queries({"q0": "SELECT k FROM s"})
    with pytest.raises(CatalogError, match="exists already"):
        db.sql("CREATE STREAM q0 (a INT)")


def test_what_must_stand_alone_says_why(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM other (k INT, at TIMESTAMP) TIMESTAMP BY at")
    with pytest.raises(CatalogError, match=r"explode\(\) may make several rows of one"):
        db.create_queries({"a": "SELECT explode(split(t, 'b')) AS r FROM s"})
    db.create_queries({"a": "SELECT k FROM s"})
    with pytest.raises(QueryError, match="does not"):
        db.create_queries({"b": "SELECT k FROM other"})
    db.create_queries({"b": "SELECT k FROM other"}, host="others")
    assert db.catalog.hosted.hosts() == ["host", "others"]


def test_one_that_fails_is_stopped_alone(db: SparklessDatabase) -> None:
    largest = 2**63 - 1
    db.create_queries(
        {
            "sums": "SELECT window_end, sum(b) AS total FROM s WINDOW = INTERVAL 10 SECONDS",
            "counts": "SELECT window_end, count(*) AS n FROM s WINDOW = INTERVAL 10 SECONDS",
            "rows": "SELECT b FROM s WHERE b > 0",
        }
    )
    db.append("s", [{"b": 1, "at": BASE + dt.timedelta(seconds=i)} for i in range(20)])
    db.catch_up()
    db.append("s", [{"b": largest, "at": BASE + dt.timedelta(seconds=i)} for i in range(20, 60)])
    db.catch_up()
    db.catch_up()
    failed = db.get_query("sums")
    assert failed.status == "failed"
    assert isinstance(failed.failure, AnabranchError)
    assert "sums" in str(failed.failure)
    assert failed.table().num_rows >= 1
    assert db.get_query("counts").table().num_rows == 6 - 1
    assert db.get_query("rows").table().num_rows == 60
    db.drop_query("sums")
    db.create_queries({"sums": "SELECT k FROM s"})
    db.catch_up()
    assert db.get_query("sums").table().num_rows == 60


def test_families_of_windows_are_folded_once(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {f"q{i}": f"SELECT count(*) AS n FROM s WHERE k = {i % 12} WINDOW = INTERVAL 1 MINUTE" for i in range(24)}
    sizes: list[int] = []
    run = folded.FoldedFamily.run

    def counted(family: folded.FoldedFamily, *more: Any) -> Any:
        sizes.append(len(family.members))
        return run(family, *more)

    monkeypatch.setattr(folded.FoldedFamily, "run", counted)
    monkeypatch.setattr("anabranch.operators.together.together.Together._run_one", lambda *_: pytest.fail("one by one"))
    db.create_queries(asked)
    fill(db, 0, 300)
    db.catch_up()
    assert set(sizes) == {24}
    assert db.get_query("q3").table().column("n").to_pylist() == [6] * 4
    assert db.get_query("q15").table().column("n").to_pylist() == [6] * 4
    assert db.get_query("q11").table().num_rows == 0


def test_another_process_adds_and_drops_members_of_a_host_it_does_not_run(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river") as here, SparklessDatabase(tmp_path / "river") as there:
        here.sql(STREAM)
        fill(here, 0, 100)
        here.create_queries({"a": "SELECT x FROM s WHERE k = 1"})
        there.create_queries({"b": "SELECT x FROM s WHERE k = 2", "c": "SELECT x FROM s"})
        assert there.get_query("b").status in ("elsewhere", "starting")
        here.catch_up()
        there.drop_query("c")
        fill(here, 100, 200)
        here.catch_up()
        for db in (here, there):
            assert db.get_query("b").table().num_rows == 20
            assert [query.name for query in db.queries()] == ["a", "b"]
            assert db.check().fine
        with pytest.raises(CatalogError):
            there.create_queries({"b": "SELECT k FROM s"})


def lose_the_newest_answers(river: Path) -> None:
    newest = max((river / "streams" / "host" / "segments").iterdir(), key=lambda file: file.name)
    newest.unlink()


def lose_the_checkpoint(river: Path) -> None:
    shutil.rmtree(river / "queries" / "host" / "checkpoint")


def lose_what_is_kept(river: Path) -> None:
    shutil.rmtree(river / "queries" / "host" / "scratch", ignore_errors=True)
    for name in ("numbers.json", "progress.json"):
        (river / "queries" / "host" / name).unlink(missing_ok=True)


@pytest.mark.parametrize("harm", [lose_the_newest_answers, lose_the_checkpoint, lose_what_is_kept])
def test_what_is_lost_of_a_host_is_computed_again(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    chance = random.Random(5)
    asked = {f"q{i}": a_query(chance) for i in range(20)}
    parts = [[a_row(chance, 40 * part + i) for i in range(40)] for part in range(6)]
    settings = {"batch_rows": 50, "segment_parts": 1000}
    with SparklessDatabase(tmp_path / "river", settings=settings) as db:
        db.sql(STREAM)
        for part in parts[:2]:
            db.append("s", part)
        db.create_queries(dict(list(asked.items())[:12]))
        db.catch_up()
        db.create_queries(dict(list(asked.items())[12:]))
        for part in parts[2:4]:
            db.append("s", part)
            db.catch_up()
    harm(tmp_path / "river")
    with SparklessDatabase(tmp_path / "river", settings=settings) as db:
        for part in parts[4:]:
            db.append("s", part)
            db.catch_up()
        answers = {name: told(db, name) for name in asked}
    assert answers == alone(tmp_path / "alone", asked, parts)


def test_a_host_that_was_half_made_is_made_anew(db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.queries.hosts._MAKING_SECONDS", 0.1)
    with monkeypatch.context() as dying:
        dying.setattr(db._queries, "_start_new", lambda *_: sys.exit("killed"))
        dying.setattr(db.catalog, "drop_stream", lambda *_: None)
        with pytest.raises(SystemExit):
            db.create_queries({"a": "SELECT x FROM s"})
    fill(db, 0, 10)
    db.create_queries({"a": "SELECT x FROM s"})
    db.catch_up()
    assert db.get_query("a").table().num_rows == 10
    with monkeypatch.context() as dying:
        dying.setattr(db.catalog.hosted, "note_host", lambda *_: sys.exit("killed"))
        with pytest.raises(SystemExit):
            db.create_queries({"b": "SELECT x FROM s"}, host="other")
    db.create_queries({"b": "SELECT x FROM s"}, host="other")
    db.catch_up()
    assert db.get_query("b").table().num_rows == 10


def test_families_of_two_hosts_do_not_mix(db: SparklessDatabase) -> None:
    window = "WINDOW = INTERVAL 1 MINUTE"
    for host, first in (("low", 0), ("high", 4)):
        asked = {
            f"{host}{i}": f"SELECT count(*) AS n, min(k) AS k FROM s WHERE k = {first + i % 4} {window}"
            for i in range(8)
        }
        db.create_queries(asked, host=host)
    fill(db, 0, 300)
    db.catch_up()
    for host, first in (("low", 0), ("high", 4)):
        for i in range(8):
            assert set(db.get_query(f"{host}{i}").table().column("k").to_pylist()) == {first + i % 4}


def test_the_last_to_go_takes_its_host_along(db: SparklessDatabase) -> None:
    for _ in range(3):
        db.create_queries({"a": "SELECT k FROM s", "b": "SELECT k FROM s"})
        with pytest.raises(CatalogError, match="runs 2 queries"):
            db.drop_query("host")
        db.drop_query("a")
        db.drop_query("b")
        assert db.catalog.hosted.hosts() == []
    db.sql("DROP STREAM s")


def test_a_new_member_catches_up_in_pieces_that_are_written_down(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.engine.cohorts.CATCH_UP_ROWS", 100)
    fill(db, 0, 1000)
    db.create_queries({"first": "SELECT x FROM s"})
    (running,) = db._local._running
    running.step()
    for step in range(9):
        running.step()
        assert db.get_query("first").table().num_rows == 100 * (step + 1)
        assert db.get_query("first").status == "starting"
    running.step()
    assert db.get_query("first").status == "running"
    assert db.get_query("first").table().column("x").to_pylist() == [float(i) for i in range(1000)]

"""A member of a host that is heavy, floods, or fails: it is seen, and the others of its host do not notice."""

from __future__ import annotations

import datetime as dt
import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.cli.hosts import condensed
from anabranch.errors import CatalogError, QueryError, StreamError
from anabranch.operators.base import Inputs
from anabranch.operators.columns import Bound, bind
from anabranch.operators.together import costs
from anabranch.operators.together.costs import Meter
from anabranch.operators.windows.run import WindowRun
from anabranch.queries import holding
from anabranch.queries.costs import heaviest
from anabranch.queries.hosts import Problem
from anabranch.queries.sink import StreamSink
from anabranch.testing import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.queries.test_together import UNKIND, told
from tests.sampling import sampled

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAM = "CREATE STREAM s (k INT, x DOUBLE, at TIMESTAMP) TIMESTAMP BY at"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        yield db


def fill(db: SparklessDatabase, first: int, end: int) -> None:
    db.append("s", [{"k": i % 10, "x": float(i), "at": BASE + dt.timedelta(seconds=i)} for i in range(first, end)])


def number_of(db: SparklessDatabase, name: str) -> int:
    found = db.catalog.hosted.find(name)
    assert found is not None
    return found.entry.number


# -- what each costs --------------------------------------------------------------------------------


def test_the_heaviest_members_are_seen_from_anywhere(db: SparklessDatabase, tmp_path: Path) -> None:
    db.create_queries({f"k{i}": f"SELECT x FROM s WHERE k = {i}" for i in range(5)})
    db.create_queries({"all": "SELECT * FROM s"})
    window = "WINDOW = INTERVAL 5 MINUTES SLIDE INTERVAL 1 SECOND"
    db.create_queries({"medians": f"SELECT median(x) AS m, k FROM s {window} GROUP BY k"})
    for part in range(5):
        fill(db, 200 * part, 200 * (part + 1))
        db.catch_up()
    with SparklessDatabase(tmp_path / "river") as other:
        for seen in (db, other):
            heavy = heaviest(seen.get_query("host"))
            costs = {number: (share, ms) for number, share, ms in heavy}
            assert [ms for _, _, ms in heavy] == sorted((ms for _, ms in costs.values()), reverse=True)
            assert sum(share for share, _ in costs.values()) == pytest.approx(1, abs=0.001)
            share, ms = costs[number_of(seen, "medians")]
            assert ms > 0
            stats = {name: seen.get_query(name).stats() for name in ("medians", "all", "k1")}
            assert stats["medians"]["share"] == pytest.approx(share, abs=0.001)
            assert stats["medians"]["ms"] == pytest.approx(ms, abs=0.001)
            assert stats["all"]["answers_per_batch"] > 5 * stats["k1"]["answers_per_batch"] > 0
            assert stats["all"]["share"] > stats["k1"]["share"] > 0
            shown = {row["query"]: row for row in seen.sql("SHOW QUERIES")}
            assert shown["medians"]["share"] == stats["medians"]["share"]
            assert {row["behind"] for row in shown.values()} == {0}
            described = {row["property"]: row["value"] for row in seen.sql("DESCRIBE QUERY medians")}
            assert float(described["ms"]) == pytest.approx(ms, abs=0.001)


def test_top_shows_the_heaviest_and_those_that_are_behind(db: SparklessDatabase) -> None:
    db.create_queries({f"k{i}": f"SELECT x FROM s WHERE k = {i + 20}" for i in range(20)})
    window = "WINDOW = INTERVAL 5 MINUTES SLIDE INTERVAL 1 SECOND"
    db.create_queries({"medians": f"SELECT median(x) AS m, k FROM s {window} GROUP BY k"})
    fill(db, 0, 500)
    db.catch_up()
    db.get_query("k7").stop()
    db.catch_up()
    fill(db, 500, 900)
    db.catch_up()
    queries = db.overview()["queries"]
    lines = condensed(queries)
    assert [line["name"] for line in lines[:2]] == ["host: 21 queries", "· k7"]
    assert lines[2]["share"] == max(query["share"] for query in queries if query["name"] != "k7")
    assert lines[0]["behind_rows"] == 0
    assert lines[1]["behind_rows"] == 400


# -- one that fails ---------------------------------------------------------------------------------

LARGEST = 2**63 - 1


class Broken:
    """What members compute with `x * 3`, or in windows of 7 seconds, raises while it is on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.problem: Exception | None = None
        batches = WindowRun.batches

        def binding(sql: str, schema: pa.Schema) -> Bound:
            bound = bind(sql, schema)
            return replace(bound, evaluate=self._broken(bound.evaluate)) if "x * 3" in sql else bound

        def running(run: WindowRun, keep: bool) -> Iterator[pa.RecordBatch]:
            sick = any(asked.panes.size == 7_000_000 for asked in run._several)
            yield from (self._broken(batches) if sick else batches)(run, keep)

        monkeypatch.setattr("anabranch.operators.together.selections.bind", binding)
        monkeypatch.setattr(WindowRun, "batches", running)

    def _broken(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        def computed(*given: Any) -> Any:
            if self.problem is not None:
                raise self.problem
            return compute(*given)

        return computed


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


OTHERS = {
    "rows": "SELECT x, at FROM s WHERE x >= 0",
    "counts": "SELECT window_end, count(*) AS n FROM s WINDOW = INTERVAL 7 MINUTES SLIDE INTERVAL 7 SECONDS",
}
SICK = {
    "product": "SELECT x * 3 AS y, at FROM s",
    "condition": "SELECT x, at FROM s WHERE x * 3 > 30 AND k = 3",
    "window": "SELECT window_end, count(*) AS n FROM s WINDOW = INTERVAL 7 SECONDS",
    **{f"one_of_{k}": f"SELECT sum(x) AS t FROM s WHERE k = {k} WINDOW = INTERVAL 7 SECONDS" for k in range(10)},
}


def expected(path: Path, rows: int) -> dict[str, list[Any]]:
    """What they answer that stand alone."""
    with SparklessDatabase(path / "alone", settings={"alone_queries": 0}) as db:
        db.sql(STREAM)
        fill(db, 0, rows)
        for name, text in {**OTHERS, **SICK}.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in (*OTHERS, *SICK)}


PROBLEMS = (
    ZeroDivisionError("by zero"),
    MemoryError(),
    RuntimeError("a reducer of someone's"),
    pa.ArrowMemoryError("no"),
)
CASES: list[tuple[Exception, str]] = list(itertools.product(PROBLEMS, UNKIND))

SOME = sampled(CASES, 2, "problems", lambda case: case[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "how"),
    SOME,
    ids=lambda case: case if isinstance(case, str) else type(case).__name__,
)
def test_whatever_it_is_that_a_member_raises_the_others_lose_nothing_and_it_goes_on_from_there(
    tmp_path: Path, broken: Broken, problem: Exception, how: str
) -> None:
    wanted = expected(tmp_path, 400)
    with SparklessDatabase(tmp_path / "river", unkindness=UNKIND[how]) as db:
        db.sql(STREAM)
        db.create_queries({**OTHERS, **SICK})
        fill(db, 0, 100)
        db.catch_up()
        before = {name: told(db, name) for name in SICK}
        broken.problem = problem
        fill(db, 100, 200)
        db.catch_up()
        fill(db, 200, 300)
        db.catch_up()
        for name in SICK:
            query = db.get_query(name)
            assert query.status == "failed"
            assert type(problem).__name__ in str(query.failure)
            assert query.stats()["behind_rows"] == 200
            assert [event["event"] for event in query.events()] == ["member_failed"]
            assert told(db, name) == before[name]
        assert "member_failed" in [event["event"] for event in db.get_query("host").events()]
        for name in OTHERS:
            assert told(db, name) == wanted[name][: len(told(db, name))] != []
            assert db.get_query(name).stats()["behind_rows"] == 0
        db.sql("START QUERY product")  # it fails again, where it did
        db.catch_up()
        assert db.get_query("product").status == "failed"
        assert told(db, "product") == before["product"]
        broken.problem = None
        for name in SICK:
            db.sql(f"START QUERY {name}")
        db.catch_up()
        fill(db, 300, 400)
        db.catch_up()
        assert {name: told(db, name) for name in wanted} == wanted
        assert db.get_query("host")._done()["host.members"].catching == ()


def test_a_row_that_cannot_be_summed_fails_again_for_the_same_reason(db: SparklessDatabase) -> None:
    db.sql("CREATE STREAM large (b BIGINT, at TIMESTAMP) TIMESTAMP BY at")
    window = "WINDOW = INTERVAL 10 SECONDS"
    db.create_queries(
        {
            "sums": f"SELECT window_end, sum(b) AS t FROM large {window}",
            "counts": f"SELECT window_end, count(*) AS n FROM large {window}",
            "ratio": "SELECT b / 0 AS q, b + b AS twice, at FROM large",
        },
        host="of_large",
    )
    db.append("large", [{"b": 1, "at": BASE + dt.timedelta(seconds=i)} for i in range(20)])
    db.catch_up()
    db.append("large", [{"b": LARGEST, "at": BASE + dt.timedelta(seconds=i)} for i in range(20, 60)])
    db.catch_up()
    query = db.get_query("sums")
    why, answers = str(query.failure), told(db, "sums")
    assert "SUM_OVERFLOW" in why
    assert len(answers) == 1
    for _ in range(3):
        query.start()
        db.catch_up()
        assert (str(query.failure), told(db, "sums")) == (why, answers)
    assert len(told(db, "counts")) == 5
    assert len(told(db, "ratio")) == 60
    assert set(db.get_query("ratio").table().column("q").to_pylist()) == {None}


@pytest.mark.parametrize("name", ["product", "window"])
def test_one_that_fails_only_the_first_time_has_its_answers_once(tmp_path: Path, broken: Broken, name: str) -> None:
    """The micro-batch is run again, as after a kill before its commit, and then nothing is wrong with it."""
    wanted = expected(tmp_path, 200)
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        db.create_queries({**OTHERS, name: SICK[name]})
        fill(db, 0, 100)
        db.catch_up()
        fill(db, 100, 200)
        broken.problem = MemoryError()
        (running,) = db._local._running
        with pytest.MonkeyPatch.context() as killed:
            killed.setattr(StreamSink, "take", lambda *_: sys.exit("killed"))
            with pytest.raises(SystemExit):
                running.step()
    broken.problem = None
    with SparklessDatabase(tmp_path / "river") as db:
        db.catch_up()
        assert db.get_query(name).status == "failed"
        assert len(told(db, name)) < len(wanted[name])
        db.get_query(name).start()
        db.catch_up()
        assert {each: told(db, each) for each in (*OTHERS, name)} == {each: wanted[each] for each in (*OTHERS, name)}


def test_rows_that_are_not_there_are_missed_by_the_host_and_are_no_fault_of_its_members(
    db: SparklessDatabase, broken: Broken
) -> None:
    db.create_queries(SICK)
    fill(db, 0, 50)
    db.catch_up()
    broken.problem = StreamError("ROWS_ARE_MISSING", "rows are missing")
    fill(db, 50, 100)
    db.catch_up()
    assert isinstance(db.get_query("host").failure, StreamError)
    broken.problem = None
    db.get_query("host").start()
    db.catch_up()
    assert {db.get_query(name).status for name in SICK} == {"running"}
    assert len(told(db, "product")) == 100


def test_rows_that_one_that_failed_has_yet_to_read_are_kept(db: SparklessDatabase, broken: Broken) -> None:
    def held() -> int | None:
        host = db.get_query("host")
        return host._member.operator.held(host._done(), Inputs(dict(host._member.readers())))["s"].row

    db.create_queries({**OTHERS, "product": SICK["product"]})
    fill(db, 0, 100)
    db.catch_up()
    broken.problem = ArithmeticError()
    fill(db, 100, 150)
    (running,) = db._local._running
    running.step()
    assert held() == 100  # the list says it, which no micro-batch has taken in yet
    fill(db, 150, 200)
    db.catch_up()
    assert held() == 100
    db.drop_query("product")
    fill(db, 200, 210)
    db.catch_up()
    assert held() == 210


# -- one that floods --------------------------------------------------------------------------------

PAIRS = "SELECT A.x AS a, B.x AS b, A.at AS at FROM s A, s B WINDOW(A, B) = INTERVAL 50 SECONDS WHERE A.k >= 0"
SMALL = {"member_rows": 1000, "batch_rows": 200}


def afresh(db: SparklessDatabase) -> None:
    """What was seen of hosts a moment ago does not count any more."""
    db._queries._counts.clear()
    db._queries._queries = {name: query for name, query in db._queries._queries.items() if query.host is None}


def steps(db: SparklessDatabase) -> Iterator[dict[str, int]]:
    """One micro-batch of the only host after the other: how many answers each member had in it."""
    (running,) = db._local._running
    before = {query.name: query.stats()["stream"]["rows"] for query in db.queries()}
    while running.step():
        afresh(db)
        now = {query.name: query.stats()["stream"]["rows"] for query in db.queries()}
        yield {name: rows - before.get(name, 0) for name, rows in now.items()}
        before = now


def alone(path: Path, texts: dict[str, str], *parts: tuple[int, int]) -> dict[str, list[Any]]:
    with SparklessDatabase(path / "alone", settings={"alone_queries": 0}) as db:
        db.sql(STREAM)
        for first, end in parts:
            fill(db, first, end)
        for name, text in texts.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in texts}


@pytest.mark.slow
@pytest.mark.parametrize("how", sampled(UNKIND, 2, "floods"))
def test_one_that_floods_is_held_back_alone_and_comes_back(tmp_path: Path, how: str) -> None:
    texts = {**OTHERS, "pairs": PAIRS}
    wanted = alone(tmp_path, texts, (0, 300), (300, 340))
    with SparklessDatabase(tmp_path / "river", settings=SMALL, unkindness=UNKIND[how]) as db:
        db.sql(STREAM)
        db.create_queries(texts)
        (running,) = db._local._running
        running.step()
        fill(db, 0, 300)
        late, most = 0, 0
        for told_of in steps(db):
            most = max(most, told_of["pairs"])
            late += db.get_query("rows").stats()["behind_rows"] > 0
            seen = db.get_query("pairs").stats()
            if seen["held_back"] and "since" not in locals():
                since = seen["held_back"]["since"]
                described = {row["property"]: row["value"] for row in db.sql("DESCRIBE QUERY pairs")}
                assert described["held_back.since"] == since
                assert int(described["behind_rows"]) > 0
                assert described["status"] == "running"
        assert most <= 1000
        if how != "faulty":  # there every other micro-batch takes one row
            assert late <= 1  # of the two that it takes to read them
        assert db.get_query("pairs").events()[0]["event"] == "member_held_back"
        assert {name: told(db, name) for name in texts}["rows"] == wanted["rows"][:300]
        for row in range(300, 340):
            fill(db, row, row + 1)
            db.catch_up()
        assert [event["event"] for event in db.get_query("pairs").events()] == ["member_held_back", "member_released"]
        assert db.get_query("pairs").stats()["held_back"] is None
        assert db.get_query("host")._done()["host.members"].catching == ()
        assert {name: told(db, name) for name in texts} == wanted


def test_nothing_is_done_in_silence_for_one_that_is_held_back(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings=SMALL) as db:
        db.sql(STREAM)
        db.create_queries({**OTHERS, "pairs": PAIRS})
        fill(db, 0, 500)
        db.catch_up()
        assert db.get_query("pairs").stats()["held_back"]
        (running,) = db._local._running
        assert not running.step()
        assert db.get_query("pairs").wait(1).status == "running"


def test_windows_of_one_that_is_held_back_close_by_the_clock(tmp_path: Path) -> None:
    clock = ManualClock(BASE)
    with SparklessDatabase(tmp_path / "river", settings=SMALL, clock=clock) as db:
        db.sql("CREATE STREAM now (k INT)")
        window = "WINDOW = INTERVAL 10 SECONDS GROUP BY k"
        db.create_queries({"many": f"SELECT k, count(*) AS n FROM now {window}", "all": "SELECT k FROM now"})
        db.append("now", pa.table({"k": pa.array(range(1500), pa.int32())}))
        clock.advance(60)
        db.catch_up()
        assert db.get_query("many").stats()["held_back"]
        assert db.get_query("many").table().num_rows == 1500
        db.append("now", pa.table({"k": pa.array(range(5), pa.int32())}))
        db.catch_up()
        assert db.get_query("many").table().num_rows == 1500
        clock.advance(60)
        db.catch_up()
        assert db.get_query("many").table().num_rows == 1505
        assert not db._local.catch_up()


@pytest.mark.slow
def test_it_is_stopped_started_and_dropped_like_any_other(tmp_path: Path) -> None:
    wanted = alone(tmp_path, {"pairs": PAIRS}, (0, 500))
    with SparklessDatabase(tmp_path / "river", settings=SMALL) as db:
        db.sql(STREAM)
        db.create_queries({"pairs": PAIRS, "twice": PAIRS, **OTHERS})
        fill(db, 0, 300)
        for _ in steps(db):
            if db.get_query("pairs").stats()["held_back"]:
                break
        db.get_query("pairs").stop()
        db.catch_up()
        assert db.get_query("pairs").status == "stopped"
        answers = told(db, "pairs")
        fill(db, 300, 500)
        db.catch_up()
        assert told(db, "pairs") == answers == wanted["pairs"][: len(answers)]
        db.get_query("pairs").start()
        db.catch_up()
        assert told(db, "pairs") == told(db, "twice") == wanted["pairs"]
        db.drop_query("pairs")
        db.drop_query("twice")
        fill(db, 500, 520)
        db.catch_up()
        assert db.get_query("host")._done()["host.members"].catching == ()


def test_selections_that_answer_too_much_are_held_back_one_by_one(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings={"member_rows": 100, "batch_rows": 500}) as db:
        db.sql(STREAM)
        texts = {f"most{i}": f"SELECT x, at FROM s WHERE k <> {i}" for i in range(3)}
        db.create_queries({**texts, **{f"k{i}": f"SELECT x FROM s WHERE k = {i}" for i in range(10)}})
        fill(db, 0, 500)
        found = list(steps(db))
        assert sum(answers["k3"] for answers in found) == 50
        assert all(db.get_query(name).stats()["held_back"] for name in texts)
        assert not any(db.get_query(f"k{i}").stats()["held_back"] for i in range(10))
        fill(db, 500, 3000)
        assert all(answers[name] <= 100 for answers in steps(db) for name in texts)
        assert {name: told(db, name) for name in texts} == alone(tmp_path, texts, (0, 3000))


def test_one_that_takes_most_of_the_time_is_held_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "_LEAST_FOR_TIME", 10)
    measured = Meter.said

    def slow(meter: Meter, members: int) -> costs.Said:
        """It takes 10 ms a row."""
        said = measured(meter, members)
        for number, cost in said["members"].items():
            cost[0] = 10 * cost[3] if int(number) == heavy else 1.0
        said["all"][1] = sum(cost[0] for cost in said["members"].values())
        return said

    monkeypatch.setattr(Meter, "said", slow)
    with SparklessDatabase(tmp_path / "river", settings={"member_ms": 1000}) as db:
        db.sql(STREAM)
        texts = {**OTHERS, "slow": "SELECT median(x) AS m FROM s WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 1 SECOND"}
        db.create_queries(texts)
        heavy = number_of(db, "slow")
        for first in range(0, 2000, 200):
            fill(db, first, first + 200)
            db.catch_up()
        told_of = db.get_query("slow").stats()["held_back"]
        assert told_of["rows_at_once"] <= 100
        assert "more than all others together" in told_of["why"]
        assert [db.get_query(name).stats()["held_back"] for name in OTHERS] == [None, None]
        assert {name: told(db, name) for name in texts} == alone(tmp_path, texts, (0, 2000))


def test_another_process_sees_who_is_held_back(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river", settings=SMALL) as here, SparklessDatabase(tmp_path / "river") as there:
        here.sql(STREAM)
        here.create_queries({**OTHERS, "pairs": PAIRS})
        fill(here, 0, 500)
        here.catch_up()
        assert there.get_query("pairs").stats()["held_back"]
        there.get_query("pairs").stop()
        here.catch_up()
        assert here.get_query("pairs").status == "stopped"


def test_a_row_with_more_answers_than_there_is_room_for_is_answered_all_the_same(tmp_path: Path) -> None:
    texts = {"pairs": PAIRS, **OTHERS}
    with SparklessDatabase(tmp_path / "river", settings={"member_rows": 20}) as db:
        db.sql(STREAM)
        db.create_queries(texts)
        fill(db, 0, 150)
        db.catch_up()
        assert {name: told(db, name) for name in texts} == alone(tmp_path, texts, (0, 150))


# -- those that answer some of their windows --------------------------------------------------------

SLIDING = "WINDOW = INTERVAL 30 SECONDS SLIDE INTERVAL 10 SECONDS"
PACED = {
    "alone_in_kind": f"SELECT window_end, median(x) AS m FROM s {SLIDING}",
    "changing": f"SELECT k, count(*) AS n FROM s {SLIDING} GROUP BY k EMIT CHANGES",
    "both": f"SELECT k FROM s {SLIDING} EXCEPT SELECT k FROM s {SLIDING}",
    "rows": "SELECT sum(x) AS t FROM s WINDOW = 20 ROWS SLIDE 5 ROWS",
    "picked": "SELECT x, at FROM s WHERE k = 3",
    **{f"one_of_{k}": f"SELECT window_end, sum(x) AS t FROM s WHERE k = {k} {SLIDING}" for k in range(10)},
}


@pytest.mark.slow
@pytest.mark.parametrize("how", UNKIND)
def test_members_answer_every_kth_window_as_they_would_alone(tmp_path: Path, how: str) -> None:
    settings = {"reevaluate_every": 3, "alone_queries": 0, "batch_rows": 60}
    with SparklessDatabase(tmp_path / "alone", settings=settings) as db:
        db.sql(STREAM)
        for name, text in PACED.items():
            db.query(text, name=name)
        fill(db, 0, 400)
        db.catch_up()
        wanted = {name: told(db, name) for name in PACED}
    with SparklessDatabase(tmp_path / "river", settings=settings, unkindness=UNKIND[how]) as db:
        db.sql(STREAM)
        db.create_queries(PACED)
        fill(db, 0, 200)
        db.catch_up()
    with SparklessDatabase(tmp_path / "river", settings={"batch_rows": 60}, unkindness=UNKIND[how]) as db:
        fill(db, 200, 400)
        db.catch_up()
        assert {name: told(db, name) for name in PACED} == wanted
        assert db.get_query("one_of_3").stats()["reevaluate"] == {"every": 3, "at_most": 0, "now": 3}


@pytest.mark.slow
@pytest.mark.parametrize("how", UNKIND)
def test_it_is_changed_while_it_runs_for_one_alone(tmp_path: Path, how: str) -> None:
    wanted = alone(tmp_path, PACED, (0, 600))
    with SparklessDatabase(tmp_path / "river", unkindness=UNKIND[how]) as db:
        db.sql(STREAM)
        db.create_queries(PACED)
        fill(db, 0, 200)
        db.catch_up()
        changed = ("alone_in_kind", "one_of_3", "one_of_4")
        for name in changed:
            assert "every 4-th window" in str(db.sql(f"ALTER QUERY {name} REEVALUATE EVERY 4").message)
        fill(db, 200, 400)
        db.catch_up()
        for name in changed:
            db.sql(f"ALTER QUERY {name} REEVALUATE EVERY 1")
        fill(db, 400, 600)
        db.catch_up()
        with pytest.raises(QueryError, match="REEVALUATION_INVALID"):
            db.get_query("one_of_3").reevaluate(0)
        for name in set(PACED) - {*changed}:
            assert told(db, name) == wanted[name]
        for name in changed:
            ends = db.get_query(name).table().column("window_end").to_pylist()
            seconds = [int((end - BASE).total_seconds()) for end in ends]
            assert [s for s in seconds if s < 200] == list(range(10, 200, 10))
            assert [s for s in seconds if 210 < s < 400] == [240, 280, 320, 360]
            assert [s for s in seconds if s > 400] == list(range(410, 600, 10))
            assert [row for row in wanted[name] if row in told(db, name)] == told(db, name)


@pytest.mark.slow
def test_while_a_host_is_behind_those_that_may_answer_fewer_windows_and_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = [0.0]
    monkeypatch.setattr("anabranch.engine.lateness.time.monotonic", lambda: took[0])
    patient = {name: PACED[name] for name in ("alone_in_kind", "one_of_3")}
    strict = {"strict": PACED["alone_in_kind"], "every_second": PACED["one_of_4"]}
    wanted = alone(tmp_path, {**patient, **strict}, (0, 1200))
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAM)
        db.create_queries({**patient, **strict, **PACED})  # of the same kind, for families
        db.sql("ALTER QUERY alone_in_kind REEVALUATE EVERY 1 AT MOST 8")
        db.sql("ALTER QUERY one_of_3 REEVALUATE EVERY 1 AT MOST 4")
        db.sql("ALTER QUERY every_second REEVALUATE EVERY 2")
        (running,) = db._local._running
        levels = []
        for first in range(0, 1200, 40):
            fill(db, first, first + 40)
            assert running.step()
            took[0] += 5.0 if 400 <= first < 800 else 0.01
            afresh(db)
            levels.append(tuple(db.get_query(name).stats()["reevaluate"]["now"] for name in patient))
        assert levels[0] == levels[-1] == (1, 1)
        assert (8, 4) in levels
        assert db.get_query("one_of_3").stats()["reevaluate"] == {"every": 1, "at_most": 4, "now": 1}
        db.catch_up()
        assert told(db, "strict") == wanted["strict"]
        assert told(db, "every_second") == wanted["every_second"][1::2]
        for name in patient:
            answers = told(db, name)
            assert len(wanted[name]) // 2 < len(answers) < len(wanted[name])
            assert [row for row in wanted[name] if row in answers] == answers
            assert answers[:30] == wanted[name][:30]
            assert answers[-20:] == wanted[name][-20:]


def test_nothing_is_done_in_silence_to_answer_all_windows_again(
    db: SparklessDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    took = [0.0]
    monkeypatch.setattr("anabranch.engine.lateness.time.monotonic", lambda: took[0])
    db.create_queries(PACED)
    db.sql("ALTER QUERY one_of_3 REEVALUATE EVERY 1 AT MOST 8")
    (running,) = db._local._running
    for first in range(0, 200, 40):
        fill(db, first, first + 40)
        assert running.step()
        took[0] += 5.0
    assert running.step() or True
    assert not running.step()


# -- many, wrong ones among them, and names that come again ------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("count", [500, pytest.param(10_000, marks=pytest.mark.long)])
def test_one_in_a_hundred_of_many_is_wrong(db: SparklessDatabase, count: int) -> None:
    wrong = {i: f"SELECT {'nothing' if i % 200 else 'x +'} FROM s WHERE k = {i}" for i in range(50, count, 100)}
    texts = {f"q{i}": wrong.get(i, f"SELECT x FROM s WHERE k = {i}") for i in range(count)}
    with pytest.raises(CatalogError, match=f"{len(wrong)} of {count} queries are wrong, none was made") as caught:
        db.create_queries(texts)
    told = (caught.value.detail or "").splitlines()
    assert [line.split(":")[0] for line in told] == [f"{i + 1}. q{i}" for i in wrong]
    assert db.queries() == []
    assert db.catalog.hosted.hosts() == []
    problems: list[Problem] = []
    assert len(db.create_queries(texts, problems=problems)) == count - len(wrong)
    assert [(problem.place, problem.name) for problem in problems] == [(i, f"q{i}") for i in wrong]
    fill(db, 0, 100)
    db.catch_up()
    assert db.get_query("q3").table().num_rows == 10


@pytest.mark.slow
@pytest.mark.parametrize("times", [60, pytest.param(1000, marks=pytest.mark.long)])
def test_a_name_comes_and_goes_many_times(db: SparklessDatabase, times: int) -> None:
    db.create_queries({"stays": "SELECT x FROM s"})
    rows = 0
    for turn in range(times):
        db.create_queries({"again": f"SELECT x FROM s WHERE k = {turn % 10}"})
        if turn % 30 == 0:
            fill(db, rows, rows + 20)
            rows += 20
            db.catch_up()
            assert db.get_query("again").table().column("x").to_pylist() == [
                float(x) for x in range(rows) if x % 10 == turn % 10
            ]
        db.drop_query("again")
    assert [query.name for query in db.queries()] == ["stays"]
    db.catch_up()
    assert db.get_query("host")._done()["host.members"].catching == ()
    assert db.get_query("stays").table().num_rows == rows
    assert db.check().fine


def test_a_stream_that_members_read_is_not_dropped(db: SparklessDatabase) -> None:
    db.create_queries({"a": "SELECT x FROM s", "b": "SELECT x FROM s WHERE k = 1"})
    with pytest.raises(CatalogError, match="STREAM_IS_USED") as caught:
        db.sql("DROP STREAM s")
    assert '"a"' in str(caught.value)
    db.drop_query("a")
    with pytest.raises(CatalogError, match='"b"'):
        db.sql("DROP STREAM s")
    db.drop_query("b")
    db.sql("DROP STREAM s")

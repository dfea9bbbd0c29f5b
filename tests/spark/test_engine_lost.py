"""Spark dies, hangs or is interrupted; the database goes on.

Each test is a process of its own: the Spark that the other tests share must not be hurt.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_BEGIN = """
import os, sys, threading, time
import anabranch as ab
from anabranch.testing.processes import daemons, jvm, kill, planners, workers

def rows(first, count=1000):
    return {"n": list(range(first, first + count))}

ENDLESS = "SELECT count(*) FROM s a, s b, s c, s d WHERE a.n + b.n + c.n < d.n - 9000"

def error_of(action):
    try:
        action()
    except ab.AnabranchError as error:
        return error
    raise AssertionError("no error")

path = sys.argv[1]
"""


def start(script: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that runs a script, in a session of its own as on a terminal of its own."""
    code = _BEGIN + textwrap.dedent(script)
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def play(script: str, *arguments: str) -> str:
    """Run a script to its end, which must be a good one and quiet; gives what it printed."""
    process = start(script, *arguments)
    try:
        out, err = process.communicate(timeout=800)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert err == "", "something was said on stderr"
    return out


@pytest.mark.long
def test_queries_of_all_databases_go_on_after_their_jvm_was_killed(tmp_path: Path) -> None:
    play(
        """
        databases = [ab.open(f"{path}/{i}") for i in range(2)]
        queries = []
        for db in databases:
            db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(0))
            queries.append(db.query("SELECT n, n * 2 AS twice FROM s WHERE n % 2 = 0", name="even"))
            queries.append(db.query("SELECT n, regexp_replace(string(n), '1', 'x') AS text FROM s", name="by_spark"))
        for query in queries:
            query.wait(300)
        for life in range(2):
            kill(jvm())
            for db in databases:  # what needs no Spark does not notice
                db.append("s", rows(1000 * (life + 1)))
                assert db.reader("s").end().row == 1000 * (life + 2)
                assert {row["status"] for row in db.sql("SHOW QUERIES")} <= {"running", "starting"}
                assert len(db.sql("DESCRIBE s")) == 2
            for query in queries:
                assert query.table().num_rows
                assert query.wait(300).status == "running"
        for query in queries:
            found = query.table()["n"].to_pylist()
            assert found == [n for n in range(3000) if query.name == "by_spark" or n % 2 == 0], query.name
            lost = [event for event in query.events() if event["event"] == "engine_lost"]
            assert len(lost) == 2 and "signal 9" in lost[0]["text"], query.events()
        assert databases[0].sql("SELECT count(*) AS n FROM s").table().to_pylist() == [{"n": 3000}]
        for db in databases:
            db.close()
        """,
        str(tmp_path),
    )


@pytest.mark.long
def test_a_statement_that_is_cut_off_says_so_and_the_next_one_is_answered(tmp_path: Path) -> None:
    play(
        """
        with ab.open(path) as db:
            db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(0))
            db.sql("SELECT 1 FROM s LIMIT 1")
            threading.Timer(3.0, lambda: kill(jvm())).start()
            lost = error_of(lambda: db.sql(ENDLESS))
            assert lost.name == "ENGINE_LOST" and "try again" in lost.hint, lost
            assert db.sql("SELECT count(*) AS n FROM s").table().to_pylist() == [{"n": 1000}]
        """,
        str(tmp_path),
    )


@pytest.mark.long
def test_a_database_closes_and_opens_again_though_its_jvm_is_dead(tmp_path: Path) -> None:
    play(
        """
        for life in range(2):
            db = ab.open(path)
            if not life:
                db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(1000 * life))
            query = db.query("SELECT n FROM s", name="all")
            query.wait(300)
            kill(jvm())
            began = time.monotonic()
            db.close()
            assert time.monotonic() - began < 20
        with ab.open(path) as db:
            assert [query.status for query in db.queries()] == ["starting"]
            db.append("s", rows(2000))
            assert db.get_query("all").wait(300).table()["n"].to_pylist() == list(range(3000))
        """,
        str(tmp_path),
    )


@pytest.mark.long
def test_a_session_that_was_handed_in_and_died_is_told_and_everything_else_goes_on(tmp_path: Path) -> None:
    play(
        """
        from pyspark.sql import SparkSession
        from anabranch.spark.java import prepare_environment

        prepare_environment()
        log = os.open(path + "-spark.log", os.O_CREAT | os.O_WRONLY)
        stderr = os.dup(2)
        os.dup2(log, 2)  # what a JVM that was started by the program itself says
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        os.dup2(stderr, 2)
        db = ab.open(path, spark=spark)
        db.sql("CREATE STREAM s (n BIGINT)")
        db.append("s", rows(0))
        query = db.query("SELECT n FROM s", name="all").wait(300)
        kill(jvm())
        db.append("s", rows(1000))
        assert error_of(lambda: query.wait(60)).name == "ENGINE_LOST"
        assert query.status == "failed" and "handed in" in query.failure.message
        assert query.table().num_rows == 1000
        assert error_of(lambda: db.sql("SELECT n FROM s")).name == "ENGINE_LOST"
        assert db.sql("SHOW QUERIES").table()["status"].to_pylist() == ["failed"]
        db.close()
        with ab.open(path, queries=False) as again:  # nobody holds a lock
            again.append("s", rows(2000))
            assert again.get_query("all").status == "lost"
        os.dup2(log, 2)
        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        os.dup2(stderr, 2)
        with ab.open(path, spark=spark) as again:
            assert again.get_query("all").wait(300).table().num_rows == 3000
        spark.stop()
        """,
        str(tmp_path),
    )


def test_a_query_whose_planner_dies_is_started_again(tmp_path: Path) -> None:
    play(
        """
        with ab.open(path) as db:
            db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(0))
            query = db.query("SELECT n FROM s", name="all").wait(300)
            for life in (1, 2, 3):
                kill(planners()[0])
                db.append("s", rows(1000 * life))
                query.wait(300)
            assert query.table()["n"].to_pylist() == list(range(4000))
            told = query.events()
            assert [event["event"] for event in told] == ["planner_died"] * 3, told
        """,
        str(tmp_path),
    )


@pytest.mark.long
def test_statements_and_new_queries_do_without_the_helpers_that_died(tmp_path: Path) -> None:
    play(
        """
        with ab.open(path) as db:
            db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(0))
            query = db.query("SELECT n FROM s", name="all").wait(300)
            assert db.sql("SELECT count(*) AS n FROM s").table().to_pylist() == [{"n": 1000}]
            for ask in (
                lambda: db.sql("SELECT count(*) AS n FROM s").table()["n"].to_pylist() == [1000],
                lambda: db.query("SELECT n FROM s WHERE n < 10", name="few").wait(300).table().num_rows == 10,
            ):
                for helper in (*daemons(), *workers()):  # those that fork first: what they forked is not started again
                    kill(helper)
                assert ask()
            db.append("s", rows(1000))
            assert query.wait(300).table()["n"].to_pylist() == list(range(2000))
        """,
        str(tmp_path),
    )


def test_ctrl_c_interrupts_what_is_waited_for_and_no_standing_query(tmp_path: Path) -> None:
    process = start(
        """
        db = ab.open(path)
        db.sql("CREATE STREAM s (n BIGINT)")
        db.append("s", rows(0))
        query = db.query("SELECT n FROM s", name="all").wait(300)
        for life, work in enumerate([
            lambda: db.sql(ENDLESS),
            lambda: time.sleep(60),
            lambda: list(query.stream(follow=True)),
        ]):
            print("waiting", flush=True)
            try:
                work()
                print("not interrupted")
            except KeyboardInterrupt:
                pass
            db.append("s", rows(1000 * (life + 1)))
            query.wait(300)
            assert query.status == "running"
        assert query.events() == []  # nothing was started again
        assert query.table()["n"].to_pylist() == list(range(4000))
        assert db.sql("SELECT count(*) AS n FROM s").table().to_pylist() == [{"n": 4000}]
        db.close()
        print("good", flush=True)
        """,
        str(tmp_path),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        for _ in range(3):
            assert process.stdout.readline() == "waiting\n", process.stderr.read()
            try:
                process.wait(4)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=800)
    finally:
        process.kill()
    assert (out, err) == ("good\n", "")


@pytest.mark.long
def test_a_statement_has_a_limit_and_one_that_takes_all_memory_ends_with_an_error(tmp_path: Path) -> None:
    play(
        """
        settings = {"driver_memory": "512m", "statement_timeout_seconds": 100}
        with ab.open(path, settings=settings) as db:
            db.sql("CREATE STREAM s (n BIGINT)")
            db.append("s", rows(0))
            query = db.query("SELECT n FROM s", name="all").wait(300)
            # A constant is computed while Spark plans, where no memory manager looks.
            lost = error_of(lambda: db.sql("SELECT size(sequence(1, 1000000000)) AS n FROM s"))
            assert lost.name == "ENGINE_LOST" and "driver_memory" in lost.hint, lost
            db.append("s", rows(1000))
            assert query.wait(300).table().num_rows == 2000
        with ab.open(path, settings={**settings, "statement_timeout_seconds": 20}, queries=False) as db:
            db.engine().start()
            began = time.monotonic()
            late = error_of(lambda: db.sql(ENDLESS))
            assert late.name == "STATEMENT_TIMED_OUT", late
            assert time.monotonic() - began < 25
            db.settings.change(statement_timeout_seconds=0)
            assert len(db.sql("SELECT n FROM s LIMIT 5")) == 5
        """,
        str(tmp_path),
    )


@pytest.mark.long
def test_an_answer_larger_than_the_memory_of_the_jvm_is_given_whole(tmp_path: Path) -> None:
    play(
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        with ab.open(path, settings={"driver_memory": "512m", "segment_bytes": 1 << 26}) as db:
            db.sql("CREATE STREAM s (n BIGINT, text STRING)")
            part = 50_000
            for first in range(0, 20 * part, part):
                db.append("s", pa.table({"n": range(first, first + part), "text": [f"{first:0400d}"] * part}))
            assert db.reader("s").size() > 400_000_000
            assert len(db.sql("SELECT n FROM s LIMIT 3")) == 3
            before = jvm()
            everything = db.sql("SELECT n, text FROM s").table()
            assert everything["n"].to_pylist() == list(range(20 * part))
            assert everything.nbytes > 400_000_000
            del everything
            down = db.sql("SELECT n, text FROM s WHERE n % 10 = 0 ORDER BY n DESC").table()
            assert down["n"].to_pylist() == list(range(20 * part - 10, -1, -10))
            assert pc.all(pc.equal(pc.utf8_length(down["text"]), 400)).as_py()
            assert jvm() == before, "the JVM has lived through it"
            assert os.listdir(path + "/answers") == []
        """,
        str(tmp_path),
    )


def test_another_process_takes_over_the_queries_of_a_dead_one_and_followers_go_on(tmp_path: Path) -> None:
    first = start(
        """
        db = ab.open(path)
        db.sql("CREATE STREAM s (n BIGINT)")
        db.query("SELECT n FROM s", name="all")
        print("up", flush=True)
        sys.stdin.read()
        """,
        str(tmp_path),
    )
    assert first.stdout is not None
    heirs = []
    try:
        assert first.stdout.readline() == "up\n"
        heirs = [
            start(
                """
                db = ab.open(path)
                query = db.get_query("all")
                assert query.status == "elsewhere"
                seen = []
                def follow():
                    for batch in query.stream(follow=True):
                        seen.extend(batch["n"].to_pylist())
                threading.Thread(target=follow, daemon=True).start()
                print("up", flush=True)
                assert sys.stdin.readline() == "look\\n"
                while len(seen) < 1000:
                    time.sleep(0.05)
                assert seen == list(range(1000))
                print(query.status, flush=True)
                sys.stdin.readline()
                db.close()
                """,
                str(tmp_path),
            )
            for _ in range(2)
        ]
        for heir in heirs:
            assert heir.stdout is not None
            assert heir.stdout.readline() == "up\n"
        first.kill()
        first.wait()
        play(
            """
            with ab.open(path, queries=False) as db:
                assert db.get_query("all").status in ("lost", "elsewhere")
                db.append("s", rows(0))
                db.get_query("all").wait(300)
            """,
            str(tmp_path),
        )
        statuses = []
        for heir in heirs:
            assert heir.stdin is not None
            assert heir.stdout is not None
            heir.stdin.write("look\n")
            heir.stdin.flush()
            statuses.append(heir.stdout.readline().strip())
        assert sorted(statuses) == ["elsewhere", "running"], "exactly one has taken it over"
        assert [heir.communicate("\n", timeout=100)[1] for heir in heirs] == ["", ""]
    finally:
        for process in (first, *heirs):
            process.kill()
    alone = play(
        """
        import anabranch.queries.query as module
        module._TAKEN_OVER_SECONDS = 0.5
        with ab.open(path, queries=False) as db:
            query = db.get_query("all")
            assert query.status == "lost"
            db.append("s", rows(1000))
            for action in (lambda: query.wait(60), lambda: list(query.stream(follow=True))):
                print(error_of(action))
        """,
        str(tmp_path),
    )
    assert (
        alone.splitlines()
        == [
            'QUERY_IS_LOST query "all" should run, but no process runs it. '
            "Hint: open the database with queries, or STOP QUERY it"
        ]
        * 2
    )

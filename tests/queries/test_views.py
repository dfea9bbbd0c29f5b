"""Views in a database: what they say, what is damaged, lost and let go, and who else is there. Without Spark."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import AnabranchError
from anabranch.log import reader as reading
from anabranch.log import sums
from anabranch.operators.live import forget_all
from anabranch.operators.tree import remembered
from anabranch.operators.tree.checkpoints import Checkpoints
from anabranch.tables import keeping
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import sampled

SMALL = {"segment_bytes": 2000, "segment_parts": 2}
TABLE = "CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)"
VIEWS = {
    "rows": "SELECT k, v FROM t WHERE v % 3 > 0",
    "total": "SELECT count(*) AS n, sum(v) AS v, max(v) AS most FROM t",
    "digits": "SELECT v % 10 AS digit, count(*) AS n, min(v) AS least FROM t GROUP BY v % 10",
    "first": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 5",
    "values": "SELECT v % 4 AS v FROM t",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db", settings=SMALL) as database:
        database.sql(TABLE)
        yield database


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots and checkpoints come often."""
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 40)
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", 30)


Model = dict[int, int]


def change(db: SparklessDatabase, model: Model, chance: random.Random, times: int = 1) -> None:
    """Statements on the table, done to a dict as well."""
    for _ in range(times):
        keys = chance.sample(range(60), chance.randint(1, 5))
        if chance.random() < 0.3:
            db.delete("t", {"k": keys})
            for k in keys:
                model.pop(k, None)
        else:
            new = {k: chance.randrange(100) for k in keys}
            db.upsert("t", {"k": list(new), "v": list(new.values())})
            model.update(new)


def wanted(view: str, model: Model) -> list[dict[str, Any]]:
    """What a view is by definition."""
    rows = sorted(model.items())
    values = [v for _, v in rows]
    if view == "rows":
        return [{"k": k, "v": v} for k, v in rows if v % 3 > 0]
    if view == "total":
        return [{"n": len(rows), "v": sum(values) if rows else None, "most": max(values, default=None)}]
    if view == "digits":
        digits = sorted({v % 10 for v in values})
        groups = {digit: [v for v in values if v % 10 == digit] for digit in digits}
        return [{"digit": digit, "n": len(group), "least": min(group)} for digit, group in groups.items()]
    if view == "first":
        first = sorted(rows, key=lambda row: (-row[1], row[0]))[:5]
        return [{"k": k, "v": v} for k, v in sorted(first)]
    return [{"v": v} for v in sorted(v % 4 for v in values)]


def check(db: SparklessDatabase, model: Model, names: list[str] | None = None) -> None:
    db.catch_up()
    for name in names or VIEWS:
        assert db.get_query(f"{name}.changes").failure is None
        assert sorted(db.view(name).table().to_pylist(), key=str) == sorted(wanted(name, model), key=str), name


def make_views(db: SparklessDatabase, more: str = "") -> None:
    for name, select in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} {more} AS {select}")


def look_after(db: SparklessDatabase) -> None:
    """What a thread does once a second."""
    db.catch_up()
    db._queries.look_after()


# -- what is let go --------------------------------------------------------------------------------


def retained(path: Path) -> SparklessDatabase:
    db = SparklessDatabase(path, settings=SMALL, clock=ManualClock("2026-01-01"))
    db.sql(f"{TABLE} RETAIN INTERVAL 1 SECOND")
    return db


def test_a_view_begins_with_the_rows_of_a_table_whose_first_changes_are_gone(tmp_path: Path, often: None) -> None:
    model, chance = dict[int, int](), random.Random(1)
    with retained(tmp_path / "db") as db:
        assert isinstance(db._clock, ManualClock)
        for _ in range(200):
            change(db, model, chance, 1)
            db._clock.advance(1)
        for k in range(60, 80):
            db.upsert("t", {"k": [k], "v": [k]})
            model[k] = k
            db._clock.advance(1)
        assert db.reader("t.changes").first_row() > 0
        make_views(db)
        check(db, model)
        db.sql("CREATE MATERIALIZED VIEW of_rows AS SELECT count(*) AS n FROM rows")
        change(db, model, chance, 5)
        check(db, model)
        assert db.table("of_rows").to_pylist() == [{"n": len(wanted("rows", model))}]
    with SparklessDatabase(tmp_path / "db", settings=SMALL) as db:
        check(db, model)


def test_a_view_over_a_table_just_as_its_snapshot_says_it(tmp_path: Path, often: None) -> None:
    """No change has come since the snapshot with which it begins."""
    with retained(tmp_path / "db") as db:
        model = {k: k for k in range(150)}
        for k, v in model.items():
            db.upsert("t", {"k": [k], "v": [v]})
            db._clock.advance(1)  # type: ignore[attr-defined]
        db.table_writer("t").snapshot()
        *older, _ = sorted((tmp_path / "db").rglob("snap-*.arrow"))
        for snapshot in older:
            snapshot.unlink()
        assert db.reader("t.changes").first_row() > 0
        make_views(db)
        check(db, model)


def test_views_follow_while_all_logs_let_go(tmp_path: Path, often: None) -> None:
    """Changes of the table and of views go, snapshots and checkpoints stay, and nobody misses a row."""
    chance, model = random.Random(3), dict[int, int]()
    path = tmp_path / "db"
    clock = ManualClock("2026-01-01")
    db = SparklessDatabase(path, settings=SMALL, clock=clock)
    db.sql(f"{TABLE} RETAIN INTERVAL 1 SECOND")
    make_views(db, "RETAIN INTERVAL 1 SECOND")
    db.sql("CREATE MATERIALIZED VIEW above AS SELECT digit, n FROM digits WHERE n > 1")
    with SparklessDatabase(path, settings=SMALL, clock=clock) as reader:  # of another process
        for turn in range(40):
            change(db, model, chance, 4)
            clock.advance(2)
            look_after(db)
            if turn % 10 == 0:
                forget_all()
                for name in VIEWS:
                    rows = sorted(reader.view(name).table().to_pylist(), key=str)
                    assert rows == sorted(wanted(name, model), key=str), name
            if turn % 17 == 5:
                db.close()
                db = SparklessDatabase(path, settings=SMALL, clock=clock)
        check(db, model)
        for stream in ("t.changes", "rows.changes", "values.changes", "digits.changes"):
            assert db.reader(stream).first_row() > 0, f"{stream} has kept all its rows"
        above = [(row["digit"], row["n"]) for row in db.table("above").to_pylist()]
        assert above == [(row["digit"], row["n"]) for row in wanted("digits", model) if row["n"] > 1]
        assert db.check().fine
    db.close()


def test_rows_that_a_view_needs_again_are_held_and_then_let_go(tmp_path: Path, often: None) -> None:
    clock = ManualClock("2026-01-01")
    with SparklessDatabase(tmp_path / "db", settings=SMALL, clock=clock) as db:
        db.sql("CREATE STREAM s (k INT, v BIGINT) RETAIN INTERVAL 1 SECOND")
        db.sql("CREATE MATERIALIZED VIEW per AS SELECT k, count(*) AS n FROM s GROUP BY k ACCEPT UNBOUNDED")
        firsts, rows = [], 0
        for turn in range(60):
            db.append("s", {"k": [turn % 7] * 10, "v": [turn] * 10})
            rows += 10
            clock.advance(2)
            db.catch_up()
            (scratch,) = (tmp_path / "db" / "queries").glob("*/scratch/*/tree")
            checkpoints = sorted(scratch.glob("checkpoint-*.json"))
            assert len(checkpoints) <= 3
            oldest = int(checkpoints[0].stem.split("-")[1], 16)
            first = db.reader("s").first_row()
            assert first <= oldest
            firsts.append(first)
        assert firsts[-1] > 400
        forget_all()
        for checkpoint in checkpoints[1:]:
            checkpoint.write_text("{")
        db.append("s", {"k": [100], "v": [1]})
        db.catch_up()
        assert db.get_query("per.changes").failure is None
        assert sum(row["n"] for row in db.table("per").to_pylist()) == rows + 1


# -- what is damaged -------------------------------------------------------------------------------


def harm(path: Path, chance: random.Random, how: str) -> str:
    """Harm a file of those with which views are kept; which it was."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "writer.lock"]
    file = chance.choice([each for each in files if "=2Echanges" in str(each) and "t=2Echanges" not in str(each)])
    content = bytearray(file.read_bytes())
    if how == "lost" or not content:
        file.unlink()
    elif how == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content)
    return str(file.relative_to(path))


@pytest.mark.parametrize("seed", sampled(list(range(60)), 8, "harmed views"))
def test_harm_is_mended_or_told_by_name(tmp_path: Path, seed: int, often: None) -> None:
    """Whatever file is hit, a view has its rows or says what is wrong; it never has others."""
    chance, model = random.Random(seed), dict[int, int]()
    path = tmp_path / "db"
    with SparklessDatabase(path, settings=SMALL) as db:
        db.sql(TABLE)
        make_views(db)
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT digit, n FROM digits WHERE n > 1")
        for _ in range(12):
            change(db, model, chance, 4)
            look_after(db)
    hit = harm(path, chance, chance.choice(["lost", "cut", "flipped"]))
    forget_all()
    sums._seen.clear()
    with SparklessDatabase(path, settings=SMALL) as db:
        change(db, model, chance, 5)
        db.catch_up()
        for name in VIEWS:
            rows, problem = outcome(db, name)
            if problem is None:
                assert sorted(rows, key=str) == sorted(wanted(name, model), key=str), hit
            else:
                assert problem.name in TOLD, f"{hit}: {problem}"
        for statement in ("SHOW VIEWS", "SHOW QUERIES"):
            assert db.sql(statement).table().num_rows >= len(VIEWS), hit
        db.check()


def outcome(db: SparklessDatabase, view: str) -> tuple[list[dict[str, Any]], AnabranchError | None]:
    """The rows of a view, or what it says."""
    try:
        return db.view(view).table().to_pylist(), db.get_query(f"{view}.changes").failure
    except AnabranchError as problem:
        return [], problem


@pytest.mark.parametrize("seed", sampled(range(20), 4, "lost ends of views"))
@pytest.mark.parametrize("known", [True, False])
def test_the_end_of_a_view_s_log_that_was_lost_is_computed_again_change_for_change(
    tmp_path: Path, seed: int, known: bool, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Micro-batches end where they did; where nobody knows that any more, it says what is missing."""
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.05)
    chance, model, path = random.Random(seed), dict[int, int](), tmp_path / "db"
    with SparklessDatabase(path, settings={**SMALL, "segment_parts": 50}) as db:
        db.sql(TABLE)
        db.sql(f"CREATE MATERIALIZED VIEW digits AS {VIEWS['digits']}")
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT digit, n FROM digits WHERE n > 1")
        for _ in range(12):
            change(db, model, chance, 4)
            look_after(db)
        before = db.reader("digits.changes")
        answered = before.read(0, before.end().row)
        rows = db.table("digits").to_pylist()
    segments = sorted((path / "streams" / "digits=2Echanges" / "segments").glob("*.arrow"))
    for segment in segments[-chance.randint(1, 3) :]:
        segment.unlink()
    if not known:
        shutil.rmtree(path / "queries" / "digits=2Echanges" / "checkpoint" / "offsets")
    forget_all()
    with SparklessDatabase(path, settings=SMALL) as db:
        db.catch_up()
        query = db.get_query("digits.changes")
        if not known:
            assert query.failure is not None
            assert query.failure.name == "ROWS_ARE_MISSING"
            return
        assert "answers_were_lost" in [event["event"] for event in query.events()]
        again = db.reader("digits.changes")
        assert again.read(0, again.end().row).equals(answered)
        assert db.table("digits").to_pylist() == rows
        change(db, model, chance, 5)
        check(db, model, ["digits"])
        of_digits = [{"digit": row["digit"], "n": row["n"]} for row in wanted("digits", model) if row["n"] > 1]
        assert db.table("above").to_pylist() == of_digits


TOLD = {
    "DECLARATION_IS_DAMAGED",
    "VIEW_NOT_FOUND",
    "QUERY_NOT_FOUND",
    "ROWS_ARE_MISSING",
    "SEGMENT_IS_DAMAGED",
    "ROWS_ARE_DAMAGED",
    "CHECKPOINT_IS_LOST",
    "TABLE_IS_DAMAGED",
}


def test_a_checkpoint_that_cannot_be_written_stops_no_view(
    db: SparklessDatabase, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    make_views(db)
    chance, model = random.Random(2), dict[int, int]()
    change(db, model, chance, 3)
    check(db, model)
    with monkeypatch.context() as disk:
        disk.setattr(Checkpoints, "write", full)
        for _ in range(10):
            change(db, model, chance, 5)
            check(db, model)
        forget_all()
        change(db, model, chance, 5)
        check(db, model)
    change(db, model, chance, 30)
    check(db, model)


# -- time ------------------------------------------------------------------------------------------


def test_windows_over_the_changes_of_a_view_are_over_in_silence(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-01 00:00:01")
    with SparklessDatabase(tmp_path / "db", clock=clock) as db:
        db.sql(TABLE)
        db.sql("CREATE MATERIALIZED VIEW even AS SELECT k, v FROM t WHERE v % 2 = 0")
        query = db.query("SELECT count(*) AS n FROM even.changes WINDOW = INTERVAL 10 SECONDS")
        db.upsert("t", {"k": [1, 2], "v": [2, 4]})
        db.catch_up()
        assert query.table().num_rows == 0
        clock.advance(30)
        db.catch_up()
        assert query.table().column("n").to_pylist() == [2]


def test_rows_expire_in_silence_through_views_over_views(tmp_path: Path) -> None:
    clock = ManualClock("2026-01-01 00:00:01")
    with SparklessDatabase(tmp_path / "db", clock=clock) as db:
        db.sql("CREATE STREAM s (k INT)")  # stamped on arrival
        db.sql("CREATE MATERIALIZED VIEW seen AS SELECT DISTINCT k FROM s EXPIRE AFTER INTERVAL 10 SECONDS")
        db.sql("CREATE MATERIALIZED VIEW many AS SELECT count(*) AS n FROM seen")
        db.append("s", {"k": [1, 1, 2]})
        clock.advance(5)
        db.append("s", {"k": [3]})
        db.catch_up()
        assert db.table("many").to_pylist() == [{"n": 3}]
        clock.advance(7)
        db.catch_up()
        assert db.table("seen").to_pylist() == [{"k": 3}]
        assert db.table("many").to_pylist() == [{"n": 1}]
        clock.advance(100)
        db.catch_up()
        assert db.table("seen").num_rows == 0
        assert db.table("many").to_pylist() == [{"n": 0}]


# -- what people say -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE MATERIALIZED VIEW x AS SELECT k AS _number FROM t", "COLUMN_RESERVED"),
        ("CREATE MATERIALIZED VIEW x AS SELECT v AS _Change FROM t", "COLUMN_RESERVED"),
        ("CREATE MATERIALIZED VIEW x AS SELECT k, v AS _version FROM t", "COLUMN_RESERVED"),
        ("CREATE CONTINUOUS QUERY x AS SELECT k, v AS _time FROM t EMIT CHANGES", "COLUMN_RESERVED"),
        ("CREATE TABLE x (k INT PRIMARY KEY, _number INT)", "COLUMN_RESERVED"),
        ("CREATE MATERIALIZED VIEW x AS SELECT FROM t", "SYNTAX_ERROR"),
        ("INSERT INTO total VALUES (1, 2, 3)", "VIEW_IS_COMPUTED"),
        ("UPSERT INTO total VALUES (1, 2, 3)", "VIEW_IS_COMPUTED"),
        ("DROP TABLE total", "VIEW_IS_COMPUTED"),
        ("DROP QUERY total.changes", "STREAM_IS_USED"),
    ],
)
def test_what_is_refused_says_why(db: SparklessDatabase, statement: str, error: str) -> None:
    make_views(db)
    with pytest.raises(AnabranchError, match=error):
        db.sql(statement)


def test_a_view_is_not_appended_to(db: SparklessDatabase) -> None:
    make_views(db)
    with pytest.raises(AnabranchError, match="VIEW_IS_COMPUTED"):
        db.append("rows", {"k": [1], "v": [1]})
    with pytest.raises(AnabranchError, match="VIEW_IS_COMPUTED"):
        db.append("rows", {"k": [1], "v": [1]}, producer="p", batch=1)


@pytest.mark.parametrize(
    "select",
    [
        "SELECT k FROM t WHERE NULL",
        "SELECT a.k FROM t a JOIN t b ON NULL",
        "SELECT count(*) AS n FROM t HAVING (NULL)",
        "SELECT v, count(*) AS n FROM t GROUP BY v HAVING NULL",
    ],
)
def test_nothing_meets_a_condition_that_is_null(db: SparklessDatabase, select: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW x AS {select}")
    db.sql("CREATE MATERIALIZED VIEW y AS SELECT count(*) FILTER (WHERE NULL) AS n FROM t")
    db.upsert("t", {"k": [1, 2], "v": [3, 3]})
    db.catch_up()
    assert db.table("x").num_rows == 0
    assert db.table("y").to_pylist() == [{"n": 0}]


def test_a_view_is_shown_described_stopped_and_started_by_its_names(db: SparklessDatabase) -> None:
    db.sql("CREATE MATERIALIZED VIEW x RETAIN INTERVAL 2 HOURS AS SELECT k FROM t")
    db.sql("CREATE MATERIALIZED VIEW y AS SELECT k FROM t")

    def said(statement: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = db.sql(statement).table().to_pylist()
        return rows

    (made,) = said("SHOW CREATE VIEW x")
    assert made == {"statement": "CREATE MATERIALIZED VIEW x RETAIN INTERVAL 2 HOURS AS SELECT k FROM t"}
    assert said("SHOW CREATE VIEW y")[0] == {"statement": "CREATE MATERIALIZED VIEW y AS SELECT k FROM t"}
    assert said("DESCRIBE x") == said("DESCRIBE VIEW x") == [{"column": "k", "type": "INT", "note": "key"}]
    db.sql("STOP QUERY x.changes")
    db.upsert("t", {"k": [1], "v": [1]})
    db.catch_up()
    assert [(row["status"], row["rows"], row["behind"]) for row in said("SHOW VIEWS LIKE 'x'")] == [("stopped", 0, 1)]
    db.sql("START QUERY x.changes")
    db.catch_up()
    assert [(row["status"], row["rows"], row["behind"]) for row in said("SHOW VIEWS LIKE 'x'")] == [("running", 1, 0)]


@pytest.mark.parametrize(
    "select",
    [
        "SELECT s.k, t.v FROM s JOIN t ON s.k = t.k EMIT CHANGES ACCEPT UNBOUNDED",
        "SELECT s.k, t.v FROM s JOIN t ON s.k = t.k EXPIRE AFTER INTERVAL 1 DAY EMIT CHANGES",
        "SELECT w.k, t.v FROM (SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 SECOND GROUP BY k) w "
        "JOIN t ON w.k = t.k ACCEPT UNBOUNDED EMIT CHANGES",
    ],
)
def test_emit_changes_takes_all_that_a_view_does(db: SparklessDatabase, select: str) -> None:
    db.sql("CREATE STREAM s (k INT, at TIMESTAMP) TIMESTAMP BY at")
    query = db.query(select)
    db.append("s", {"k": [1, 2, 2], "at": ["2026-01-01 00:00:00", "2026-01-01 00:00:00.1", "2026-01-01 00:00:01.5"]})
    db.upsert("t", {"k": [1], "v": [3]})
    db.catch_up()
    assert query.store().to_pylist() == [{"k": 1, "v": 3}]


@pytest.mark.parametrize("harm", ["{", None])
def test_a_view_whose_declaration_is_damaged_hides_no_other_and_can_be_made_anew(
    tmp_path: Path, harm: str | None
) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(TABLE)
        make_views(db)
        db.upsert("t", {"k": [1], "v": [1]})
        db.catch_up()
    declaration = tmp_path / "db" / "streams" / "total=2Echanges" / "stream.json"
    if harm is None:
        declaration.unlink()
    else:
        declaration.write_text(harm)
    with SparklessDatabase(tmp_path / "db") as db:
        shown = {row["query"]: row["status"] for row in db.sql("SHOW QUERIES").table().to_pylist()}
        assert shown == {f"{name}.changes": "failed" if name == "total" else "running" for name in VIEWS}
        assert db.sql("SHOW VIEWS").table().num_rows == len(VIEWS) - 1
        with pytest.raises(AnabranchError, match="DECLARATION_IS_DAMAGED"):
            db.sql("DESCRIBE VIEW total")
        db.sql("DROP VIEW total")
        db.sql(f"CREATE MATERIALIZED VIEW total AS {VIEWS['total']}")
        check(db, {1: 1})


# -- what fails, and who else is there -------------------------------------------------------------


def test_a_view_that_failed_goes_on_once_the_cause_is_gone(db: SparklessDatabase) -> None:
    """The micro-batch that failed is not run again as it was: its rows were changed since."""
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(v) AS v FROM t")
    db.sql("CREATE MATERIALIZED VIEW of_total AS SELECT n FROM total")
    db.upsert("t", {"k": [1, 2], "v": [2**62, 1]})
    db.catch_up()
    db.upsert("t", {"k": [3], "v": [2**62]})
    db.catch_up()
    (shown,) = db.sql("SHOW VIEWS LIKE 'total'").table().to_pylist()
    assert (shown["status"], shown["behind"], shown["note"]) == ("failed", 1, "a sum does not fit BIGINT")
    with pytest.raises(AnabranchError, match="SUM_OVERFLOW"):
        db.view("total").wait(5)
    assert db.table("total").to_pylist() == [{"n": 2, "v": 2**62 + 1}]
    db.sql("START QUERY total.changes")
    db.catch_up()
    assert db.view("total").query.status == "failed"
    db.delete("t", {"k": [3]})
    db.sql("START QUERY total.changes")
    db.upsert("t", {"k": [4], "v": [1]})
    db.catch_up()
    assert db.view("total").query.status == "running"
    assert db.table("total").to_pylist() == [{"n": 3, "v": 2**62 + 2}]
    assert db.table("of_total").to_pylist() == [{"n": 3}]


def test_objects_dropped_and_made_anew_under_the_same_names(tmp_path: Path, often: None) -> None:
    path = tmp_path / "db"
    with SparklessDatabase(path, settings=SMALL) as db, SparklessDatabase(path, settings=SMALL) as other:
        for turn in range(3):
            chance, model = random.Random(turn), dict[int, int]()
            db.sql(TABLE)
            make_views(db)
            change(db, model, chance, 20)
            check(db, model)
            for name in VIEWS:
                assert sorted(other.table(name).to_pylist(), key=str) == sorted(wanted(name, model), key=str)
            handle = db.view("values")
            db.sql("DROP TABLE t CASCADE")
            lookups: list[Callable[[], Any]] = [
                handle.table,
                partial(db.table, "values"),
                partial(other.table, "values"),
            ]
            for gone in lookups:
                with pytest.raises(AnabranchError, match="NOT_FOUND"):
                    gone()
        assert not list((path / "streams").iterdir())
        assert not list((path / "queries").iterdir())
        assert not [file for file in (path / "dropped").rglob("*") if file.is_file()]


def test_a_view_is_read_while_it_is_run_changed_and_dropped(tmp_path: Path, often: None) -> None:
    path = tmp_path / "db"
    wrong: list[str] = []
    done = threading.Event()

    def read() -> None:
        with SparklessDatabase(path, settings=SMALL) as other:
            version = 0
            while not done.is_set():
                try:
                    state = other.view_state("total")
                    (row,) = other.table("total").to_pylist() or [{"n": 0}]
                    of_rows = other.table("rows").to_pylist()
                except AnabranchError as problem:
                    if problem.name not in ("VIEW_NOT_FOUND", "TABLE_NOT_FOUND", "STREAM_NOT_FOUND", "QUERY_NOT_FOUND"):
                        wrong.append(str(problem))
                    continue
                if state.version < version or row["n"] > 60 or any(row["v"] % 3 == 0 for row in of_rows):
                    wrong.append(f"{version} {state.version} {row}")
                version = state.version

    with SparklessDatabase(path, settings=SMALL) as db:
        db.sql(TABLE)
        make_views(db, "RETAIN INTERVAL 1 MICROSECOND")
        reader = threading.Thread(target=read)
        reader.start()
        try:
            chance, model = random.Random(5), dict[int, int]()
            for _ in range(15):
                change(db, model, chance, 4)
                look_after(db)
            check(db, model)
            for name in VIEWS:
                db.sql(f"DROP VIEW {name}")
        finally:
            done.set()
            reader.join()
    assert not wrong


def test_what_small_changes_leave_on_disk_is_swept(tmp_path: Path, often: None) -> None:
    with SparklessDatabase(tmp_path / "db", clock=ManualClock("2026-01-01")) as db:
        db.sql(f"{TABLE} RETAIN INTERVAL 1 SECOND")
        make_views(db, "RETAIN INTERVAL 1 SECOND")
        chance, model = random.Random(7), dict[int, int]()
        for _ in range(60):
            change(db, model, chance)
            db._clock.advance(2)  # type: ignore[attr-defined]
            look_after(db)
        check(db, model)
    files = Counter(file.name.split("-")[0] for file in (tmp_path / "db").rglob("*") if file.is_file())
    assert files["checkpoint"] <= 3 * len(VIEWS)
    assert files["snap"] <= 4 * (len(VIEWS) + 1)
    assert files["run"] <= 100

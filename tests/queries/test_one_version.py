"""What one statement reads is of one moment: tables, streams and views, whatever goes on. Without Spark."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from anabranch.database import Database
from anabranch.engine import cuts
from anabranch.engine.cuts import Cut, Cuts
from anabranch.errors import AnabranchError
from anabranch.log import Storage
from anabranch.log.offset import End
from anabranch.operators.offset import Offset
from anabranch.queries import one_version
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import LocalRunning
from tests.queries.reading import ReadingDatabase, some_query_goes_on
from tests.sampling import sampled

BASES = {
    "t": "CREATE TABLE t (k INT PRIMARY KEY, v BIGINT)",
    "u": "CREATE TABLE u (k INT PRIMARY KEY, v BIGINT)",
    "s": "CREATE STREAM s (k INT, v BIGINT)",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ReadingDatabase]:
    with ReadingDatabase(tmp_path / "db") as database:
        for statement in BASES.values():
            database.sql(statement)
        yield database


def some_select(chance: random.Random, known: list[str]) -> str:
    """A question over tables, streams and views, with columns k and v."""
    one, other = chance.choice(known), chance.choice(known)
    return chance.choice(
        [
            f"SELECT k % 3 AS k, sum(v) AS v FROM {one} GROUP BY k % 3",
            f"SELECT count(*) AS k, sum(v) AS v FROM {one}",
            f"SELECT k, v + 1 AS v FROM {one} WHERE v % 2 = 0",
            f"SELECT a.k, a.v + b.v AS v FROM {one} a JOIN {other} b ON a.k = b.k",
            f"SELECT k, v FROM {one} UNION ALL SELECT k, v FROM {other}",
            f"SELECT k, v FROM {one} a WHERE NOT EXISTS (SELECT 1 FROM {other} b WHERE b.k = a.k AND b.v > 3)",
            f"SELECT k % 2 AS k, max(v) AS v FROM {one} GROUP BY k % 2",
            f"SELECT DISTINCT k, v FROM {one}",
        ]
    )


def make_views(db: ReadingDatabase, chance: random.Random, count: int = 5) -> dict[str, str]:
    """Views over all that there is before each of them."""
    views: dict[str, str] = {}
    for number in range(count):
        views[f"v{number}"] = select = some_select(chance, [*BASES, *views])
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {select} ACCEPT UNBOUNDED")
    return views


def something_is_written(db: ReadingDatabase, chance: random.Random) -> None:
    keys = chance.sample(range(12), chance.randint(1, 3))
    values = [chance.randrange(8) for _ in keys]
    base = chance.choice([*BASES])
    if base == "s":
        db.append("s", {"k": pa.array(keys, pa.int32()), "v": values})
    elif chance.random() < 0.3:
        db.delete(base, {"k": keys})
    else:
        db.upsert(base, {"k": keys, "v": values})


def bag(table: pa.Table) -> Counter[tuple[int | None, ...]]:
    return Counter(tuple(None if v is None else int(v) for v in row.values()) for row in table.to_pylist())


def defined(views: dict[str, str], bases: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """What views are by definition over some rows."""
    answers: dict[str, pa.Table] = {}
    with duckdb.connect() as connection:
        for name, table in bases.items():
            connection.register(name, table)
        for name, select in views.items():
            answers[name] = connection.sql(select).to_arrow_table()
            connection.register(name, answers[name])
    return answers


def differing(views: dict[str, str], read: dict[str, pa.Table]) -> list[str]:
    """The views that are not what the tables and streams say that were read with them."""
    answers = defined(views, {name: read[name] for name in BASES})
    return [
        f"{name} {views[name]}: {bag(read[name])} {bag(answers[name])}"
        for name in views
        if name in read and bag(answers[name]) != bag(read[name])
    ]


# -- whatever goes on --------------------------------------------------------------------------------


def played(db: ReadingDatabase, seed: int, reads: int = 12) -> list[str]:
    """What is found to differ while others write, and micro-batches are planned and run at any moment."""
    chance = random.Random(seed)
    views = make_views(db, chance)

    def meanwhile() -> None:
        if chance.random() < 0.3:
            something_is_written(db, chance)
        some_query_goes_on(db, chance)

    db.meanwhile = meanwhile
    found = []
    for _ in range(reads):
        for _ in range(chance.randrange(12)):
            meanwhile()
        some = chance.sample([*views], chance.randint(1, len(views)))
        found += differing(views, db.read_together(*BASES, *some))
    assert [query.failure for query in db.queries()] == [None] * len(views)
    return found


@pytest.mark.parametrize("seed", sampled(range(60), 6, "one version"))
def test_views_are_what_the_tables_and_streams_say_that_are_read_with_them(db: ReadingDatabase, seed: int) -> None:
    assert played(db, seed) == []


def test_without_it_they_are_not(db: ReadingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Database, "at_one_version", lambda db, streams: {})
    assert played(db, 0) != []


class Going:
    """Threads that run queries as fast as they can, and write."""

    def __init__(self, db: ReadingDatabase, *, seed: int) -> None:
        self._ended = threading.Event()
        self._db = db
        self.wrote = 0
        self.threads = [threading.Thread(target=self._run, args=(running,)) for running in db.local.running]
        self.threads.append(threading.Thread(target=self._write, args=(random.Random(seed),)))
        db.meanwhile = lambda: time.sleep(0.001)

    def _run(self, running: LocalRunning) -> None:
        while not self._ended.is_set():
            if not running.step():
                time.sleep(0.0005)

    def _write(self, chance: random.Random) -> None:
        while not self._ended.is_set():
            something_is_written(self._db, chance)
            self.wrote += 1

    def has_written(self, since: int) -> bool:
        return self.wrote > since

    def __enter__(self) -> Going:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(range(8), 2, "one version, threads"))
def test_it_is_so_with_queries_and_writers_in_threads(db: ReadingDatabase, seed: int) -> None:
    chance = random.Random(seed)
    views = make_views(db, chance)
    with Going(db, seed=seed) as going:
        for _ in range(8):
            wrote = going.wrote
            assert differing(views, db.read_together(*BASES, *views)) == []
            wait_for(functools.partial(going.has_written, wrote))  # nobody who reads stops who writes
    db.meanwhile = None
    db.catch_up()
    assert differing(views, db.read_together(*BASES, *views)) == []


@pytest.mark.slow
def test_several_read_at_once(db: ReadingDatabase) -> None:
    """Each of them has cuts of its own; none waits for the others for good."""
    views = make_views(db, random.Random(3))
    wrong: list[str] = []

    def read(number: int) -> None:
        chance = random.Random(number)
        for _ in range(4):
            wrong.extend(differing(views, db.read_together(*BASES, *chance.sample([*views], 3))))

    with Going(db, seed=3):
        readers = [threading.Thread(target=read, args=(number,)) for number in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert list((Path(db.path) / cuts.FOLDER).iterdir()) == []


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


# -- a cut -------------------------------------------------------------------------------------------


@pytest.fixture
def two(db: ReadingDatabase) -> ReadingDatabase:
    """Two views over one table."""
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS k, sum(v) AS v FROM t")
    db.sql("CREATE MATERIALIZED VIEW halves AS SELECT k % 2 AS k, sum(v) AS v FROM t GROUP BY k % 2")
    db.upsert("t", {"k": [1, 2, 3], "v": [10, 20, 30]})
    return db


def folder(db: Database) -> Storage:
    return Storage(db.path).child(cuts.FOLDER)


def test_nothing_is_stopped_where_nothing_goes_on(two: ReadingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    two.catch_up()
    monkeypatch.setattr(Cut, "stand", lambda *_: pytest.fail("a cut was made"))
    read = two.read_together("t", "total", "halves")
    assert bag(read["total"]) == {(3, 60): 1}


@pytest.mark.parametrize("names", [("total", "u"), ("total",), ("t", "u", "s"), ("total", "v")])
def test_who_reads_what_has_nothing_in_common_waits_for_nobody(
    two: ReadingDatabase, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    """The views are behind, and nobody runs them."""
    two.sql("CREATE MATERIALIZED VIEW v AS SELECT k, v FROM u")
    monkeypatch.setattr(ReadingDatabase, "_wait_a_moment", lambda _: pytest.fail("it was waited for"))
    assert two.read_together(*names).keys() == {*names}


def test_a_cut_holds_the_queries_that_it_names_and_no_others(two: ReadingDatabase) -> None:
    two.catch_up()
    with Cut(folder(two), ["total.changes"]) as cut:
        cut.stand({"t.changes": two.reader("t.changes").end()})
        two.upsert("t", {"k": [4], "v": [40]})
        two.catch_up()
        assert (two.table("total").to_pylist(), two.table("halves").num_rows) == ([{"k": 3, "v": 60}], 2)
        assert two.table("halves").to_pylist() == [{"k": 0, "v": 60}, {"k": 1, "v": 40}]
    two.catch_up()
    assert two.table("total").to_pylist() == [{"k": 4, "v": 100}]


def test_a_cut_of_which_nothing_is_heard_any_more_holds_nobody(tmp_path: Path) -> None:
    """By the clock of the source alone."""
    place, now = Storage(str(tmp_path)), [0.0]
    held = Cuts(str(tmp_path), "q", lambda: now[0])
    begin, ends = {"s": Offset(5, 50)}, {"s": End(9, 90)}
    cut = Cut(place, ["Q"])
    cut.stand({"S": End(7, 70)})
    assert held.limited(begin, ends) == {"s": End(7, 70)}
    assert held.limited({"s": Offset(8, 80)}, ends) == {"s": End(8, 80)}, "a query is never sent back"
    now[0] += cuts.HOLDS_SECONDS - 0.1
    cut.stand({"S": End(8, 80)})
    assert held.limited(begin, ends) == {"s": End(8, 80)}
    now[0] += cuts.HOLDS_SECONDS - 0.1
    assert held.limited(begin, ends) == {"s": End(8, 80)}, "it was heard of"
    now[0] += 0.2
    assert held.limited(begin, ends) == ends
    assert Cuts(str(tmp_path), "other").limited(begin, ends) == ends
    assert Cuts(None, "q").limited(begin, ends) == ends


@pytest.mark.parametrize("text", ["", "{", "[]", '{"queries": 3}', '{"queries": ["q"], "ends": {"s": [1, 2, 3]}}'])
def test_a_file_that_is_no_cut_holds_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    ends = {"s": End(9, 90)}
    assert Cuts(str(tmp_path), "q").limited({"s": Offset()}, ends) == ends


def test_what_the_killed_have_left_is_deleted_by_the_next(tmp_path: Path) -> None:
    place = Storage(str(tmp_path))
    for name in ("old", "young"):
        place.write_json(f"{name}.json", {})
    os.utime(tmp_path / "old.json", (1, 1))
    with Cut(place, []) as cut:
        cut.stand({})
        assert place.files().keys() >= {"young.json"}
        assert "old.json" not in place.files()


def test_a_cut_moves_with_those_that_went_past_it(two: ReadingDatabase) -> None:
    """Another process does not see it in time, as on a disk far away."""
    two.catch_up()
    two.upsert("t", {"k": [4], "v": [40]})
    turns = iter(range(100))

    def meanwhile() -> None:
        if next(turns) == 0:
            two.upsert("t", {"k": [5], "v": [50]})
            for running in two.local.running:
                running._cuts = Cuts(None, None) if "total" in str(running._options.holder) else running._cuts
        two.local.running[0].step()
        two.local.running[1].step()

    two.meanwhile = meanwhile
    read = two.read_together("total", "halves", "t")
    assert (bag(read["total"]), read["t"].num_rows) == ({(5, 150): 1}, 5)


READER = """
import sys
from tests.queries.reading import ReadingDatabase
db = ReadingDatabase(sys.argv[1], queries=False)
db.meanwhile = lambda: __import__("time").sleep(0.01)
db.read_together("t", "total", "halves")
"""


@pytest.mark.slow
def test_a_reader_that_is_killed_while_its_cut_stands_stops_nobody(
    two: ReadingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.catch_up()
    two.upsert("t", {"k": [4], "v": [40]})
    command = [sys.executable, "-c", READER, two.path]
    reader = subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
    try:
        wait_for(lambda: bool(folder(two).files()), 60)
        two.upsert("t", {"k": [5], "v": [50]})
        (total,) = [running for running in two.local.running if "total" in str(running._options.holder)]
        while total.step():  # the other one does not come, and is waited for
            pass
        held = two.table("total").to_pylist()
    finally:
        os.kill(reader.pid, signal.SIGKILL)
        reader.communicate()
    assert held == [{"k": 4, "v": 100}]
    assert folder(two).files()
    monkeypatch.setattr(cuts, "HOLDS_SECONDS", 0.3)
    wait_for(lambda: two.local.catch_up() or two.table("total").to_pylist() == [{"k": 5, "v": 150}])
    assert bag(two.read_together("t", "total")["total"]) == {(5, 150): 1}


OTHER = """
import sys, time
from tests.queries.reading import ReadingDatabase
db = ReadingDatabase(sys.argv[1], queries=False)
db.meanwhile = lambda: time.sleep(0.002)
for _ in range(5):
    read = db.read_together("t", "total", "halves")
    assert read["total"].to_pylist() == [{"k": read["t"].num_rows, "v": sum(read["t"]["v"].to_pylist())}], read
    assert sum(read["halves"]["v"].to_pylist()) == sum(read["t"]["v"].to_pylist()), read
print("fine")
"""


@pytest.mark.slow
def test_another_process_reads_what_this_one_keeps(two: ReadingDatabase) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-c", OTHER, two.path],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    number = 0
    while reader.poll() is None:
        number += 1
        two.upsert("t", {"k": [number % 9, number % 9 + 1], "v": [number, number]})
        for running in two.local.running:
            running.step()
    said, problem = reader.communicate()
    assert said.decode() == "fine\n", problem.decode()


def test_a_store_is_read_with_what_it_is_made_from(db: ReadingDatabase) -> None:
    db.query("SELECT k % 2 AS k, sum(v) AS v FROM t GROUP BY k % 2 EMIT CHANGES", name="q")
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS k, sum(v) AS v FROM t")
    chance = random.Random(5)
    db.meanwhile = lambda: some_query_goes_on(db, chance)
    for number in range(10):
        db.upsert("t", {"k": [number], "v": [number]})
        read = db.read_together("q.store", "t", "total")
        assert read["t"].num_rows == number + 1
        assert sum(read["q.store"]["v"].to_pylist()) == sum(read["t"]["v"].to_pylist())
        assert bag(read["total"]) == {(number + 1, sum(range(number + 1))): 1}


def test_rows_that_are_stamped_on_arrival_and_expire(tmp_path: Path) -> None:
    """The views have come to the time that the stream has come to, and all go on with the clock."""
    clock = ManualClock("2026-01-01 00:00:01")
    with ReadingDatabase(tmp_path / "db", clock=clock) as db:
        db.sql("CREATE STREAM s (k INT, v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW recent AS SELECT 1 AS k, sum(v) AS v FROM s EXPIRE AFTER INTERVAL 5 SECONDS")
        db.sql("CREATE MATERIALIZED VIEW ever AS SELECT 1 AS k, sum(v) AS v FROM s ACCEPT UNBOUNDED")
        db.sql("CREATE MATERIALIZED VIEW of_recent AS SELECT k, v FROM recent")
        chance = random.Random(2)
        db.meanwhile = lambda: some_query_goes_on(db, chance)
        for number in range(12):
            db.append("s", {"k": [1], "v": [1]})
            clock.advance(1)
            if number % 4 == 3:
                db._time.keep(db._queries.known())
            read = db.read_together("s", "recent", "ever", "of_recent")
            assert bag(read["ever"]) == {(1, read["s"].num_rows): 1}
            assert bag(read["recent"]) == bag(read["of_recent"])
            assert read["s"].num_rows == number + 1


# -- who cannot come to one place --------------------------------------------------------------------


def test_a_stopped_view_is_named_and_can_be_read_alone(two: ReadingDatabase) -> None:
    two.catch_up()
    two.get_query("total.changes").stop()
    assert bag(two.read_together("t", "total")["total"]) == {(3, 60): 1}, "it has all there is"
    two.upsert("t", {"k": [4], "v": [40]})
    with pytest.raises(AnabranchError, match='"total" is stopped') as problem:
        two.read_together("t", "total")
    assert problem.value.name == "NOT_AT_ONE_VERSION"
    assert "2 rows behind" in str(problem.value.detail) or "1 rows behind" in str(problem.value.detail)
    assert two.sql("SELECT k FROM total").table().to_pylist() == [{"k": 3}]
    assert not folder(two).files(), "nobody was stopped for it"
    two.get_query("total.changes").start()
    assert bag(two.read_together("t", "total")["total"]) == {(4, 100): 1}


def test_a_view_over_a_stopped_one(two: ReadingDatabase) -> None:
    two.sql("CREATE MATERIALIZED VIEW of_total AS SELECT k + 1 AS k, v FROM total")
    two.catch_up()
    two.get_query("of_total.changes").stop()
    two.upsert("t", {"k": [4], "v": [40]})
    with pytest.raises(AnabranchError, match='"of_total" is stopped'):
        two.read_together("of_total", "halves")


def test_a_damaged_view_is_read_alone(two: ReadingDatabase) -> None:
    two.catch_up()
    path = Path(two.path)
    two.close()
    (path / "queries" / "total=2Echanges" / "query.json").write_text("{")
    with ReadingDatabase(path) as db:
        with pytest.raises(AnabranchError, match="NOT_AT_ONE_VERSION") as problem:
            db.read_together("t", "total")
        assert problem.value.hint == "read it alone"
        assert db.sql("SELECT k FROM total").table().to_pylist() == [{"k": 3}]
        assert db.read_together("t", "halves")["t"].num_rows == 3


def test_a_view_that_failed_is_named_with_the_reason(db: ReadingDatabase) -> None:
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT 1 AS k, sum(v) AS v FROM t")
    db.upsert("t", {"k": [1, 2], "v": [2**62, 2**62]})
    db.catch_up()
    with pytest.raises(AnabranchError) as problem:
        db.read_together("t", "total")
    assert problem.value.name == "NOT_AT_ONE_VERSION"
    assert "failed" in problem.value.message
    failure = db.get_query("total.changes").failure
    assert failure is not None
    assert failure.message in str(problem.value.detail)


def test_a_view_that_does_not_come_is_waited_for_so_long(two: ReadingDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_version, "SECONDS", 0.05)
    two.meanwhile = lambda: None
    with pytest.raises(AnabranchError, match="did not come to one place") as problem:
        two.read_together("t", "total")
    assert "rows behind" in str(problem.value.detail)
    assert not folder(two).files()


def test_others_are_not_stopped_for_one_that_is_far_behind(
    two: ReadingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has more to take in than a micro-batch takes."""
    two.catch_up()
    two.settings.change(batch_rows=2)
    two.upsert("t", {"k": [1, 2, 3, 4], "v": [1, 1, 1, 1]})
    (behind,) = [running for running in two.local.running if "total" in str(running._options.holder)]
    (other,) = [running for running in two.local.running if "halves" in str(running._options.holder)]
    stood = []

    def meanwhile() -> None:
        stood.append(bool(folder(two).files()))
        if len(stood) > 3:
            behind.step()
        other.step()

    two.meanwhile = meanwhile
    read = two.read_together("total", "halves")
    assert bag(read["total"]) == {(4, 4): 1}
    assert stood[:4] == [False] * 4

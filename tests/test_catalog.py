"""The catalog: made by several at once, as large as it gets, and written before."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest

from anabranch.catalog import ObjectName, QueryInfo
from anabranch.errors import AnabranchError
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.testing.sparkless import SparklessDatabase

ROUNDS = 5


def slow_create(
    self: StreamInfo, storage: Storage, create: Callable[..., None] = StreamInfo.create, **how: bool
) -> None:
    """Leaves others time to meet a stream whose query is not written down yet."""
    create(self, storage, **how)
    time.sleep(0.1)


RACER = """
import sys, time
from pathlib import Path
from anabranch.errors import AnabranchError
from anabranch.log.stream import StreamInfo
from anabranch.testing.sparkless import SparklessDatabase
from tests.test_catalog import slow_create

StreamInfo.create = slow_create
place, me, other, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
db = SparklessDatabase(place)
for number in range(rounds):
    (Path(place).parent / f"{me}-{number}").touch()
    while not (Path(place).parent / f"{other}-{number}").exists():
        time.sleep(0.0005)
    try:
        db.sql(f"CREATE CONTINUOUS QUERY q{number} AS SELECT v FROM s")
        print("made", number)
    except AnabranchError as problem:
        print(problem.name, number)
print("done", flush=True)
sys.stdin.readline()
db.close()
"""


def next_line(out: IO[str]) -> str:
    return out.readline().strip()


def made_and_refused(race: Callable[[], object], threads: int) -> list[str]:
    """What came of the same thing done by several threads at once."""
    together, said = threading.Barrier(threads), []

    def run() -> None:
        together.wait()
        try:
            race()
            said.append("made")
        except AnabranchError as problem:
            said.append(problem.name)

    racers = [threading.Thread(target=run) for _ in range(threads)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    return sorted(said)


@pytest.mark.slow
def test_of_threads_that_make_one_query_at_once_one_makes_it_and_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamInfo, "create", slow_create)
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql("CREATE STREAM s (v INT)")
        db.append("s", [{"v": 1}, {"v": 2}])
        for number in range(ROUNDS):
            name = f"q{number}"
            said = made_and_refused(partial(db.sql, f"CREATE CONTINUOUS QUERY {name} AS SELECT v FROM s"), 4)
            assert said == ["NAME_EXISTS"] * 3 + ["made"]
            db.catch_up()
            assert db.get_query(name).status == "running"
            assert db.get_query(name).table().column("v").to_pylist() == [1, 2]


@pytest.mark.slow
def test_of_processes_that_make_one_query_at_once_one_makes_it_and_its_stream_stays(tmp_path: Path) -> None:
    place = tmp_path / "river"
    with SparklessDatabase(place) as db:
        db.sql("CREATE STREAM s (v INT)")
        racers = [
            subprocess.Popen(
                [sys.executable, "-c", RACER, str(place), me, other, str(ROUNDS)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for me, other in (("a", "b"), ("b", "a"))
        ]
        said: list[list[str]] = []
        for racer in racers:
            assert racer.stdout is not None
            said.append(list(iter(partial(next_line, racer.stdout), "done")))
        for number in range(ROUNDS):
            outcome = sorted(lines[number].split()[0] for lines in said)
            assert outcome == ["NAME_EXISTS", "made"], said
            assert db.get_query(f"q{number}").status == "elsewhere"
        for racer in racers:
            racer.communicate("\n", timeout=30)


def test_the_answers_of_a_query_that_a_dead_process_left_give_way_to_a_new_one(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql("CREATE STREAM s (v INT)")
        db.sql("CREATE CONTINUOUS QUERY q AS SELECT v FROM s")
        left = db.catalog.stream("q")
        db.sql("DROP QUERY q")
        db.catalog.create_stream(StreamInfo("q", left.schema, origin=left.origin, owner=left.owner))
        db.append("s", [{"v": 7}])
        db.sql("CREATE CONTINUOUS QUERY Q AS SELECT v FROM s")
        db.catch_up()
        assert db.get_query("q").table().column("v").to_pylist() == [7]


def test_half_a_character_is_no_name(tmp_path: Path) -> None:
    with (
        SparklessDatabase(tmp_path / "river") as db,
        pytest.raises(AnabranchError, match="NAME_NOT_ALLOWED"),
    ):
        db.append("\ud800", [{"v": 1}])


class Looks:
    """Counts the files that this thread opens and the folders it lists."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._me = threading.current_thread()
        self._count = 0
        for name in ("read_bytes", "open_file", "directories", "files", "names"):
            monkeypatch.setattr(Storage, name, self._counting(getattr(Storage, name)))

    def _counting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self._count += threading.current_thread() is self._me
            return method(*args, **named)

        return counted

    def of(self, verb: Callable[[], object]) -> int:
        before = self._count
        with contextlib.suppress(AnabranchError):
            verb()
        return self._count - before


VERBS = (
    "CREATE STREAM own (v INT)",
    "CREATE STREAM IF NOT EXISTS own (v INT)",
    "INSERT INTO own VALUES (1)",
    "DESCRIBE own",
    "CREATE CONTINUOUS QUERY mine AS SELECT v FROM own",
    "CREATE CONTINUOUS QUERY IF NOT EXISTS mine AS SELECT v FROM own",
    "DESCRIBE mine",
    "EXPLAIN QUERY mine",
    "STOP QUERY mine",
    "START QUERY mine",
    "ALTER STREAM own ADD COLUMN w INT",
    "DROP STREAM crowd",
    "DROP STREAM own",
    "DROP QUERY mine",
    "DROP QUERY IF EXISTS mine",
    "DROP STREAM nobody",
    "DROP STREAM own",
)


@pytest.mark.slow
def test_what_one_object_takes_does_not_grow_with_the_number_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    with SparklessDatabase(tmp_path / "river", settings={"alone_queries": 0}) as db:
        db.sql("CREATE STREAM crowd (v INT)")
        schema = db.catalog.schema("crowd")
        looks = Looks(monkeypatch)

        def with_others(first: int, last: int) -> list[int]:
            for number in range(first, last):
                info = QueryInfo(f"other{number}", "SELECT v FROM crowd", False, reads=(ObjectName("stream", "crowd"),))
                db.catalog.create_query(info, StreamInfo(info.name, schema, origin="query", owner=info.name))
            return [looks.of(partial(db.sql, verb)) for verb in VERBS]

        few, many = with_others(0, 10), with_others(10, 1000)
        # What the thread that keeps time has looked at just before, a statement need not look at again.
        grown = {verb: (then, now) for verb, then, now in zip(VERBS, few, many, strict=True) if now > then + 5}
        assert grown == {}
        assert max(many) < 60
        with pytest.raises(AnabranchError, match='"crowd" is read by query "other0"'):
            db.sql("DROP STREAM crowd")
        with pytest.raises(AnabranchError, match='did you mean "crowd"'):
            db.sql("DROP STREAM crow")


def as_before(storage: Storage, file: str, *gone: str, **other: str) -> None:
    """Rewrites a declaration as it was when less was written down."""
    said = storage.read_json(file)
    storage.write_json(file, {name: value for name, value in {**said, **other}.items() if name not in gone})


def test_a_database_of_before_opens_and_knows_who_owns_and_reads_what(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql("CREATE STREAM `a.b` (v INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("a.b", [{"v": 1, "ts": "2026-01-01 00:00:02"}, {"v": 2, "ts": "2026-01-01 00:00:01"}])
        db.sql("CREATE CONTINUOUS QUERY q AS SELECT v FROM `a.b`")
        db.sql("CREATE ARCHIVE w ON `a.b` USING windowed_aggregation EVERY INTERVAL 1 SECOND")
        streams = db.catalog.root.child("streams")
        as_before(streams.child("q"), "stream.json", "owner", origin="query q")
        as_before(streams.child("a=2Eb=2Ew"), "stream.json", "owner", origin="query a.b.w")
        as_before(streams.child("a=2Eb"), "stream.json", "owner")
        as_before(streams.child("a=2Eb", "rejects"), "stream.json", "owner")
        for query in ("q", "a=2Eb=2Ew"):
            as_before(db.catalog.root.child("queries", query), "query.json", "reads", "owner")
        db.catalog.root.child("readers").delete_all()
    with SparklessDatabase(tmp_path / "river") as db:
        owners = {info.name: (info.origin, info.owner) for info in db.streams()}
        assert owners == {"a.b": ("append", None), "a.b.w": ("query", "a.b.w"), "q": ("query", "q")}
        assert db.catalog.query("a.b.w").owner == ObjectName("archive", "w", "a.b")
        assert StreamInfo.load(db.catalog.stream_storage("a.b.rejects")).owner == "a.b"
        db.append("a.b", [{"v": 3, "ts": "2026-01-01 00:00:03"}])
        db.catch_up()
        assert db.get_query("q").table().column("v").to_pylist() == [1, 3]
        with pytest.raises(AnabranchError, match=r"DROP ARCHIVE w ON a\.b"):
            db.sql("DROP QUERY `a.b.w`")
        db.sql("CREATE CONTINUOUS QUERY late AS SELECT v FROM q")
        with pytest.raises(AnabranchError, match='is read by query "q"'):
            db.sql("DROP STREAM `a.b`")
        with pytest.raises(AnabranchError, match='is read by query "late"'):
            db.sql("DROP QUERY q")
        db.sql("DROP QUERY late; DROP QUERY q; DROP STREAM `a.b`")
        assert db.streams() == []

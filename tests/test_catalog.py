"""Queries that several threads and processes make at once under one name: one makes it, the others are told."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors import AnabranchError
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.testing.sparkless import SparklessDatabase

ROUNDS = 5


def slow_create(self: StreamInfo, storage: Storage, create: Callable[..., None] = StreamInfo.create) -> None:
    """Leaves others time to meet a stream whose query is not written down yet."""
    create(self, storage)
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


def test_of_threads_that_make_one_query_at_once_one_makes_it_and_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StreamInfo, "create", slow_create)
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql("CREATE STREAM s (v INT)")
        db.append("s", [{"v": 1}, {"v": 2}])
        for number in range(ROUNDS):
            name = f"q{number}"
            said = made_and_refused(lambda name=name: db.sql(f"CREATE CONTINUOUS QUERY {name} AS SELECT v FROM s"), 4)  # type: ignore[misc]
            assert said == ["NAME_EXISTS"] * 3 + ["made"]
            db.catch_up()
            assert db.get_query(name).status == "running"
            assert db.get_query(name).table().column("v").to_pylist() == [1, 2]


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
            said.append(list(iter(lambda out=racer.stdout: out.readline().strip(), "done")))  # type: ignore[misc]
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
        db.catalog.create_stream(StreamInfo("q", left.schema, origin=left.origin))
        db.append("s", [{"v": 7}])
        db.sql("CREATE CONTINUOUS QUERY Q AS SELECT v FROM s")
        db.catch_up()
        assert db.get_query("q").table().column("v").to_pylist() == [7]


def test_half_a_character_is_no_name(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "river") as db, pytest.raises(AnabranchError, match="NAME_NOT_ALLOWED"):
        db.append("\ud800", [{"v": 1}])

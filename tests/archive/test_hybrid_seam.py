"""Where the archive ends and the log begins: rows move from one to the other under readers that notice nothing."""

from __future__ import annotations

import contextlib
import itertools
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.archive.declaration import INFO
from anabranch.archive.reader import HistoryReader
from anabranch.kernels.sampling import kept, lots_between
from anabranch.log import Storage

BASE_US = 1_767_225_600_000_000
STEP_US = 1_000
SEED = 11
SECONDS = 6.0


def rows(first: int, end: int) -> pa.Table:
    numbers = np.arange(first, end)
    times = pa.array(BASE_US + numbers * STEP_US).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "ts": times})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[ab.Database]:
    """A stream that keeps a tenth of a second in its log, with two archives."""
    settings = {"segment_bytes": 4_000, "segment_parts": 3}
    with ab.open(tmp_path / "db", queries=False, settings=settings) as database:
        database.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 100 MILLISECONDS")
        options = {"run_rows": "700", "seed": str(SEED)}
        database.create_archive("s", "randomize_then_sort", options={**options, "blocks": "5"})
        database.create_archive("s", "on_read_modify", options=options)
        yield database


class Going:
    """Threads that do something over and over until the time is up; a problem of one is everyone's."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._problems: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def on(self, action: Callable[[], None]) -> None:
        def work() -> None:
            try:
                while not self._stop.is_set():
                    action()
            except BaseException as problem:
                self._problems.append(problem)
                self._stop.set()

        self._threads.append(threading.Thread(target=work))

    @contextlib.contextmanager
    def meanwhile(self) -> Iterator[threading.Event]:
        for thread in self._threads:
            thread.start()
        try:
            yield self._stop
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
        for problem in self._problems:
            raise problem


def history(db: ab.Database) -> HistoryReader:
    reader = db.reader("s")
    assert isinstance(reader, HistoryReader)
    return reader


@pytest.mark.slow
def test_reads_by_number_never_see_a_gap_or_a_row_twice(db: ab.Database) -> None:
    """Appending, archiving, compacting, vacuuming and retention go on while two readers read."""
    end = [0]

    def push() -> None:
        count = random.randrange(1, 150)
        db.append("s", rows(end[0], end[0] + count))
        end[0] += count
        time.sleep(0.002)

    def keep_up(name: str) -> Callable[[], None]:
        source = random.Random(name)
        archiver = db.archive("s", name)

        def work() -> None:
            archiver.append(all_rows=source.random() < 0.8)
            if source.random() < 0.3:
                archiver.join_runs(3)
            if source.random() < 0.2:
                archiver.vacuum(0)
            time.sleep(0.02)

        return work

    going = Going()
    push()
    going.on(push)
    for name in ("randomize_then_sort", "on_read_modify"):
        going.on(keep_up(name))
    seams: set[int] = set()
    reads = [0, 0]
    for which in range(2):
        going.on(_reads(history(db), which, reads, seams))
    with going.meanwhile() as stopped:
        stopped.wait(SECONDS)
    assert min(reads) > 10
    assert len(seams) > 3, "the seam never moved"
    reader = history(db)
    assert reader.first_row() == 0
    assert reader.read(0, end[0], ["id"]).column("id").to_pylist() == list(range(end[0]))


def _reads(reader: HistoryReader, which: int, reads: list[int], seams: set[int]) -> Callable[[], None]:
    """A reader that stays open: ranges near the seam, from the beginning, and reduced."""
    source = random.Random(which)

    def work() -> None:
        there = reader.end().row
        seam = reader.first_logged_row()
        seams.add(seam)
        assert reader.first_row() == 0
        for low in (0, max(seam - source.randrange(1, 300), 0), min(seam, there)):
            high = min(there, low + source.randrange(1, 2000))
            got = reader.read(low, high, ["id"]).column("id").to_numpy()
            assert np.array_equal(got, np.arange(low, high)), (low, high, seam)
            keep = source.choice([0.1, 0.4, 1.0])
            sample = reader.read_sample(low, high, ["id"], keep)
            wanted = np.arange(low, high)[kept(lots_between(low, high, SEED), keep)]
            assert np.array_equal(sample.column("_row").to_numpy(), wanted), (low, high, seam, keep)
            assert sample.column("id").equals(sample.column("_row"))
        at = source.randrange(there)
        assert reader.row_at_time(BASE_US + at * STEP_US, there) == at
        pieces = reader.pieces(0, there)
        assert pieces[0].first == 0
        assert pieces[-1].end == there
        assert all(a.end == b.first for a, b in itertools.pairwise(pieces))
        assert all(piece.first < piece.end for piece in pieces)
        reads[which] += 1

    return work


@pytest.mark.slow
def test_several_threads_read_with_one_reader(db: ab.Database) -> None:
    """As tasks do that run in one process; one of them keeps looking what there is."""
    for first in range(0, 3000, 15):
        db.append("s", rows(first, first + 15))
    reader = history(db)
    going = Going()
    interval = sys.getswitchinterval()

    def read() -> None:
        low = random.randrange(2900)
        assert reader.read(low, low + 100, ["id"]).column("id").to_pylist() == list(range(low, low + 100))

    def look() -> None:
        reader._log.look_again()
        reader.refresh()

    for action in (read, read, read, look):
        going.on(action)
    sys.setswitchinterval(1e-5)
    try:
        with going.meanwhile() as stopped:
            stopped.wait(2.0)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.slow
def test_a_look_while_an_archive_is_being_made_is_not_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory is there a moment before its declaration, and does not change again when that comes."""
    with ab.open(tmp_path / "db", queries=False, settings={"segment_bytes": 4_000}) as db:
        db.sql("CREATE STREAM s (id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 100 MILLISECONDS")
        db.append("s", rows(0, 300))
        reader = history(db)
        real = Storage.write_json

        def looked_at(self: Storage, name: str, value: Any, *, durable: bool = True) -> None:
            if name == INFO:
                time.sleep(0.1)  # long enough for the time of the directory to be trusted
                reader.refresh()
            real(self, name, value, durable=durable)

        with monkeypatch.context() as patch:
            patch.setattr(Storage, "write_json", looked_at)
            db.create_archive("s", "plain")
        for first in range(300, 3000, 300):
            db.append("s", rows(first, first + 300))
            db.archive("s").append()
        reader.refresh()
        assert reader.first_logged_row() > 1000
        assert reader.first_row() == 0
        assert reader.read(0, 3000, ["id"]).column("id").to_pylist() == list(range(3000))


@pytest.mark.slow
def test_archives_that_came_and_went_are_noticed(db: ab.Database) -> None:
    db.append("s", rows(0, 2000))
    for info in db.archives.infos():
        db.archive("s", info.name).append()
    reader = history(db)
    assert len(reader.archives) == 2
    db.append("s", rows(2000, 4000))
    db.drop_archive("s", "randomize_then_sort")
    reader.refresh()
    assert [archive.info.name for archive in reader.archives] == ["on_read_modify"]
    assert reader.read(0, 4000, ["id"]).num_rows == 4000
    db.drop_archive("s", "on_read_modify")
    reader.refresh()
    assert reader.archives == []
    assert reader.first_row() == reader.first_logged_row() > 0

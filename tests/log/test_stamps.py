"""Streams whose rows we stamp: their time is the clock's, and nothing that claims it makes a row late."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyarrow import fs

from anabranch.clock import SystemClock
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.claim import Claimer
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.settings import Settings
from anabranch.testing import ManualClock

DAY = 86_400
HERE = "2026-01-01 00:00:00"


def made(path: Path, **more: Any) -> Storage:
    storage = Storage(str(path / "l"))
    StreamInfo("l", StreamSchema.of({"x": "INT"}), **more).create(storage)
    return storage


def times(storage: Storage) -> list[int]:
    reader = StreamReader(storage)
    return [t.value for t in reader.read(0, reader.end().row, ["_time"]).column(0)]


def test_claim_moves_time_on_and_the_next_row_is_not_older(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer, claimer = StreamWriter(storage, clock=clock), Claimer(storage, clock)
    writer.append([{"x": 1}])
    began = clock.now_us()
    assert not claimer.claim(began + 5_000_000)
    clock.advance(5)
    assert claimer.claim(began + 5_000_000)
    assert StreamReader(storage).end() == (1, began + 5_000_000)
    clock.advance(-3)  # set back: the stream is not
    writer.append([{"x": 2}])
    assert times(storage) == [began, began + 5_000_000]
    assert writer.rejected_rows == 0


def test_heartbeat_and_claim_never_take_time_back(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer, claimer = StreamWriter(storage, clock=clock), Claimer(storage, clock)
    writer.advance(clock.now_us() + 60_000_000)
    assert not claimer.claim(clock.now_us() + 61_000_000)
    claimer.claim(clock.now_us())
    assert StreamReader(storage).end().time == clock.now_us() + 60_000_000
    clock.advance(100)
    claimer.claim(clock.now_us())
    writer.advance(clock.now_us() - 10_000_000)
    assert StreamReader(storage).end().time == clock.now_us()


def test_claim_waits_for_rows_on_their_way(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer, claimer = StreamWriter(storage, clock=clock), Claimer(storage, clock)
    assert writer._stamps is not None
    with writer._stamps.stamping():
        assert not claimer.claim(clock.now_us())
    assert claimer.claim(clock.now_us())


def test_only_streams_that_we_stamp_go_with_the_clock(tmp_path: Path) -> None:
    assert StreamInfo("l", StreamSchema.of({"x": "INT"})).goes_with_the_clock
    assert StreamInfo.load(made(tmp_path)).goes_with_the_clock
    assert not StreamInfo("l", StreamSchema.of({"x": "INT"}), origin="query", owner="l").goes_with_the_clock
    assert not StreamInfo("l", StreamSchema.of({"ts": "TIMESTAMP"}, time="ts")).goes_with_the_clock


def test_read_only_directory_is_not_claimed_and_not_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = made(tmp_path)

    def refuse(*_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    claimer = Claimer(storage, SystemClock())
    monkeypatch.setattr(os, "open", refuse)
    assert not claimer.claim(0)


def test_clock_a_day_ahead_once_rejects_nothing_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer = StreamWriter(storage, Settings(environment={}), clock)
    clock.advance(DAY + 20)
    writer.append([{"x": 0}])
    ahead = clock.now_us()
    clock.advance(-DAY - 20)
    with caplog.at_level(logging.WARNING, "anabranch"):
        for x in range(1, 6):
            writer.append([{"x": x}])
            clock.advance(10)
    assert [record.getMessage().split()[0] for record in caplog.records] == ["CLOCK_WENT_BACK"]
    assert "1 day 00:00:20 ahead" in caplog.text
    assert (writer.rejected_rows, writer.next_row) == (0, 6)
    # At half the clock's pace, until that has caught up.
    assert [(t - ahead) / 1e6 for t in times(storage)] == [0, 0, 5, 10, 15, 20]
    clock.advance(3 * DAY)
    writer.append([{"x": 9}])
    assert times(storage)[-1] == clock.now_us()


def test_clock_a_day_ahead_windows_still_close(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    clock.advance(2 * DAY)
    StreamWriter(storage, clock=clock).append([{"x": 0}])
    row = clock.now_us()
    clock.advance(-2 * DAY)
    claimer = Claimer(storage, clock)
    assert not claimer.claim(row + 5_000_000)
    clock.advance(9.9)
    assert not claimer.claim(row + 5_000_000)
    clock.advance(0.2)
    assert claimer.claim(row + 5_000_000)


def test_rows_with_a_time_of_their_own_are_still_refused_from_the_far_future(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer = StreamWriter(storage, Settings(environment={}), clock)
    writer.append([{"x": 1, "_time": "2026-01-03 00:00:00"}, {"x": 2, "_time": "2026-01-01 12:00:00"}])
    assert (writer.rejected_rows, writer.next_row) == (1, 1)


def test_rejects_of_a_clock_that_was_ahead_are_kept(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer = StreamWriter(storage, Settings(environment={}), clock)
    late = [{"x": 1, "_time": "2025-01-01 00:00:00"}]
    writer.append([{"x": 0}])
    clock.advance(2 * DAY)
    writer.append(late)
    clock.advance(-2 * DAY)
    writer.append(late)
    assert StreamReader(storage.child("rejects")).end().row == 2


def test_restart_goes_on_from_what_was_claimed(tmp_path: Path) -> None:
    storage, clock = made(tmp_path), ManualClock(HERE)
    writer = StreamWriter(storage, clock=clock)
    writer.append([{"x": 1}])
    clock.advance(60)
    claimed = clock.now_us()
    assert Claimer(storage, clock).claim(claimed)
    writer.close()
    clock.advance(-30)
    again = StreamWriter(storage, clock=clock)
    again.append([{"x": 2}])
    assert times(storage)[-1] == claimed


def _claims(path: str, stop: Any) -> None:
    claimer = Claimer(Storage(path), SystemClock())
    while not stop.is_set():
        claimer.claim(0)


@pytest.mark.slow
def test_claims_from_another_process_and_threads_never_make_a_row_late(tmp_path: Path) -> None:
    """Whatever was claimed when a reader looked: rows it finds later are not older than that."""
    storage = made(tmp_path)
    writer = StreamWriter(storage, Settings({"segment_parts": 8}, environment={}))
    spawn = multiprocessing.get_context("spawn")
    stop, ended = spawn.Event(), threading.Event()
    process = spawn.Process(target=_claims, args=(storage.address, stop))
    process.start()
    seen: list[tuple[int, int]] = []

    def look() -> None:
        reader = StreamReader(storage)
        while not ended.is_set():
            end = reader.end()
            seen.append((end.row, end.time))

    def claim() -> None:
        claimer = Claimer(storage, SystemClock())
        while not ended.is_set():
            claimer.claim(0)
            time.sleep(0.0005)

    def append() -> None:
        for x in range(150):
            writer.append([{"x": x}])

    around = [threading.Thread(target=look), threading.Thread(target=claim)]
    appending = [threading.Thread(target=append) for _ in range(2)]
    for thread in [*around, *appending]:
        thread.start()
    for thread in appending:
        thread.join()
    time.sleep(0.5)  # at least until the other process is there
    append()
    ended.set()
    stop.set()
    for thread in around:
        thread.join()
    process.join()
    stamps = times(storage)
    assert (writer.next_row, writer.rejected_rows) == (450, 0)
    assert stamps == sorted(stamps)
    claimed = [(row, reached) for row, reached in seen if row and reached > stamps[row - 1]]
    assert claimed, "nothing was claimed while rows came"
    for row, reached in claimed:
        assert row == len(stamps) or stamps[row] >= reached


def elsewhere(path: Path) -> Storage:
    """A stream that does not lie on a local disk, as far as the log can tell."""
    made(path)
    return Storage("l", fs.SubTreeFileSystem(str(path), fs.LocalFileSystem()), "elsewhere://l")


def test_where_files_cannot_be_locked_only_the_writer_claims(tmp_path: Path) -> None:
    storage, clock = elsewhere(tmp_path), ManualClock(HERE)
    writer, claimer = StreamWriter(storage, clock=clock), Claimer(storage, clock)
    writer.append([{"x": 1}])
    clock.advance(5)
    assert not claimer.claim(clock.now_us())
    assert not writer.claim(clock.now_us() + 1)
    assert writer.claim(clock.now_us())
    assert StreamReader(storage).end().time == clock.now_us()
    clock.advance(-3)
    writer.append([{"x": 2}])
    assert times(storage)[1] - times(storage)[0] == 5_000_000
    writer.advance(times(storage)[1] + 1_000_000)
    writer.append([{"x": 3}])
    assert times(storage)[2] - times(storage)[0] == 6_000_000

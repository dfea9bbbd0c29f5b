"""Segments are written again without what is dead: rows keep their numbers, whoever reads, whenever it is killed."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.compaction import Compaction
from anabranch.log.segment import Segment, chain
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.settings import Settings
from anabranch.testing.processes import kill
from tests.sampling import ROUNDS, SEED

ROWS = 20
SETTINGS = Settings({"segment_bytes": 8000, "segment_parts": 4}, environment={})
SCHEMA = StreamSchema.of({"id": "BIGINT", "said": "STRING", "ts": "TIMESTAMP"}, time="ts")


@dataclass
class Wanted:
    """What is told of the rows: those of every third are kept, and all from a number on."""

    until: int
    let_go: int = 0

    def dead(self, rows: pa.Table) -> pa.ChunkedArray:
        ids = rows.column("id")
        early = pc.or_(pa.array(ids.to_numpy() % 3 != 0), pc.less(ids, 500))
        return pc.and_(pc.and_(early, pc.less(ids, self.until)), pc.is_valid(rows.column("said")))

    def wants(self, first: int) -> bool:
        return True

    def look(self, first: int, rows: pa.Table) -> int:
        return int(pc.sum(pc.binary_length(rows.column("said").filter(self.dead(rows)))).as_py() or 0)

    def cleared(self, first: int, rows: pa.Table) -> pa.Table:
        dead = self.dead(rows).to_numpy()
        said = rows.column("said").take(pa.array(np.arange(rows.num_rows), mask=dead))
        return rows.set_column(1, rows.schema.field(1), said)

    def is_empty(self, first: int, rows: pa.Table) -> bool:
        return bool(rows.column("said").null_count == rows.num_rows)

    def letting_go(self, end: int) -> None:
        self.let_go = end


def batch_of(number: int) -> pa.Table:
    ids = list(range(number * ROWS, (number + 1) * ROWS))
    return pa.table(
        {"id": ids, "said": [f"{i} {'x' * 50}" for i in ids], "ts": pa.array(ids).cast(pa.timestamp("us", "UTC"))}
    )


def create(path: Path) -> Storage:
    storage = Storage(str(path / "s"))
    StreamInfo("s", SCHEMA).create(storage)
    return storage


def compact(writer: StreamWriter, until: int) -> Wanted:
    contents, going = Wanted(until), Compaction(writer)
    while going.step(writer, contents):
        pass
    return contents


def check(reader: StreamReader, rows: int, until: int, first: int | None = None) -> None:
    """Everything is there that may be read, and nothing is there twice."""
    reader.refresh()
    first = reader.first_row() if first is None else first
    table = reader.read(first, rows)
    ids = table.column("id").to_pylist()
    assert ids == list(range(first, rows))
    assert reader.gaps() == []
    said = table.column("said").to_pylist()
    for number, text in zip(ids, said, strict=True):
        may_be_dead = number < until and (number % 3 != 0 or number < 500)
        assert text == f"{number} {'x' * 50}" or (may_be_dead and text is None), number
    assert first <= 500


def test_rows_keep_their_numbers_and_small_segments_become_one(tmp_path: Path) -> None:
    storage = create(tmp_path)
    writer, reader = StreamWriter(storage, SETTINGS), StreamReader(storage)
    for number in range(100):
        writer.append(batch_of(number), producer="p", batch=number)
    check(reader, 2000, 0)
    before, size = len(reader._chain), reader.size()
    assert compact(writer, 0).let_go == 0
    assert len(StreamReader(storage)._segments.files()) >= before
    assert compact(writer, 1200).let_go > 0
    check(reader, 2000, 1200)
    check(StreamReader(storage), 2000, 1200)
    assert reader.size() < size * 0.8
    assert len(reader._chain) < before - 5
    assert 0 < reader.first_row() <= 500
    files = storage.child("segments").files()
    compact(writer, 1200)
    assert storage.child("segments").files() == files
    writer.append(batch_of(99), producer="p", batch=99)
    writer.append(batch_of(100), producer="p", batch=100)
    writer.close()
    again = StreamWriter(storage, SETTINGS)
    assert again.batch("p") == 100
    check(StreamReader(storage), 2020, 1200)


def test_a_reader_goes_on_with_the_file_it_has(tmp_path: Path) -> None:
    storage = create(tmp_path)
    writer = StreamWriter(storage, SETTINGS)
    for number in range(60):
        writer.append(batch_of(number))
    reader = StreamReader(storage)
    held = reader.read(500, 1100)
    listed = StreamReader(storage)
    listed.refresh()  # knows the old files, and has opened none
    compact(writer, 1100)
    assert held.column("id").to_pylist() == list(range(500, 1100))
    assert held.column("said").null_count == 0
    assert listed.read(500, 1200).column("id").to_pylist() == list(range(500, 1200))
    check(listed, 1200, 1100)


def test_of_two_that_hold_the_same_rows_the_smaller_one_stands() -> None:
    old, new = Segment(0, 10, 0, 9, 5000, 1), Segment(0, 10, 0, 9, 700, 2)
    both = Segment(0, 20, 0, 19, 900, 3)
    assert chain([old, new]) == chain([new, old]) == [new]
    assert chain([old, both, new, Segment(10, 10, 10, 19, 80, 4)]) == [both]


def test_a_round_and_appends_do_not_disturb_each_other(tmp_path: Path) -> None:
    storage = create(tmp_path)
    writer, reader = StreamWriter(storage, SETTINGS), StreamReader(storage)
    for number in range(60):
        writer.append(batch_of(number))
    ended = threading.Event()

    def go_round() -> None:
        while not ended.is_set():
            compact(writer, writer.closed_end - 100)

    thread = threading.Thread(target=go_round)
    thread.start()
    try:
        for number in range(60, 200):
            writer.append(batch_of(number))
            check(reader, (number + 1) * ROWS, (number + 1) * ROWS, first=500)  # those before may go at any moment
    finally:
        ended.set()
        thread.join()
    check(StreamReader(storage), 4000, 4000)


def live(path: str) -> None:
    """Be the process that gets killed: append and compact, and say what is acknowledged."""
    writer = StreamWriter(Storage(path), SETTINGS)
    for number in range(writer.batch("p") + 1, 100_000):
        writer.append(batch_of(number), producer="p", batch=number)
        print(number, flush=True)
        if number % 7 == 0:
            compact(writer, number * ROWS - 300)


@pytest.mark.slow
def test_killed_at_any_moment(tmp_path: Path) -> None:
    storage, chance = create(tmp_path), random.Random(SEED)
    reader = StreamReader(storage)
    acknowledged = 0
    for _ in range(4 * ROUNDS):
        command = [sys.executable, "-c", f"from tests.log.test_compaction import live; live({storage.path!r})"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        timer: threading.Timer | None = None
        for line in process.stdout:
            if timer is None:
                timer = threading.Timer(chance.uniform(0.05, 0.6), kill, (process.pid,))
                timer.start()
            acknowledged = int(line) + 1
        assert process.wait() == -9
        check(StreamReader(storage), acknowledged * ROWS, acknowledged * ROWS)
        check(reader, acknowledged * ROWS, acknowledged * ROWS)
    with_all = StreamWriter(storage, SETTINGS)
    assert with_all.batch("p") + 1 - acknowledged in (0, 1)
    check(StreamReader(storage), with_all.next_row, with_all.next_row)
    assert reader.first_row() > 0
    assert storage.child("segments").directories() == []

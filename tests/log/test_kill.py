"""Kill -9 at seeded moments: every acknowledged batch is in the log exactly once, in order."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.settings import Settings

ROUNDS = 200
ROWS = 20
SETTINGS = {"segment_bytes": 6000, "segment_parts": 5}


def batch_rows(batch: int, disorder: int) -> dict[str, list[int]]:
    """The rows of a batch: numbered, with times that go back by at most `disorder` µs, and one late row."""
    source = random.Random(batch)
    ids = [batch * ROWS + i for i in range(ROWS)]
    times = [1000 * i - source.randint(0, disorder) for i in ids]
    if disorder and batch:
        times[-1] = 1000 * ids[-1] - 10 * disorder
    return {"id": ids, "ts": times}


def append_until_killed(path: str, first: int, disorder: int, acknowledge: Connection) -> None:
    writer = StreamWriter(Storage(path), Settings(SETTINGS, environment={}))
    for batch in range(first, first + 100_000):
        data = batch_rows(batch, disorder)
        table = pa.table({"id": data["id"], "ts": pa.array(data["ts"]).cast(pa.timestamp("us", tz="UTC"))})
        writer.append(table, producer="test", batch=batch)
        acknowledge.send(batch)


@pytest.mark.parametrize("disorder", [0, 5000])
def test_acknowledged_batches_survive_kill_minus_9(tmp_path: Path, disorder: int) -> None:
    place = Storage(str(tmp_path / "s"))
    schema = StreamSchema.of({"id": "BIGINT", "ts": "TIMESTAMP"}, "ts")
    StreamInfo("s", schema, skew_us=disorder).create(place)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.log.test_kill"])
    seed = random.Random(f"kill {disorder}")
    next_batch = 0
    for _ in range(ROUNDS // 2):
        mine, theirs = context.Pipe(duplex=False)
        process = context.Process(target=append_until_killed, args=(place.path, next_batch, disorder, theirs))
        process.start()
        theirs.close()
        acknowledged = [mine.recv()]
        deadline = time.monotonic() + seed.uniform(0, 0.03)
        while time.monotonic() < deadline:
            if mine.poll(max(deadline - time.monotonic(), 0)):
                acknowledged.append(mine.recv())
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while mine.poll():
                acknowledged.append(mine.recv())
        except EOFError:
            pass
        assert acknowledged == list(range(next_batch, next_batch + len(acknowledged)))
        next_batch += len(acknowledged)
        check(place, next_batch, disorder)


def check(place: Storage, acknowledged: int, disorder: int) -> None:
    """Every row of every acknowledged batch once, accepted or rejected; at most one batch more."""
    writer = StreamWriter(place, Settings(SETTINGS, environment={}))
    held = writer._held.column("id").to_pylist()
    writer.close(release=False)
    reader = StreamReader(place)
    kept = reader.read(0, reader.end().row)
    times = kept.column("ts").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    rejected: list[int] = []
    if place.exists("rejects/stream.json"):
        rejects = StreamReader(place.child("rejects"))
        rejected = rejects.read(0, rejects.end().row).column("id").to_pylist()
    found = sorted(kept.column("id").to_pylist() + held + rejected)
    assert len(found) == len(set(found)), "a row came twice"
    assert found == list(range(len(found))), "a row is missing"
    assert acknowledged * ROWS <= len(found) <= (acknowledged + 1) * ROWS
    if disorder:
        assert rejected or acknowledged < 2

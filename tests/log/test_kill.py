"""Kill -9 at seeded moments: every acknowledged batch is in the log exactly once, in order."""

from __future__ import annotations

import os
import random
import select
import signal
import subprocess
import sys
import time
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


def batch_rows(batch: int, disorder: int) -> pa.Table:
    """The rows of a batch: numbered, with times that go back by at most `disorder` µs, and one late row."""
    source = random.Random(batch)
    ids = [batch * ROWS + i for i in range(ROWS)]
    times = [1000 * i - source.randint(0, disorder) for i in ids]
    if disorder and batch:
        times[-1] = 1000 * ids[-1] - 10 * disorder
    return pa.table({"id": ids, "ts": pa.array(times).cast(pa.timestamp("us", tz="UTC"))})


def append_until_killed(path: str, first: int, disorder: int) -> None:
    """What the victim does: append, and say so on standard output."""
    writer = StreamWriter(Storage(path), Settings(SETTINGS, environment={}))
    for batch in range(first, first + 100_000):
        writer.append(batch_rows(batch, disorder), producer="test", batch=batch)
        os.write(1, f"{batch}\n".encode())


def breed() -> None:
    """Fork a victim for each line "path first disorder" and say its pid: a start without any imports."""
    batch_rows(0, 0)  # pyarrow imports pandas when it first makes an array
    for line in sys.stdin:
        path, first, disorder = line.rsplit(" ", 2)
        pid = os.fork()
        if pid == 0:
            append_until_killed(path, int(first), int(disorder))
        os.write(1, f"pid {pid}\n".encode())
        os.waitpid(pid, 0)
        os.write(1, b"dead\n")


class Breeder:
    """The process that forks victims, and the lines it and they say."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.log.test_kill import breed; breed()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._said = b""

    def life(self, path: str, first: int, disorder: int, seconds: float) -> list[int]:
        """Let a victim live for a while after its first acknowledgement; gives what it acknowledged."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{path} {first} {disorder}\n".encode())
        self._process.stdin.flush()
        acknowledged: list[int] = []
        pid, deadline = 0, time.monotonic() + 60
        while (line := self._line(deadline)) != "dead":
            if line is None:
                os.kill(pid, signal.SIGKILL)
                deadline = time.monotonic() + 60
            elif line.startswith("pid"):
                pid = int(line[4:])
            else:
                acknowledged.append(int(line))
                if len(acknowledged) == 1:
                    deadline = time.monotonic() + seconds
        return acknowledged

    def _line(self, deadline: float) -> str | None:
        """The next line, or None once it is time."""
        assert self._process.stdout is not None
        handle = self._process.stdout.fileno()
        while b"\n" not in self._said:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([handle], [], [], left)[0]:
                return None
            said = os.read(handle, 65536)
            assert said, "the breeder died"
            self._said += said
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@pytest.mark.slow
@pytest.mark.parametrize("disorder", [0, 5000])
def test_acknowledged_batches_survive_kill_minus_9(tmp_path: Path, disorder: int) -> None:
    place = Storage(str(tmp_path / "s"))
    schema = StreamSchema.of({"id": "BIGINT", "ts": "TIMESTAMP"}, "ts")
    StreamInfo("s", schema, skew_us=disorder).create(place)
    seed = random.Random(f"kill {disorder}")
    breeder = Breeder()
    next_batch = 0
    for _ in range(ROUNDS // 2):
        acknowledged = breeder.life(place.path, next_batch, disorder, seed.uniform(0, 0.03))
        assert acknowledged, "the victim died before it was killed"
        assert acknowledged == list(range(next_batch, next_batch + len(acknowledged)))
        next_batch += len(acknowledged)
        check(place, next_batch, disorder)
    breeder.close()


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

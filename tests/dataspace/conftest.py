"""Data sets to serve, and servers in this process and beside it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch
from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.collection import Collection
from anabranch.dataspace.security import Security
from anabranch.dataspace.server import DataServer

SOURCE = str(Path(anabranch.__file__).parents[1])


def floods(rows: int, first: int = 0, seed: int = 1) -> pa.Table:
    """Rows with places, times in order, and what else there may be."""
    random = np.random.default_rng(seed)
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "lat": random.random(rows) * 90,
            "lon": random.random(rows) * 180,
            "ts": pa.array(numbers * 1000, pa.timestamp("us")),
            "depth": pa.array(random.random(rows).astype(np.float32)),
            "station": pa.array([f"s{n % 7}" for n in numbers], pa.large_string()),
            "n": pa.array(numbers, pa.uint32()),
        }
    )


@contextlib.contextmanager
def serving(path: Path | str, security: Security | None = None, **options: Any) -> Iterator[DataServer]:
    keys = options.pop("keys", None)
    server = DataServer(Collection(str(path), keys), security=security, **options)
    try:
        yield server
    finally:
        assert server.close()


@contextlib.contextmanager
def asking(path: Path | str, **options: Any) -> Iterator[DataSpaceClient]:
    with serving(path, **options) as server, DataSpaceClient(server.url, patience=5) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one data set of each kind of file."""
    place = tmp_path / "data"
    (place / "quakes").mkdir(parents=True)
    pq.write_table(floods(10_000), place / "floods.parquet", row_group_size=1700)
    for part in range(3):
        pq.write_table(floods(1000, part * 1000, seed=part), place / "quakes" / f"{part}.parquet")
    table = floods(500).select(["lat", "ts", "station"])
    pa.csv.write_csv(table, place / "rain.csv")
    with pa.ipc.new_file(place / "snow.arrow", table.schema) as out:
        out.write_table(table)
    return place


class Beside:
    """A data server in a process of its own, which can be killed and started again at the same port."""

    def __init__(self, path: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self._path, self._options, self._environment = path, options, environment or {}
        self._port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "anabranch.cli", "data-server", str(self._path), "--json"]
        self._process = subprocess.Popen(
            [*command, "--port", str(self._port), *self._options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": SOURCE, **self._environment},
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], 60)
        line = self._process.stdout.readline() if ready else b""
        assert line, self._process.stderr.read().decode() if self._process.stderr else ""
        self.said = json.loads(line)
        self.url = self.said["url"]
        self._port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate()

    def end(self) -> tuple[int, str]:
        """Ctrl-C; gives the exit code and what it had to say."""
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=30)
        return self._process.returncode, said.decode()


@pytest.fixture
def beside(folder: Path) -> Iterator[Beside]:
    server = Beside(folder)
    yield server
    if server._process.poll() is None:
        server.kill()


def until(condition: Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)

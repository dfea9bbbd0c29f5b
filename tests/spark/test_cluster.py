"""The same query on other masters: executors in processes of their own, and a worker that is killed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(420)]

PROGRAM = """
import sys, time
import pyarrow as pa
import anabranch as ab
import anabranch.operators.windows.aggregate as windows, anabranch.operators.select as selects

master, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
base = 1_767_225_600_000_000
with ab.open(path, settings={"master": master, "parallelism": 2, "batch_rows": 600_000}) as db:
    db.sql("CREATE STREAM packets (id BIGINT, key INT, ts TIMESTAMP) TIMESTAMP BY ts")
    def push(part):
        ids = range(part * 200_000, (part + 1) * 200_000)
        db.append("packets", pa.table({
            "id": list(ids), "key": pa.array([i % 10 for i in ids], pa.int32()),
            "ts": pa.array([base + i * 100 for i in ids]).cast(pa.timestamp("us", "UTC"))}))
    push(0)
    counts = db.query(
        "SELECT key, count(*) AS n, sum(id) AS total FROM packets WINDOW = INTERVAL 1 SECOND GROUP BY key",
        name="counts")
    few = db.query("SELECT id, reverse(CAST(key AS STRING)) AS k, ts FROM packets WHERE id % 1000 = 0", name="few")
    counts.wait(180); few.wait(180)
    print("running", flush=True)
    for part in range(1, rounds):
        push(part)
        time.sleep(0.5)
    counts.wait(180); few.wait(180)
    rows = rounds * 200_000
    table = counts.table()
    complete = (rows - 1) // 10_000
    assert table.num_rows == complete * 10, (table.num_rows, complete)
    for i, row in enumerate(table.to_pylist()):
        window, key = divmod(i, 10)
        ids = range(window * 10_000 + key, (window + 1) * 10_000, 10)
        assert (row["key"], row["n"], row["total"]) == (key, len(ids), sum(ids)), (i, row)
    assert few.table()["id"].to_pylist() == list(range(0, rows, 1000))
    print("right", flush=True)
"""


def start(master: str, place: Path, rounds: int) -> subprocess.Popen[str]:
    program = place / "program.py"
    program.write_text(PROGRAM)
    return subprocess.Popen(
        [sys.executable, str(program), master, str(place / "river"), str(rounds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.long
def test_a_local_cluster_gives_the_same_answers(tmp_path: Path) -> None:
    process = start("local-cluster[2,1,1024]", tmp_path, rounds=3)
    said, _ = process.communicate(timeout=300)
    assert said.splitlines()[-1] == "right", said


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A master and two workers on this machine, started from the pip package."""
    import pyspark

    from anabranch.spark.java import prepare_environment

    environment = dict(os.environ)
    prepare_environment(environment)
    launcher = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    logs = tmp_path / "master.log"
    processes: list[subprocess.Popen[bytes]] = []

    def launch(kind: str, log: Path, *arguments: str) -> None:
        with log.open("wb") as out:
            command = [launcher, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *arguments]
            processes.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True))

    try:
        launch("master.Master", logs, "--port", "0", "--webui-port", "0")
        address = _find(logs, r"Starting Spark master at (spark://\S+)")
        for number in range(2):
            log = tmp_path / f"worker{number}.log"
            launch(
                "worker.Worker", log, "--cores", "1", "--memory", "1g", "--webui-port", "0",
                "--work-dir", str(tmp_path / f"work{number}"), address,
            )  # fmt: skip
            _find(log, r"Successfully registered with master (\S+)")
        yield address, processes[1:]
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _find(log: Path, pattern: str) -> str:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"no {pattern!r} in {log.read_text(errors='replace')}")


def test_a_killed_worker_of_a_standalone_cluster_costs_only_time(
    standalone: tuple[str, list[subprocess.Popen[bytes]]], tmp_path: Path
) -> None:
    master, workers = standalone
    process = start(master, tmp_path, rounds=8)
    assert process.stdout is not None
    said = []
    try:
        for line in process.stdout:
            said.append(line.strip())
            if line.strip() == "running":
                # The worker and the executor it has started, at once.
                for child in _children(workers[0].pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
                os.killpg(workers[0].pid, signal.SIGKILL)
        process.wait(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert said[-1] == "right", "\n".join(said)


def _children(pid: int) -> list[int]:
    import psutil

    return [child.pid for child in psutil.Process(pid).children(recursive=True)]

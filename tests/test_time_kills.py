"""Kill -9 while rows are stamped and time is claimed: every window is answered once, and as the log says."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import ROUNDS

WINDOW = 20_000  # µs
QUERY = "SELECT count(*) AS n, sum(x) AS total, window_end FROM l WINDOW = INTERVAL 20 MILLISECONDS"
CHAIN = "SELECT sum(n) AS n, window_end FROM answers WINDOW = INTERVAL 100 MILLISECONDS"


def open_database(path: Path) -> SparklessDatabase:
    return SparklessDatabase(path, settings={"segment_parts": 5}, unkindness=Unkindness(forget=True))


def work(path: str, seed: int) -> None:
    """What the victim does: append, fall silent, and let the queries go on."""
    chance = random.Random(seed)
    with open_database(Path(path)) as db:
        if seed % 3:  # the first micro-batch takes long, and is killed in every third round
            db.append("l", [{"x": 0}])
            db.catch_up()
        os.write(1, b"open\n")
        while True:
            if chance.random() < 0.6:
                db.append("l", [{"x": chance.randint(0, 9)} for _ in range(chance.randint(1, 5))])
            else:
                time.sleep(chance.uniform(0, 0.05))
            db.catch_up()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_windows_of_a_stream_that_stamps_on_arrival_survive_kills(tmp_path: Path) -> None:
    with open_database(tmp_path / "db") as db:
        db.sql("CREATE STREAM l (x INT)")
        db.query(QUERY, name="answers")
        db.query(CHAIN, name="chain")
    chance = random.Random(13)
    for seed in range(ROUNDS):
        command = [
            sys.executable,
            "-c",
            f"from tests.test_time_kills import work; work({str(tmp_path / 'db')!r}, {seed})",
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as victim:
            assert victim.stdout is not None
            assert victim.stdout.readline() == b"open\n"
            time.sleep(chance.uniform(0.05, 1.0))
            victim.send_signal(signal.SIGKILL)
    with open_database(tmp_path / "db") as db:
        time.sleep(0.2)  # all windows have ended
        db.catch_up()
        rows = db.reader("l").read(0, db.reader("l").end().row).to_pydict()
        ends = [round(t.timestamp() * 1e6) // WINDOW * WINDOW + WINDOW for t in rows["_time"]]
        totals: Counter[int] = Counter()
        for end, x in zip(ends, rows["x"], strict=True):
            totals[end] += x
        wanted = [(n, totals[end], end) for end, n in sorted(Counter(ends).items())]
        answers = db.get_query("answers").table().to_pydict()
        found = [round(t.timestamp() * 1e6) for t in answers["window_end"]]
        assert list(zip(answers["n"], answers["total"], found, strict=True)) == wanted
        assert sum(db.get_query("chain").table().column("n").to_pylist()) == len(ends)
        assert len(ends) > 6 * ROUNDS
        assert not db.catalog.stream_storage("l").exists("rejects")

"""Machine code of the loops, made ready: a little of everything that calls one is run, and its code kept on disk.

A merge takes half a minute to compile, and whoever asks for the first one would wait for it.
"""

from __future__ import annotations

import datetime as dt
import itertools
import subprocess
import sys
import tempfile
from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np

from anabranch.dataspace.range_index import RangeIndex
from anabranch.kernels.questions import Intervals, QuestionIndex
from anabranch.operators.warm import warm_up_selections
from anabranch.testing.sparkless import SparklessDatabase
from anabranch.windows import INDICES, RINGS, STORAGES, SlidingWindow

_EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_STREAM = """(k INT, t STRING, x DOUBLE, y DOUBLE, d DECIMAL(20, 2), ts TIMESTAMP)
TIMESTAMP BY ts ALLOW SKEW INTERVAL 1 SECOND"""
_QUERIES = """
SELECT k, count(*) AS n, sum(k) AS s, avg(x) AS a, min(k) AS l, max(x) AS h, stddev(x) AS d,
       approx_count_distinct(t) AS v FROM a WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 2 SECONDS GROUP BY k;
SELECT t, count(DISTINCT k) AS n, median(x) AS m, mode(k) AS o FROM a WINDOW = 8 ROWS SLIDE 4 ROWS GROUP BY t;
SELECT a.x, b.y FROM a, b WINDOW = INTERVAL 5 SECONDS WHERE a.k = b.k AND a.x < b.y;
SELECT a.x, b.y FROM a, b WINDOW = INTERVAL 5 SECONDS WHERE a.x BETWEEN b.x - 1 AND b.x + 1;
SELECT a.x, b.y FROM a, b, c WINDOW = INTERVAL 5 SECONDS WHERE a.k = b.k AND b.t = c.t
"""
_MERGES = """
SELECT a.x, b.y FROM a MERGE JOIN b ON within(a.x, b.x, 0.5) AND within(a.y, b.y, 0.5)
       AND within(a.ts, b.ts, INTERVAL 2 SECONDS) WITH (window = 8, step = 4, every = INTERVAL 5 SECONDS);
SELECT a.x, b.y FROM a MERGE JOIN b ON within(a.d, b.d, 0.5) AND a.t = b.t
       WITH (window = 8, step = 4, every = INTERVAL 5 SECONDS);
SELECT a.x, b.y FROM a MERGE JOIN b ON within(a.x, b.x, 0.5) AND within(a.ts, b.ts, INTERVAL 2 SECONDS)
       WITH (policy = 'nearest', window = 8, step = 4);
SELECT a.x, b.y FROM a MERGE JOIN b ON within(a.x, b.x, 0.5) AND within(a.ts, b.ts, INTERVAL 2 SECONDS)
       WITH (policy = 'all', window = 8, step = 4)
"""


def compile_beside() -> list[subprocess.Popen[bytes]]:
    """Have other processes do it, one for each of the two halves."""
    return [
        subprocess.Popen([sys.executable, "-m", __name__, half], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for half in HALVES
    ]


def _compile_merges() -> None:
    _run(_MERGES)


def _compile_all_else() -> None:
    _run(_QUERIES)
    _tables()
    _windows()
    _range_index()
    _questions()


HALVES = {"merges": _compile_merges, "else": _compile_all_else}
"""What is compiled side by side: a little of each is run."""


def _run(asked: str) -> None:
    whole = 10**17  # past what a double holds
    rows = [
        {"k": i % 3, "t": "abc"[i % 3], "x": i / 4, "y": i / 8, "d": Decimal(whole + i)}
        | {"ts": _EPOCH + dt.timedelta(seconds=i)}
        for i in range(40)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-") as folder,
        SparklessDatabase(Path(folder, "db"), settings={"batch_rows": 10}) as db,
    ):
        for stream in "abc":
            db.sql(f"CREATE STREAM {stream} {_STREAM}")
        queries = [db.query(sql) for sql in asked.split(";")]
        for stream in "abc":
            db.append(stream, rows)
        db.catch_up()
        for query in queries:
            query.stats()


def _tables() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-") as folder,
        SparklessDatabase(Path(folder, "db")) as db,
    ):
        db.sql("CREATE TABLE t (k INT, t STRING, PRIMARY KEY (k, t))")
        for _ in range(2):
            db.upsert("t", [{"k": 1, "t": "a"}])


def _windows() -> None:
    for index, ring in itertools.product(INDICES, RINGS):
        if index != "G":  # made of others
            window = SlidingWindow(size=8, basic_windows=2, storage="LIST", index=index, ring=ring)
            window.append(range(20))
            for ask in (window.median, window.mode, window.sorted, window.histogram, partial(window.top, 1)):
                ask()
    for storage in STORAGES:
        if storage != "GROUP":
            SlidingWindow(size=8, basic_windows=2, storage=storage, index="T").append(range(20))


def _range_index() -> None:
    index = RangeIndex(2)
    for _ in range(3):  # small runs are merged
        index.extend(np.arange(40.0).reshape(-1, 2))
    index.query([2.5, 2.5], [6.0, 6.0], limit=2)


def _questions() -> None:
    warm_up_selections()
    for rows in (10, 5000):  # few combinations of codes, and many
        codes = [np.arange(rows) % 97, np.arange(rows) % 89]
        asked = [
            (number, column, number, number + 45) for number in range(40) for column in range(2)
        ]  # bits, and looked up
        for some in ([*asked, (40, 0, 1, 1)], asked[:2]):
            QuestionIndex(41, Intervals(*np.array(some, np.int64).T), codes).match(codes)


if __name__ == "__main__":
    HALVES[sys.argv[1]]()

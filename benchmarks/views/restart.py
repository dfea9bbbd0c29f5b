"""How much memory the process that runs a tree has, while it runs, and when another goes on.

`python -m benchmarks.views.restart FOLDER ROWS run`, and then `… again`: without Spark, each in a process of its own.
`run` takes in rows in pieces, `again` opens what was left and takes in a few more. What is printed is the most
resident bytes, of `run` while it takes in the last quarter, and the bytes of the files of what is kept.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.testing.sparkless import SparklessDatabase

PIECE = 250_000
CREATE = """
CREATE STREAM sales (id BIGINT, customer BIGINT, what STRING, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE STREAM paid (id BIGINT, how STRING, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE MATERIALIZED VIEW open AS
SELECT s.customer, count(*) AS n, min(s.what) AS what FROM sales s LEFT JOIN paid p ON s.id = p.id
WHERE p.id IS NULL GROUP BY s.customer ACCEPT UNBOUNDED
"""


class Watched:
    """The most resident memory since it was last looked at."""

    def __init__(self) -> None:
        self._most = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        me = psutil.Process()
        while True:
            self._most = max(self._most, me.memory_info().rss)
            time.sleep(0.01)

    def most(self) -> int:
        most, self._most = self._most, 0
        return most


def rows(begin: int, count: int) -> pa.Table:
    numbers = np.arange(begin, begin + count)
    texts = pa.array(numbers * 2654435761 % (1 << 62)).cast(pa.string())
    what = pc.binary_join_element_wise("what was sold, and a few words about it: ", texts, "")
    stamps = pa.array(1_767_225_600_000_000 + numbers).cast(pa.timestamp("us", "UTC"))
    return pa.table({"id": numbers, "customer": numbers % 100_000, "what": what, "ts": stamps})


def main(folder: str, count: int, mode: str) -> None:
    watched = Watched()
    with SparklessDatabase(Path(folder)) as db:
        if mode == "run":
            db.sql(CREATE)
        begins = range(0, count, PIECE) if mode == "run" else [count]
        for begin in begins:
            if begin == count - count // 4 // PIECE * PIECE:
                watched.most()
            db.append("sales", rows(begin, PIECE if mode == "run" else 1000))
            db.catch_up()
        most = watched.most()
        wanted = count + (0 if mode == "run" else 1000)
        total = int(np.sum(db.view("open").table().column("n").to_numpy()))
        if total != wanted:
            raise SystemExit(f"the view counts {total} rows, not {wanted}")
    kept = sum(file.stat().st_size for file in Path(folder).rglob("tree/runs/*"))
    print(json.dumps({"most": most, "kept": kept}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

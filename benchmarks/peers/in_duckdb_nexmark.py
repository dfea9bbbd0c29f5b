"""DuckDB: each query of Nexmark in batch, over all events at once, from Parquet to a table in memory."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict

import duckdb

from benchmarks.peers.nexmark import Answer, Asked, Question


def work(asked: Asked) -> dict[str, object]:
    database = duckdb.connect()
    database.execute(f"SET threads = {asked.threads}; SET TimeZone = 'UTC'; SET preserve_insertion_order = false")
    for name in ("person", "auction", "bid", "side_input"):
        database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{asked.file(name)}.parquet')")
    answers, failed = {}, {}
    for question in (Question(**said) for said in asked.questions):
        seconds = []
        try:
            for _ in range(asked.rounds):
                began = time.perf_counter()
                database.execute(f"CREATE OR REPLACE TABLE answer AS {question.sql}")
                seconds.append(time.perf_counter() - began)
            kept = Question(question.name, "SELECT * FROM answer", question.check)
            ((count, checksum),) = database.execute(kept.summed).fetchall()
            answers[question.name] = asdict(Answer(seconds, count, checksum or 0))
        except duckdb.Error as problem:
            failed[question.name] = str(problem).splitlines()[0]
    return {"version": duckdb.__version__, "answers": answers, "failed": failed}


if __name__ == "__main__":
    print(json.dumps(work(Asked(**json.loads(sys.argv[1])))), flush=True)

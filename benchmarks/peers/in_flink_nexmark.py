"""Flink: each query of Nexmark in streaming mode, from CSV to nowhere, as its own Nexmark runs it.

The seconds are the net run time that Flink says of the job, so neither the start of the JVM nor planning is in them;
reading CSV is. Mini-batches and split distinct aggregates are on, as in the configuration of Flink's own Nexmark. What
is answered is summed up by another job, whose last row counts. The JVM is warmed up by a job that only reads; how long
another such job takes is said, too.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from pyflink.common import Configuration  # type: ignore[import-not-found, unused-ignore]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found, unused-ignore]
from pyflink.version import __version__  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.in_flink import SETTINGS
from benchmarks.peers.nexmark import Answer, Asked, Question

OWN_SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
STREAMS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time_ms BIGINT, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time_ms BIGINT, expires_ms BIGINT, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time_ms BIGINT, extra STRING",
}
STREAM = """
CREATE TABLE {name}_lines ({columns}, date_time AS TO_TIMESTAMP_LTZ(date_time_ms, 3){more},
WATERMARK FOR date_time AS date_time)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
"""
SIDE = """
CREATE TABLE side_input (`key` BIGINT, `value` STRING)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
"""
NOTHING = "SELECT auction FROM bid WHERE price < 0 AND bidder < 0 AND extra = '' AND url = '' AND channel = ''"


class Flink:
    """A session with the streams; each job has a sink of its own."""

    def __init__(self, asked: Asked) -> None:
        configuration = Configuration()
        for name, value in {**SETTINGS, **OWN_SETTINGS, "parallelism.default": str(asked.threads)}.items():
            configuration.set_string(name, value)
        settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
        self._tables = TableEnvironment.create(settings)
        self._jobs = 0
        for name, columns in STREAMS.items():
            more = ", expires AS TO_TIMESTAMP_LTZ(expires_ms, 3)" if "expires_ms" in columns else ""
            path = asked.file(f"{name}.csv")
            self._tables.execute_sql(STREAM.format(name=name, columns=columns, more=more, path=path))
            shown = ", ".join(part.split()[0].removesuffix("_ms") for part in columns.split(", "))
            self._tables.execute_sql(f"CREATE VIEW {name} AS SELECT {shown} FROM {name}_lines")
        self._tables.execute_sql(SIDE.format(path=asked.file("side_input.csv")))

    def seconds(self, sql: str) -> float:
        """The net run time of a query."""
        self._jobs += 1
        columns = self._tables.sql_query(sql)._j_table.getResolvedSchema().getColumns()
        declared = ", ".join(f"`{column.getName()}` {_type(column)}" for column in columns)
        sink = f"sink{self._jobs}"
        self._tables.execute_sql(f"CREATE TABLE {sink} ({declared}) WITH ('connector' = 'blackhole')")
        ran = self._tables.execute_sql(f"INSERT INTO {sink} {sql}")
        ran.wait()
        return float(ran.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000)

    def last_row(self, sql: str) -> list[int]:
        """What stands at the end in an answer of one row that changes."""
        last: list[int] = [0, 0]
        with self._tables.execute_sql(sql).collect() as rows:
            for row in rows:
                last = [int(value or 0) for value in row]
        return last


def _type(column: Any) -> str:
    return str(column.getDataType().getLogicalType().asSerializableString()).replace(" *ROWTIME*", "")


def work(asked: Asked) -> dict[str, Any]:
    flink = Flink(asked)
    reading = [flink.seconds(NOTHING) for _ in range(asked.rounds + 1)][1:]
    answers, failed = {}, {}
    for question in (Question(**said) for said in asked.questions):
        try:
            count, checksum = flink.last_row(question.summed)
            seconds = [flink.seconds(question.sql) for _ in range(asked.rounds)]
            answers[question.name] = asdict(Answer(seconds, count, checksum))
        except Exception as problem:
            said = [line for line in str(problem).splitlines() if "Exception" in line]
            failed[question.name] = (said or [str(problem)])[-1][:300]
    return {"version": __version__, "answers": answers, "failed": failed, "reading": reading}


if __name__ == "__main__":
    print(json.dumps(work(Asked(**json.loads(sys.argv[1])))), flush=True)

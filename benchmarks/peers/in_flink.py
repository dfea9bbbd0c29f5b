"""Flink: its interval join in SQL, in streaming mode, by watermarks, state on the heap, a slot for each core.

The seconds are the net run time that Flink says of the job, so neither the start of the JVM nor planning is in them.
The first of several rounds warms the JVM up.
"""

from __future__ import annotations

import tempfile

from pyflink.common import Configuration  # type: ignore[import-not-found, unused-ignore]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found, unused-ignore]
from pyflink.version import __version__  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.job import Job, Said, answer_to, sum_up

SETTINGS = {
    "pipeline.object-reuse": "true",
    "table.local-time-zone": "UTC",
    "taskmanager.memory.process.size": "4g",
    "state.backend.type": "hashmap",
    "rest.bind-port": "0",
}
STREAM = """
CREATE TABLE {name} (k BIGINT, v BIGINT, t BIGINT, ts AS TO_TIMESTAMP_LTZ(t, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv')
"""
JOIN = """
INSERT INTO {sink} SELECT A.v, B.v FROM a A, b B
WHERE A.k = B.k AND A.ts BETWEEN B.ts - INTERVAL '{seconds}' SECOND AND B.ts + INTERVAL '{seconds}' SECOND
"""


def work(job: Job) -> Said:
    if job.width is not None:
        raise SystemExit("Flink refuses an interval join without an equality")
    configuration = Configuration()
    for name, value in {**SETTINGS, "parallelism.default": str(job.threads)}.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    flink = TableEnvironment.create(settings)
    for name in "ab":
        flink.execute_sql(STREAM.format(name=name, path=job.file(f"{name}.lines")))
    seconds = []
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        for number in range(job.rounds + 1):
            flink.execute_sql(
                f"CREATE TABLE answer{number} (v BIGINT, w BIGINT) WITH ('connector' = 'filesystem', "
                f"'path' = 'file://{folder}/{number}', 'format' = 'csv')"
            )
            ran = flink.execute_sql(JOIN.format(sink=f"answer{number}", seconds=job.window_ms // 1000))
            ran.wait()
            result = ran.get_job_client().get_job_execution_result().result()
            seconds.append(result.get_net_runtime() / 1000)
        count, checksum = sum_up(f"{folder}/{job.rounds}")
    measured = "Flink's net run time: reading CSV, joining, writing CSV; a run before it warms the JVM up"
    return Said(seconds[1:], job.rows, count, checksum, measured, __version__)


if __name__ == "__main__":
    answer_to(work)

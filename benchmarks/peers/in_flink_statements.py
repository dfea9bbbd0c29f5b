"""Flink: all statements in one statement set, so that the streams are read and parsed once for all of them.

The seconds are the net run time that Flink says of the job, less that of one that reads the same lines and keeps none,
so neither the start of the JVM, nor planning, nor parsing is in them. The one that reads runs twice: the first time
warms the JVM up.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyflink.common import Configuration  # type: ignore[import-not-found, unused-ignore]
from pyflink.table import EnvironmentSettings, TableEnvironment  # type: ignore[import-not-found, unused-ignore]
from pyflink.version import __version__  # type: ignore[import-not-found, unused-ignore]

from benchmarks.peers.in_flink import SETTINGS
from benchmarks.peers.statements import Answered, Asked

STREAMS = {
    "s": "k INT, code INT, b BIGINT, x DOUBLE, y DOUBLE, t STRING, flag BOOLEAN",
    "e": "k INT, level INT",
}
STREAM = """
CREATE TABLE {name} ({columns}, ms BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'file://{path}', 'format' = 'csv', 'csv.null-literal' = '')
"""
TYPES = {
    "k": "INT", "x": "DOUBLE", "y": "DOUBLE", "t": "STRING", "ts": "TIMESTAMP_LTZ(3)", "n": "BIGINT", "level": "INT"
}  # fmt: skip


def work(asked: Asked) -> Answered:
    with tempfile.TemporaryDirectory(prefix="peer-") as folder:
        flink = _environment(asked, Path(folder))
        nothing = ["SELECT k, x, ts FROM s WHERE k < 0 AND x + y < 0 AND b < 0 AND code < 0 AND t = '' AND NOT flag"]
        reading = [_run(flink, nothing, Path(folder, name)) for name in ("warm_up", "reading")][-1]
        statements = asked.statements("flink")
        seconds = _run(flink, statements, Path(folder, "answers"))
        counts = [_count(Path(folder, "answers", str(number)), text) for number, text in enumerate(statements)]
    notes = {"seconds of reading alone": reading}
    return Answered(seconds - reading, asked.rows, counts, __version__, notes)


def _environment(asked: Asked, folder: Path) -> Any:
    configuration = Configuration()
    for name, value in {**SETTINGS, "parallelism.default": str(asked.threads)}.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    flink = TableEnvironment.create(settings)
    for (name, columns), rows in zip(STREAMS.items(), (asked.rows, asked.few_rows), strict=True):
        lines = asked.file(f"{name}.csv").read_text(encoding="utf-8").splitlines(keepends=True)
        path = folder / f"{name}.csv"
        path.write_text("".join(lines[:rows]), encoding="utf-8")
        flink.execute_sql(STREAM.format(name=name, columns=columns, path=path))
    return flink


def _run(flink: Any, statements: list[str], folder: Path) -> float:
    together = flink.create_statement_set()
    for number, text in enumerate(statements):
        columns = [column.split(" AS ")[-1].split(".")[-1].strip() for column in _selected(text)]
        declared = ", ".join(f"{column} {TYPES[column]}" for column in columns)
        name = f"{folder.name}_{number}"
        flink.execute_sql(
            f"CREATE TABLE {name} ({declared}) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{folder}/{number}', 'format' = 'csv')"
        )
        together.add_insert_sql(f"INSERT INTO {name} {text}")
    ran = together.execute()
    ran.wait()
    return float(ran.get_job_client().get_job_execution_result().result().get_net_runtime() / 1000)


def _selected(text: str) -> list[str]:
    """What stands between SELECT and FROM; the comma in a call is not between columns."""
    return text.removeprefix("SELECT ").partition(" FROM ")[0].replace("(x, 0.5)", "(x)").split(", ")


def _count(folder: Path, text: str) -> int:
    files = [file for file in folder.rglob("*") if file.is_file() and not file.name.startswith((".", "_"))]
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return sum(int(line.split(",")[0]) for line in lines) if "count(*)" in text else len(lines)


if __name__ == "__main__":
    print(json.dumps(asdict(work(Asked(**json.loads(sys.argv[1]))))), flush=True)

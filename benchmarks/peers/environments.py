"""Environments of the other engines, made on demand, and asking one of them.

An engine that cannot be installed or run is missing from the figures, with the reason; nothing is put in its place.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.harness import check, say
from benchmarks.peers import java, programs
from benchmarks.peers.job import Job, Said
from benchmarks.peers.programs import Missing
from benchmarks.window_join.data import Answer

FOLDER = Path.home() / ".cache" / "anabranch-peers"
REQUIREMENTS = Path(__file__).parent
OWN = "our own"
"""The environment of this very program, which has Spark."""
ENVIRONMENTS = {
    **dict.fromkeys(("flink", "flink_statements", "flink_nexmark"), "requirements-flink.txt"),
    "spark_statements": OWN,
    "duckdb_nexmark": OWN,
    "spark_nexmark": OWN,
    **dict.fromkeys(("polars_asof", "pandas_asof", "duckdb_asof", "rtree", "postgres"), "requirements-merge.txt"),
}
"""Of those who need another one; the others share `requirements.txt`."""
JAVA = frozenset({"esper"})
"""Programs in Java, each in a folder of its name."""
INSTALL_SECONDS = 1800
RUN_SECONDS = 900


class Peers:
    """The engines in `folder`; None: there are none, as in tests."""

    def __init__(self, folder: Path | None = FOLDER) -> None:
        self._folder = folder
        self._ready: dict[str, Path | Missing] = {OWN: Path(sys.executable)}
        self._built: dict[str, list[str] | Missing] = {}

    def ask(self, engine: str, job: Job, expected: Answer) -> Said | Missing:
        """A peer's time for a join, its answer checked."""
        found = self.run(engine, [json.dumps(asdict(job))])
        if isinstance(found, Missing):
            return found
        said = Said(**found)
        got = Answer(said.count, said.checksum)
        check(got == expected, f"{engine} answered {got}, not {expected}")
        say(f"{engine} {said.version}: {said.rows / min(said.seconds):,.0f} rows/s ({said.measured})")
        return said

    def run(self, engine: str, arguments: Sequence[str], seconds: float = RUN_SECONDS) -> dict[str, Any] | Missing:
        """What an engine's program says in JSON on the last line it prints."""
        if self._folder is None:
            return Missing("no peers were asked for")
        command = self._program(engine, self._folder)
        printed = command if isinstance(command, Missing) else programs.said([*command, *arguments], seconds)
        if isinstance(printed, Missing):
            return printed
        found: dict[str, Any] = json.loads(printed.splitlines()[-1])
        return found

    def _program(self, engine: str, folder: Path) -> list[str] | Missing:
        if engine in JAVA:
            if engine not in self._built:
                self._built[engine] = java.program(folder, engine)
            return self._built[engine]
        requirements = ENVIRONMENTS.get(engine, "requirements.txt")
        if requirements not in self._ready:
            self._ready[requirements] = _environment(folder, requirements)
        python = self._ready[requirements]
        return python if isinstance(python, Missing) else [str(python), "-m", f"benchmarks.peers.in_{engine}"]


def _environment(folder: Path, requirements: str) -> Path | Missing:
    """The Python of the environment with these requirements, installed if it is new or they have changed."""
    listed = REQUIREMENTS / requirements
    place = folder / sha256(listed.read_bytes() + sys.version.encode()).hexdigest()[:12]
    python, done = place / "bin" / "python", place / "installed"
    if done.exists():
        return python
    say(f"installing {requirements} in {place}")
    try:
        venv.create(place, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "-r", str(listed)]
        ran = programs.said(install, INSTALL_SECONDS)
    except (OSError, subprocess.SubprocessError) as problem:
        return Missing(f"could not install {requirements}: {problem}")
    if isinstance(ran, Missing):
        return Missing(f"could not install {requirements}: {ran.reason}")
    done.touch()
    return python


def write_files(folder: Path, tables: Sequence[pa.Table]) -> None:
    """The streams a and b as peers read them: Parquet, and lines of (k, v, t in ms) with and without their names."""
    folder.mkdir(parents=True)
    for name, table in zip("ab", tables, strict=True):
        parquet.write_table(table, folder / f"{name}.parquet")
        if "k" in table.column_names:
            milliseconds = table.column("ts").cast(pa.int64()).to_numpy() // 1000
            lines = table.select(["k", "v"]).append_column("t", [milliseconds])
            csv.write_csv(lines, folder / f"{name}.csv", csv.WriteOptions(include_header=True))
            csv.write_csv(lines, folder / f"{name}.lines", csv.WriteOptions(include_header=False))

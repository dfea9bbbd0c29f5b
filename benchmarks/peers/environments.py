"""Environments of the other engines, made on demand, and asking one of them for a join.

An engine that cannot be installed or run is missing from the figures, with the reason; nothing is put in its place.
"""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.harness import check, say
from benchmarks.peers.job import Job, Said
from benchmarks.window_join.data import Answer

FOLDER = Path.home() / ".cache" / "anabranch-peers"
REQUIREMENTS = Path(__file__).parent
ENVIRONMENTS = {
    "flink": "requirements-flink.txt",
    **dict.fromkeys(("polars_asof", "pandas_asof", "duckdb_asof", "rtree", "postgres"), "requirements-merge.txt"),
}
"""Of those who need another one; the others share `requirements.txt`."""
INSTALL_SECONDS = 1800
RUN_SECONDS = 900


@dataclass(frozen=True)
class Missing:
    """A peer that gave no figure."""

    reason: str


class Peers:
    """The engines in `folder`; None: there are none, as in tests."""

    def __init__(self, folder: Path | None = FOLDER) -> None:
        self._folder = folder
        self._ready: dict[str, Path | Missing] = {}

    def ask(self, engine: str, job: Job, expected: Answer) -> Said | Missing:
        """A peer's time for a join, its answer checked."""
        if self._folder is None:
            return Missing("no peers were asked for")
        requirements = ENVIRONMENTS.get(engine, "requirements.txt")
        if requirements not in self._ready:
            self._ready[requirements] = _environment(self._folder, requirements)
        python = self._ready[requirements]
        if isinstance(python, Missing):
            return python
        command = [str(python), "-m", f"benchmarks.peers.in_{engine}", json.dumps(asdict(job))]
        root = Path(__file__).parent.parent.parent
        try:
            ran = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Missing(f"it was not done after {RUN_SECONDS} s")
        if ran.returncode != 0:
            return Missing(_last_line(ran.stderr or ran.stdout))
        said = Said(**json.loads(ran.stdout.splitlines()[-1]))
        got = Answer(said.count, said.checksum)
        check(got == expected, f"{engine} answered {got}, not {expected}")
        say(f"{engine} {said.version}: {said.rows / min(said.seconds):,.0f} rows/s ({said.measured})")
        return said


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
        ran = subprocess.run(install, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError) as problem:
        return Missing(f"could not install {requirements}: {problem}")
    if ran.returncode != 0:
        return Missing(f"could not install {requirements}: {_last_line(ran.stderr)}")
    done.touch()
    return python


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


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

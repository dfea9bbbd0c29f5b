"""PostgreSQL's GiST index on its type `cube`, if it is installed: a cluster for this run only, on a socket of its own.

All range queries are one statement, so that neither a client nor a protocol is in the time. initdb refuses to be
run by root, who becomes `postgres` for it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pyarrow import csv, parquet

from benchmarks.peers.job import Job, Said, answer_to

SETTINGS = "-c listen_addresses= -c fsync=off -c shared_buffers=1GB -c work_mem=256MB -c jit=off -c max_wal_size=4GB"
BOX = "cube(ARRAY[{low}]::float8[], ARRAY[{high}]::float8[])"


class Cluster:
    """A cluster in a folder."""

    def __init__(self, folder: str) -> None:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        found = shutil.which("initdb") or (str(installed[-1]) if installed else None)
        if found is None:
            raise SystemExit("PostgreSQL is not installed")
        self._bin = Path(os.path.realpath(found)).parent
        self._folder = folder
        self._as = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self._as:
            shutil.chown(folder, "postgres")

    def __enter__(self) -> Cluster:
        self.run("initdb", "-D", f"{self._folder}/data", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = f"{SETTINGS} -k {self._folder}"
        self.run("pg_ctl", "-D", f"{self._folder}/data", "-o", options, "-l", f"{self._folder}/log", "-w", "start")
        return self

    def __exit__(self, *_: object) -> None:
        self.run("pg_ctl", "-D", f"{self._folder}/data", "-m", "immediate", "stop")

    def run(self, program: str, *arguments: str) -> str:
        command = [*self._as, str(self._bin / program), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=self._folder, check=False)
        if ran.returncode:
            raise SystemExit((ran.stderr or ran.stdout).strip().splitlines()[-1])
        return ran.stdout

    def sql(self, text: str) -> str:
        place = ("-h", self._folder, "-d", "postgres")
        return self.run("psql", *place, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text)

    def table(self, name: str, columns: Sequence[str], file: str) -> None:
        listed = ", ".join(f"{column} float8" for column in columns)
        path = f"{self._folder}/{name}.csv"
        csv.write_csv(parquet.read_table(file), path, csv.WriteOptions(include_header=False))
        os.chmod(path, 0o644)
        self.sql(f"CREATE TABLE {name}_read (id serial, {listed})")
        self.sql(f"\\copy {name}_read ({', '.join(columns)}) FROM '{path}' CSV")


def work(job: Job) -> Said:
    keys = parquet.read_schema(job.file("points.parquet")).names
    with tempfile.TemporaryDirectory(prefix="peer-") as folder, Cluster(folder) as cluster:
        for name in ("points", "lows", "highs"):
            cluster.table(name, keys, job.file(f"{name}.parquet"))
        cluster.sql("CREATE EXTENSION cube")
        point = BOX.format(low=", ".join(keys), high=", ".join(keys))
        cluster.sql(f"CREATE TABLE points AS SELECT id - 1 AS id, {point} AS at FROM points_read")
        box = BOX.format(low=", ".join(f"l.{k}" for k in keys), high=", ".join(f"h.{k}" for k in keys))
        cluster.sql(f"CREATE TABLE boxes AS SELECT {box} AS box FROM lows_read l JOIN highs_read h USING (id)")
        began = time.perf_counter()
        cluster.sql("CREATE INDEX by_place ON points USING gist (at)")
        made = time.perf_counter() - began
        cluster.sql("VACUUM ANALYZE points")
        ask = "SET enable_seqscan = off; SELECT count(*), sum(p.id) FROM boxes b JOIN points p ON p.at <@ b.box"
        seconds = []
        for _ in range(job.rounds + 1):
            began = time.perf_counter()
            said = cluster.sql(ask)
            seconds.append(time.perf_counter() - began)
        version = cluster.sql("SHOW server_version").split()[0]
    count, checksum = (int(part) for part in said.strip().split("|"))
    measured = f"range queries on a GiST index that was made in {made:.1f} s, all in one statement"
    return Said(seconds, job.rows, count, checksum, measured, version)


if __name__ == "__main__":
    answer_to(work)

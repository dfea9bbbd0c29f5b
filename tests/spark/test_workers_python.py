"""Workers of an embedded Spark are this Python with the path this process was given."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.spark.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_is_this_python_with_the_path_of_its_user(tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}/mine:{tmp_path}/other"}
    program = worker_python(env)
    said = subprocess.run(
        [program, "-c", "import sys; print(sys.executable); print(*sys.path[1:3], sep=':')"],
        env={**env, "PYTHONPATH": "/spark.zip:/spark.jar"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said == [sys.executable, env["PYTHONPATH"]]
    assert worker_python(env) == program


@pytest.mark.parametrize("said", [None, "system"])
def test_it_takes_memory_from_where_it_is_kept_for_a_while(said: str | None, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path), **({} if said is None else {"ARROW_DEFAULT_MEMORY_POOL": said})}
    look = "import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    ran = subprocess.run([worker_python(env), "-c", look], env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == (said or "jemalloc")


def test_without_a_place_for_a_script_it_is_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "anabranch"
    shared.mkdir()
    shared.chmod(0o777)
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setattr("tempfile.tempdir", str(file))
    assert worker_python({"XDG_CACHE_HOME": str(tmp_path)}) == sys.executable


def test_where_pyspark_is_not_installed_it_is_plain_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__file__", str(tmp_path / "spark" / "python" / "pyspark" / "__init__.py"))
    assert worker_python({"XDG_CACHE_HOME": str(tmp_path)}) == sys.executable


def test_no_worker_reads_pyspark_from_an_archive(spark: SparkSession) -> None:
    def look(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyspark

        for batch in batches:
            paths = [pyspark.__file__, *(path for path in sys.path if path.endswith((".zip", ".jar")))]
            yield pyarrow.RecordBatch.from_pydict({"path": [":".join(paths)] * batch.num_rows})

    paths = spark.range(0, 1, 1, 1).mapInArrow(look, "path STRING").toArrow()["path"][0].as_py().split(":")
    import pyspark

    assert paths[0] == pyspark.__file__
    assert [path for path in paths[1:] if "spark" in os.path.basename(path)] == []

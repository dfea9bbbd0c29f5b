"""Every `.slt` file in every way: without Spark, on Spark, and on Spark with the process killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.testing.slt import SPARK_WAYS, SPARKLESS_WAYS, File, Way, play_file, read
from anabranch.testing.slt.fleet import play_killed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
FILES = [read(path) for path in sorted(HERE.rglob("*.slt"))]
# Spark takes about a second to start a standing query: without SLT_ALL=1 the dear ways are for the files that ask.
ALL = os.environ.get("SLT_ALL", "") not in ("", "0")
KILLED = [file for file in FILES if ALL or "killed" in file.also]
KILLS, SEED = 2, 2001


def cases(ways: tuple[Way, ...]) -> list[object]:
    return [
        pytest.param(file, way, id=f"{file.name}-{way.name}") for way in ways for file in FILES if wanted(file, way)
    ]


def wanted(file: File, way: Way) -> bool:
    if not way.spark:
        return not file.needs_spark
    return ALL or way.name == "spark_straight" or way.name in file.also


@pytest.mark.parametrize(("file", "way"), cases(SPARKLESS_WAYS))
def test_without_spark(file: File, way: Way, tmp_path: Path) -> None:
    play_file(file, way, tmp_path / "db")


@pytest.mark.parametrize(("file", "way"), cases(SPARK_WAYS))
def test_on_spark(file: File, way: Way, tmp_path: Path, spark: SparkSession) -> None:
    play_file(file, way, tmp_path / "db")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseException | None]:
    """What became of the files that were played side by side in a process that was killed."""
    return dict(play_killed(KILLED, tmp_path_factory.mktemp("killed"), kills=KILLS, seed=SEED))


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", [file.name for file in KILLED])
def test_killed_and_resumed(name: str, killed: dict[str, BaseException | None]) -> None:
    problem = killed[name]
    if problem is not None:
        raise problem


def test_files_are_named_after_their_path() -> None:
    assert {file.header["name"] for file in FILES} == {str(Path(file.path).relative_to(HERE)) for file in FILES}
    assert {file.header["group"] for file in FILES} == {file.name.split("/")[0] for file in FILES}
    assert len(FILES) >= 25
    assert {way for file in FILES for way in file.also} <= {"killed", *(way.name for way in SPARK_WAYS)}

"""Every `.slt` file in every way: without Spark, on Spark, and on Spark with the process or a part of it killed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from anabranch.testing.slt import SPARK_WAYS, SPARKLESS_WAYS, File, Way, play_file, read
from anabranch.testing.slt.fleet import KILLED_WAYS, play_killed
from tests.sampling import ALL, SEED, sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).parent
FILES = [read(path) for path in sorted(HERE.rglob("*.slt"))]
# Without Spark every file is played in every way. Spark takes two seconds of a processor to start a standing query:
# there part of the files with few of them is played, and the dear ways are for some of those that ask, unless all is
# tested.
FEW = 4


def has_few(file: File) -> bool:
    return ALL or Path(file.path).read_text(encoding="utf-8").count("CREATE CONTINUOUS QUERY") <= FEW


ON_SPARK = [
    *(file for file in FILES if file.needs_spark),
    *sampled(
        (file for file in FILES if not file.needs_spark and has_few(file)),
        1,
        "spark",
        group=lambda file: file.header["group"],
    ),
]


def played(way: str, most: int) -> list[File]:
    """The files that are played in one of the dear ways."""
    return FILES if ALL else sampled([file for file in FILES if way in file.also and has_few(file)], most, way)


KILLED = {way: played(way, 1) for way in KILLED_WAYS}
ALSO = {way.name: played(way.name, 1) for way in SPARK_WAYS}


def cases(ways: tuple[Way, ...]) -> list[object]:
    return [
        pytest.param(file, way, id=f"{file.name}-{way.name}", marks=() if way.name == "straight" else pytest.mark.slow)
        for way in ways
        for file in FILES
        if wanted(file, way)
    ]


def wanted(file: File, way: Way) -> bool:
    if not way.spark:
        return not file.needs_spark
    return file in (ON_SPARK if way.name == "spark_straight" else ALSO[way.name])


@pytest.mark.parametrize(("file", "way"), cases(SPARKLESS_WAYS))
def test_without_spark(file: File, way: Way, tmp_path: Path) -> None:
    play_file(file, way, tmp_path / "db")


@pytest.mark.parametrize(("file", "way"), cases(SPARK_WAYS))
def test_on_spark(file: File, way: Way, tmp_path: Path, spark: SparkSession) -> None:
    play_file(file, way, tmp_path / "db")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, BaseException | None]]:
    """What became of the files that were played side by side in a process of which something was killed, by way."""

    @functools.cache
    def played(way: str) -> dict[str, BaseException | None]:
        return dict(play_killed(KILLED[way], tmp_path_factory.mktemp(way), way=way, seed=SEED))

    return played


@pytest.mark.long  # `tests.chaos` kills the process, too, and `tests/spark/test_engine_lost.py` parts of it
@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.xdist_group("killed")  # they are played side by side in one process
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("way", "name"),
    [pytest.param(way, file.name) for way in KILLED for file in KILLED[way]],
)
def test_killed_and_resumed(way: str, name: str, outcomes: Callable[[str], dict[str, BaseException | None]]) -> None:
    problem = outcomes(way)[name]
    if problem is not None:
        raise problem


def test_files_are_named_after_their_path() -> None:
    assert {file.header["name"] for file in FILES} == {str(Path(file.path).relative_to(HERE)) for file in FILES}
    assert {file.header["group"] for file in FILES} == {file.name.split("/")[0] for file in FILES}
    assert len(FILES) >= 25
    assert {way for file in FILES for way in file.also} <= {*KILLED_WAYS, *(way.name for way in SPARK_WAYS)}

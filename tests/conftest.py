"""What all tests share: one Spark session, one way to generate examples, nothing left behind."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from anabranch.archive import declaration
from tests import sampling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_report_header() -> str:
    how = "every case, fresh seeds" if sampling.ALL else "part of the long tails"
    return f"tests: {how}; ANABRANCH_SEED={sampling.SEED}"


@pytest.hookimpl(tryfirst=True)  # before groups become parts of names
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test that takes the shared session is a Spark test, whether or not it says so; one process runs all of them."""
    if not sampling.ALL:
        left_out = [item for item in items if item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if sampling.QUICK:
        kept = set(sampling.sampled(items, 1, "quick", lambda item: item.nodeid.partition("[")[0]))
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = [item for item in items if item in kept]
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            item.add_marker(pytest.mark.xdist_group("spark"))
    # What takes a minute must not begin when everything else is over.
    items.sort(key=lambda item: not (item.get_closest_marker("chaos") or item.get_closest_marker("spark")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Archives deal their rows as they did the last time: bounds hold in 95 of 100 cases, and tests in all."""
    declaration.seeds = random.Random(f"{item.path.name} {item.name}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session the whole test run shares: an embedded database opened meanwhile uses the same Spark."""
    from anabranch.settings import Settings
    from anabranch.spark.session import Session

    session = Session(Settings(), str(tmp_path_factory.mktemp("spark") / "spark.log"))
    yield session.spark
    session.close()

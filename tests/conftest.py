"""What all tests share: one Spark session, one way to generate examples, nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A busy machine must not fail a test, and the same commit must get the same verdict twice:
# no deadlines, examples from a fixed seed. `HYPOTHESIS_PROFILE=search` looks further.
_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET)
settings.register_profile("search", deadline=None, max_examples=2000, database=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that takes the shared session is a Spark test, whether or not it says so."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session the whole test run shares: an embedded database opened meanwhile uses the same Spark."""
    from anabranch.settings import Settings
    from anabranch.spark.session import Session

    session = Session(Settings(), str(tmp_path_factory.mktemp("spark") / "spark.log"))
    yield session.spark
    session.close()

"""Small tasks on Spark, which plans in a process of its own.

Apart from `small_tasks`, because importing it loads pyspark.
"""

from __future__ import annotations

from typing import Any

from anabranch.database import Database
from anabranch.engine.protocol import Engine
from anabranch.spark.engine import SparkEngine
from anabranch.spark.session import register
from anabranch.spark.source import AnabranchSource
from anabranch.testing.slt.small_tasks import lower_limits


class SmallTasksSource(AnabranchSource):
    """The source of `anabranch.spark.source`; whoever plans with it lowers the limits first."""

    @classmethod
    def name(cls) -> str:
        return f"{super().name()}_small_tasks"

    def reader(self, schema: Any) -> Any:
        lower_limits()
        return super().reader(schema)

    def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
        lower_limits()
        return super().streamReader(schema)


class SmallTasksDatabase(Database):
    """A database whose micro-batches are cut into as many tasks as are allowed."""

    def _open_engine(self) -> Engine:
        engine = super()._open_engine()
        assert isinstance(engine, SparkEngine)
        register(engine.spark, SmallTasksSource)
        engine.format = SmallTasksSource.name()
        return engine

"""The parallel way is worth its name: few rows become several tasks, with Spark and without."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from anabranch.operators import select
from anabranch.testing.slt.small_tasks import small_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_limits_are_put_back() -> None:
    before = select.ROWS_PER_TASK
    with small_tasks():
        assert select.ROWS_PER_TASK == 1
    assert select.ROWS_PER_TASK == before > 1


def test_spark_gets_three_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    from anabranch.spark import engine
    from anabranch.spark.staging import unseal
    from anabranch.testing.slt.small_tasks_source import SmallTasksDatabase

    tasks: list[int] = []

    def counted(envelopes: Any, *rest: Any) -> Any:
        tasks.append(envelopes.num_rows)
        return unseal(envelopes, *rest)

    monkeypatch.setattr(engine, "unseal", counted)
    with SmallTasksDatabase(tmp_path / "db", settings={"parallelism": 3, "warm_up": 0}) as db:
        db.sql("CREATE STREAM s (v INT)")
        db.append("s", {"v": list(range(9))})
        query = db.query("SELECT v FROM s", name="q").wait(120)
        assert query.table().column("v").to_pylist() == list(range(9))
    assert max(tasks) == 3

"""Standing queries run in the order in which their micro-batches came; what is asked once has a share of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anabranch as ab


def test_questions_have_a_pool_of_their_own_beside_that_of_standing_queries(spark: Any, tmp_path: Path) -> None:
    context = spark.sparkContext._jsc.sc()
    modes = {name: context.getPoolForName(name).get().schedulingMode().toString() for name in ("default", "questions")}
    assert modes == {"default": "FIFO", "questions": "FAIR"}
    with ab.open(tmp_path / "river") as db:
        db.sql("CREATE STREAM s (n BIGINT)")
        engine = db.engine()

        def asked() -> str | None:
            assert engine.collect(engine.sql_once("SELECT 1 AS one", {}), 0).num_rows == 1
            pool: str | None = spark.sparkContext.getLocalProperty("spark.scheduler.pool")
            return pool

        assert engine.ask(asked) == "questions"
        assert spark.sparkContext.getLocalProperty("spark.scheduler.pool") is None

"""Where a DataFrame is planned, time goes on for the streams whose rows we stamp."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql.streaming.datasource import ReadMaxRows

import anabranch
from anabranch.engine.options import SourceOptions, ddl
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Offset
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.spark.source import StreamingReader


def reader_over(root: Path, window: int) -> StreamingReader:
    operator = WindowAggregate(
        "l", "time", window, window, (), (("n", "count", None),), (("n", "n"), ("_time", "_time")), "_time"
    )
    with anabranch.open(root, queries=False) as db:
        db.sql("CREATE STREAM l (x INT)")
        db.append("l", [{"x": 1}])
        schema = ddl(operator.schema(Inputs({"l": db.reader("l")})))
        streams = {"l": db.catalog.stream_storage("l").address}
    return StreamingReader(SourceOptions(operator.to_json(), streams, schema, poll_ms=0, claims_time=True))


def test_time_is_claimed_when_a_window_ends_and_not_again(tmp_path: Path) -> None:
    reader = reader_over(tmp_path / "db", 300_000)
    at = reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    row = Offset(*at["l"])
    end = (row.time // 300_000 + 1) * 300_000
    while (then := reader.latestOffset(at, ReadMaxRows(10))) == at:
        assert time.time() < row.time / 1e6 + 30
        time.sleep(0.005)
    assert Offset(*then["l"]).row == row.row
    assert end <= Offset(*then["l"]).time <= time.time() * 1e6
    time.sleep(0.35)
    assert reader.latestOffset(then, ReadMaxRows(10)) == then  # nothing is left to answer

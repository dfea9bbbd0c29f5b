"""Where one stream has more than a micro-batch takes, the others go no further in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadMaxRows

import anabranch
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.offset import Offset
from anabranch.schema import TIME_TYPE
from anabranch.spark.source import StreamingReader, open_reader

BEGIN = 1_767_225_600_000_000
JOIN = WindowJoin(
    (("F", "fast", None), ("S", "slow", None)), "time", ((0, 1, -5, 5),), ("`F.v` = `S.v`",),
    (("v", "`F.v`"), ("_time", "_time")), "_time",
)  # fmt: skip


def reader_of(root: Path, fast: int, slow: int) -> StreamingReader:
    """Two streams of a thousand µs: one with a row every µs or so, one with few."""
    with anabranch.open(root, queries=False) as db:
        for name, count in (("fast", fast), ("slow", slow)):
            db.sql(f"CREATE STREAM {name} (v INT, ts TIMESTAMP) TIMESTAMP BY ts")
            times = BEGIN + np.linspace(0, 1_000, count).astype(np.int64)
            db.append(name, pa.table({"v": np.arange(count, dtype=np.int32), "ts": pa.array(times).cast(TIME_TYPE)}))
        return StreamingReader(db_options(db))


def db_options(db: Any) -> Any:
    from anabranch.engine.options import SourceOptions, ddl
    from anabranch.operators.base import Inputs

    storages = {name: db.catalog.stream_storage(name) for name in JOIN.inputs}
    schema = JOIN.schema(Inputs({name: db.reader(name) for name in JOIN.inputs}))
    addresses = {name: storage.address for name, storage in storages.items()}
    return SourceOptions(operator=JOIN.to_json(), streams=addresses, spark_schema=ddl(schema), poll_ms=0)


def offsets(reader: StreamingReader, most: int) -> list[dict[str, Offset]]:
    """All micro-batches until the streams are taken in."""
    found: list[dict[str, Offset]] = []
    at = reader.initialOffset()
    while True:
        end = reader.latestOffset(at, ReadMaxRows(most))
        if end == at:
            return found
        at = end
        found.append({name: Offset(*offset) for name, offset in end.items()})


def test_streams_go_on_together(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, fast=1_000, slow=100)
    found = offsets(reader, most=100)
    assert [each["fast"].row for each in found] == list(range(100, 1_001, 100))
    for each in found[:-1]:
        assert each["slow"].time <= each["fast"].time
        # and not a row less: the next row of the slow stream is later
        assert each["slow"].row == open_reader(reader._options.streams["slow"], reader._options.access).row_at_time(
            each["fast"].time + 1, 100
        )
    assert found[-1]["slow"].row == 100


def test_a_stream_that_is_ahead_already_waits(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, fast=1_000, slow=100)
    ahead = {"fast": [0, BEGIN], "slow": [90, BEGIN + 900]}
    end = reader.latestOffset(ahead, ReadMaxRows(100))
    assert end["slow"] == [90, BEGIN + 900, 1, 1.0]
    assert end["fast"][0] == 100


def test_one_that_has_no_more_does_not_hold_the_other_back(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, fast=1_000, slow=2)
    assert [each["fast"].row for each in offsets(reader, most=400)] == [400, 800, 1_000]

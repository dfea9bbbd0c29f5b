"""A standing query fills the same summaries that are made from rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.archive.summaries.eager import EagerSummaries, eager_select, eager_shape, summaries_of_answer
from anabranch.archive.summaries.reads import summaries_for
from anabranch.archive.summaries.rollups import Shape, summarise
from anabranch.schema import StreamSchema
from anabranch.testing.sparkless import SparklessDatabase

from .rollup_oracle import SCHEMA, check, some_rows


def test_standing_query_fills_the_same_summaries(tmp_path: Path) -> None:
    rows = some_rows(24, 600, span=10_000_000, start=0)
    shape = eager_shape(SCHEMA, 1_000_000, ["k"])
    assert shape.values == ("g", "i", "b", "d", "m")
    db = SparklessDatabase(tmp_path / "db")
    with db:
        columns = ", ".join(f"{name} {type_}" for name, type_ in SCHEMA.to_json()["columns"])
        db.sql(f"CREATE STREAM s ({columns}) TIMESTAMP BY ts")
        db.sql(f"CREATE STREAM copy AS {eager_select('s', SCHEMA, shape.every, shape.keys)}")
        for at in range(0, 600, 150):
            db.append("s", rows.slice(at, 150))
            db.catch_up()
        stream, copy = db.reader("s"), db.reader("copy")
        copied = summaries_of_answer(copy.read(copy.first_row(), copy.end().row), shape)
        closed = summarise(rows, "ts", shape.every, shape.keys, shape.values)
        closed = closed.filter(pc.less_equal(closed.column("window_end"), rows.column("ts")[-1]))
        assert copied.schema == closed.schema
        assert repr(copied.to_pydict()) == repr(closed.to_pydict())

        eager = EagerSummaries(copy, shape)
        assert eager.covered(shape) == [(0, 9_000_000)]
        wanted = Shape(2_000_000, (), ("b", "d"))
        found = summaries_for(stream, 500_000, 9_500_000, wanted, stream.end(), None, [eager])
        check(found.table, wanted, rows, 500_000, 9_500_000)
        times = rows.column("ts").cast(pa.int64()).to_numpy()
        edges = ((times >= 500_000) & (times < 1_000_000)) | ((times >= 9_000_000) & (times < 9_500_000))
        assert found.rows_read == edges.sum()
        late = EagerSummaries(copy, shape, since=2_500_000)
        assert late.covered(shape) == [(3_000_000, 9_000_000)]
        assert late.covered(wanted) == []


def test_standing_query_may_have_no_keys_and_odd_names(tmp_path: Path) -> None:
    schema = StreamSchema.of({"rows": "INT", "a `b`": "BIGINT", "order": "FLOAT", "ts": "TIMESTAMP"}, time="ts")
    times = np.arange(0, 5_000_000, 400_000)
    rows = pa.table(
        {
            "rows": pa.array(np.arange(len(times)) % 2, pa.int32()),
            "a `b`": np.full(len(times), 2**62),
            "order": pa.array(times / 7, pa.float32()),
            "ts": pa.array(times).view(pa.timestamp("us", "UTC")),
        }
    )
    db = SparklessDatabase(tmp_path / "db")
    with db:
        db.sql("CREATE STREAM s (rows INT, `a ``b``` BIGINT, `order` FLOAT, ts TIMESTAMP) TIMESTAMP BY ts")
        for name, keys in [("one", []), ("two", ["rows"])]:
            db.sql(f"CREATE STREAM {name} AS {eager_select('s', schema, 1_000_000, keys)}")
        db.append("s", rows)
        db.catch_up()
        for name, keys in [("one", []), ("two", ["rows"])]:
            shape = eager_shape(schema, 1_000_000, keys)
            reader = db.reader(name)
            copied = summaries_of_answer(reader.read(0, reader.end().row), shape)
            wanted = summarise(rows, "ts", shape.every, keys, shape.values)
            assert copied.to_pylist() == wanted.to_pylist()[: copied.num_rows]
            assert copied.num_rows >= 4

"""The events as files, for other engines: Parquet, and CSV with times in milliseconds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

from tests.nexmark.events import SCHEMAS, STREAMS, blocks, side_rows

_BARE = csv.WriteOptions(include_header=False, quoting_style="none")


def write(folder: Path, count: int, *, per_second: int) -> None:
    written = {name: parquet.ParquetWriter(folder / f"{name}.parquet", SCHEMAS[name]) for name in STREAMS}
    lines = {
        name: csv.CSVWriter(folder / f"{name}.csv", _in_lines(SCHEMAS[name]), write_options=_BARE) for name in STREAMS
    }
    for block in blocks(0, count, per_second=per_second):
        for name in STREAMS:
            written[name].write_table(block.stream(name))
            lines[name].write_table(_milliseconds(block.stream(name)))
    for writer in (*written.values(), *lines.values()):
        writer.close()
    side = side_rows()
    parquet.write_table(side, folder / "side_input.parquet")
    csv.write_csv(side, folder / "side_input.csv", _BARE)


def _in_lines(schema: pa.Schema) -> pa.Schema:
    return pa.schema([(f.name, pa.int64() if pa.types.is_timestamp(f.type) else f.type) for f in schema])


def _milliseconds(rows: pa.Table) -> pa.Table:
    columns = [
        pc.divide(column.cast(pa.int64()), 1000) if pa.types.is_timestamp(column.type) else column
        for column in rows.columns
    ]
    return pa.Table.from_arrays(columns, schema=_in_lines(rows.schema))

"""Parquet files of runs: blocks as row groups, and reading some of them.

Numbers and times are packed as differences, which sorted ones make small. Bytes that are read are
counted here, since nobody else sees them.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.archive.declaration import ROW
from anabranch.archive.facts import ANYTHING, NOTHING, Ranges, from_text, to_text
from anabranch.archive.runs import Run, run_name
from anabranch.archive.table import Written, statistics
from anabranch.kernels.values import integers
from anabranch.log.storage import Storage

_BLOCKS = b"anabranch.blocks"
_RANGES = b"anabranch.ranges"
APART = -1
"""The number of the block with rows that lie far out: it is below all, so that every read of blocks has it."""
_KEPT_FOOTERS = 4096


def table_schema(stream: pa.Schema) -> pa.Schema:
    """The columns of an archive's table: those of the stream, and the number of each row."""
    return stream.append(pa.field(ROW, pa.int64()))


# -- writing ---------------------------------------------------------------------------------------


def write_run(
    storage: Storage,
    all_rows: pa.Table,
    blocks: Sequence[pa.Table],
    numbers: Sequence[int],
    *,
    rows: range,
    of: int,
    rate: float,
    time_column: str,
    compression: str,
    in_order: bool,
    ranges: Ranges,
) -> Written:
    """Write rows, cut into the blocks numbered `numbers` of `of`, as row groups of one file.

    `ranges` are those of all rows that are not in the block `APART`.
    """
    schema = all_rows.schema
    times = all_rows.column(time_column)
    low, high = (times[0].value, times[-1].value) if all_rows.num_rows else (0, 0)
    metadata = {_RANGES: to_text(ranges)}
    if list(numbers) != list(range(of)):
        metadata[_BLOCKS] = json.dumps(list(numbers)).encode()
    schema = schema.with_metadata(metadata)

    def write(sink: Any) -> None:
        with pq.ParquetWriter(
            sink, schema, **_encodings(schema, compression, [ROW, time_column] if in_order else False)
        ) as out:
            for block in blocks:
                out.write_table(block, row_group_size=max(block.num_rows, 1))

    sizes: list[int] = []

    def name(size: int, _: int) -> str:
        sizes.append(size)
        return run_name(rows.start, len(rows), of, rate, (low, high))

    path = storage.write(write, name)
    return Written(path, sizes[0], all_rows.num_rows, _statistics(all_rows, time_column))


def _encodings(schema: pa.Schema, compression: str, statistics: list[str] | bool) -> dict[str, Any]:
    packed = {
        field.name: "DELTA_BINARY_PACKED"
        for field in schema
        if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)
    }
    words = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_binary(f.type)]
    # What is packed does not get much smaller, and is read and written faster as it is.
    compressions = {field.name: "none" if field.name in packed else compression for field in schema}
    levels = {name: 1 for name, how in compressions.items() if how == "zstd"}
    return {
        "compression": compressions,
        "compression_level": levels or None,
        "use_dictionary": words,
        "column_encoding": packed,
        # Where rows are dealt every block has rows of all times, and ends of each would only make the footer large.
        "write_statistics": statistics,
        "write_page_checksum": True,
    }


def _statistics(rows: pa.Table, time_column: str) -> str:
    """The ends of numbers and times, so that other readers can pass files over; rows come in their order.

    Only of these two, which are never NULL: deltalake's datasets take a column without a least value in one
    file for one that no filter can match there.
    """
    try:
        least, most = ({name: _plain(rows.column(name)[at].as_py()) for name in (time_column, ROW)} for at in (0, -1))
    except (IndexError, OverflowError, ValueError):  # no rows, or times that no calendar has
        return statistics(rows.num_rows, {}, {}, {})
    return statistics(rows.num_rows, least, most, dict.fromkeys((time_column, ROW), 0))


def _plain(value: Any) -> Any:
    """A value as Delta writes it in JSON."""
    return value if isinstance(value, int) else value.isoformat(timespec="microseconds").replace("+00:00", "Z")


# -- reading ---------------------------------------------------------------------------------------


class Footers:
    """The footers of files that were opened, so that the next look costs nothing; files never change."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, path: str) -> pq.FileMetaData | None:
        with self._mutex:
            metadata = self._kept.get(path)
            if metadata is not None:
                self._kept.move_to_end(path)
            return metadata

    def put(self, path: str, footer: pq.FileMetaData) -> None:
        with self._mutex:
            self._kept[path] = footer
            if len(self._kept) > _KEPT_FOOTERS:
                self._kept.popitem(last=False)


FOOTERS = Footers()


class RunFile:
    """A file of a run, open for reading some of its blocks."""

    def __init__(self, storage: Storage, run: Run) -> None:
        path = storage.full(run.path)
        footer = FOOTERS.get(path)
        self._file = pq.ParquetFile(storage.open_file(run.path), metadata=footer, page_checksum_verification=True)
        self.bytes_read = 0
        if footer is None:
            FOOTERS.put(path, self._file.metadata)
            self.bytes_read += self._file.metadata.serialized_size + 8
        self._run = run

    def groups(self, blocks: int) -> list[int]:
        """The row groups that hold the blocks numbered below `blocks`."""
        metadata = self._file.metadata
        named = (metadata.metadata or {}).get(_BLOCKS)
        if named is None:
            return list(range(min(blocks, metadata.num_row_groups)))
        return [group for group, number in enumerate(json.loads(named)) if number < blocks]

    def apart(self) -> list[int]:
        """The row group of rows that lie far out, if there is one."""
        return self.groups(APART + 1)

    @property
    def has_facts(self) -> bool:
        """Whether the file says which rows lie far out, and between which values the others lie."""
        return _RANGES in (self._file.metadata.metadata or {})

    def ranges(self, columns: Sequence[str]) -> Ranges:
        """Between which values the other rows lie: nothing is known of files that do not say so."""
        said = (self._file.metadata.metadata or {}).get(_RANGES)
        known = {} if said is None else from_text(said)
        there = set(self._file.schema_arrow.names)
        # A column that is younger than the file has no values in it.
        return {name: known.get(name, ANYTHING) if name in there else NOTHING for name in columns}

    def read(self, groups: Sequence[int], columns: Sequence[str], schema: pa.Schema) -> pa.Table:
        """Those columns of the row groups; columns that are younger than the file are NULL."""
        there = [name for name in columns if name in self._file.schema_arrow.names]
        self.bytes_read += self.size(groups, there)
        table = self._file.read_row_groups(list(groups), columns=there or [ROW], use_threads=False)
        arrays = [
            table.column(name).cast(schema.field(name).type)
            if name in there
            else pa.chunked_array([pa.nulls(table.num_rows, schema.field(name).type)])
            for name in columns
        ]
        return pa.table(arrays, schema=pa.schema([schema.field(name) for name in columns]))

    def size(self, groups: Sequence[int], columns: Sequence[str]) -> int:
        """The bytes of those columns in the file."""
        metadata = self._file.metadata
        wanted = set(columns)
        total = 0
        if not groups:
            return 0
        first = metadata.row_group(groups[0])
        chosen = [i for i in range(first.num_columns) if first.column(i).path_in_schema.split(".")[0] in wanted]
        for group in groups:
            row_group = metadata.row_group(group)
            total += sum(row_group.column(i).total_compressed_size for i in chosen)
        return total

    def span(self, groups: Sequence[int], low: int, high: int) -> list[int]:
        """Those of the row groups whose rows may be numbered low ≤ n < high; for files in the order of rows."""
        metadata = self._file.metadata
        at = self._file.schema_arrow.names.index(ROW)
        chosen = []
        for group in groups:
            stats = metadata.row_group(group).column(at).statistics
            if stats is None or not stats.has_min_max or (stats.min < high and stats.max >= low):
                chosen.append(group)
        return chosen


def by_number(table: pa.Table, run: Run) -> pa.Table:
    """The rows in the order of their numbers."""
    numbers = integers(table.column(ROW))
    if len(numbers) < 2 or bool(np.all(numbers[1:] > numbers[:-1])):
        return table
    if len(numbers) * 64 > run.rows:  # each has its place among all rows of the run
        places = np.full(run.rows, -1, np.int64)
        places[numbers - run.first] = np.arange(len(numbers))
        order = places if len(numbers) == run.rows else places[places >= 0]
    else:
        order = np.argsort(numbers, kind="stable")
    return table.combine_chunks().take(pa.array(order))

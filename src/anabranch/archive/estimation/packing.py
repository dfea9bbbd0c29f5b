"""Several tables as one, so that they can be sent where one table is expected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

PACKED = pa.schema([pa.field("part", pa.string()), pa.field("data", pa.binary())])
"""The columns of packed tables: the name of each, and the table as an Arrow stream, in pieces if it is large."""

_ROWS_PER_PIECE = 1 << 20


def packed(tables: Iterable[tuple[str, pa.Table]]) -> pa.Table:
    """Named tables as one table.

    >>> [(name, t.to_pydict()) for name, t in unpacked(packed([("a", pa.table({"x": [1, 2]}))]))]
    [('a', {'x': [1, 2]})]
    """
    names, data = [], []
    for name, table in tables:
        for at in range(0, max(table.num_rows, 1), _ROWS_PER_PIECE):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.slice(at, _ROWS_PER_PIECE))
            names.append(name if at == 0 else "")
            data.append(sink.getvalue().to_pybytes())
    return pa.table([pa.array(names, pa.string()), pa.array(data, pa.binary())], schema=PACKED)


def unpacked(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The tables, in order."""
    name = ""
    pieces: list[pa.Table] = []
    for part, data in zip(table.column("part").to_pylist(), table.column("data"), strict=True):
        if part and pieces:
            yield name, pa.concat_tables(pieces)
            pieces = []
        name = part or name
        pieces.append(pa.ipc.open_stream(data.as_buffer()).read_all())
    if pieces:
        yield name, pa.concat_tables(pieces)

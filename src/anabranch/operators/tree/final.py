"""What is final of a tree: its rows as they stay, in the order of their time and then of all their columns.

The last columns of the tree's answer say when a row is answered, and nothing else; see `sql.trees.final`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import one_array
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.entering import ROW
from anabranch.operators.windows.ordering import ranks

AT = "answered at"
"""The column that is the time of a row of the answer: that of the row, or the end of the window, that it is of."""


def hidden(schema: pa.Schema) -> list[str]:
    """The columns of a tree that are not of the answer."""
    return [name for name in (AT, ROW) if name in schema.names]


def final_schema(rows: pa.Schema, columns: Sequence[str], time: str) -> pa.Schema:
    """The columns of the answer of a tree whose last node has columns `rows`."""
    named = [pa.field(name, rows.field(place).type) for place, name in enumerate(columns)]
    return pa.schema(named if time in columns else [*named, pa.field(time, rows.field(AT).type)])


def final_rows(changes: Changes, schema: pa.Schema, order: Sequence[tuple[int, bool, bool]] = ()) -> pa.Table:
    """Rows that come, as `schema` says; `order` are (place of a column, descending, NULLs first)."""
    assert (changes.weights > 0).all(), "a row that was final has gone"
    rows = changes.rows
    whole = list(range(rows.num_columns - len(hidden(rows.schema))))
    first = [rows.schema.get_field_index(name) for name in reversed(hidden(rows.schema))]
    keys = [*((place, False, True) for place in first), *order, *((place, False, True) for place in whole)]
    places = in_order(rows, keys)
    taken = rows.take(pa.array(np.repeat(places, changes.weights[places])))
    columns = [taken.column(place) for place in whole]
    return pa.Table.from_arrays(columns if len(schema) == len(whole) else [*columns, taken.column(AT)], schema=schema)


def in_order(rows: pa.Table, keys: Sequence[tuple[int, bool, bool]]) -> NDArray[np.int64]:
    """The order of rows by some of their columns, (place, descending, NULLs first)."""
    order = np.arange(rows.num_rows)
    for place, descending, nulls_first in reversed(keys):
        rank = ranks(one_array(rows.column(place)), descending, nulls_first)
        order = order[np.argsort(rank[order], kind="stable")]
    return order

"""What comes into a tree: rows of streams, changes of tables, and the answers of its parts.

A tree is told by the text of its nodes (`nodes.nodes_to_text`), by which what follows from it is remembered.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.values import integers
from anabranch.log.storage import Storage
from anabranch.operators import operator_from_json
from anabranch.operators.base import MIN_TIME, Inputs, Offset, Offsets, Operator
from anabranch.operators.table.states import state_of
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.flow import part_name
from anabranch.operators.tree.nodes import Expire, Part, Source, nodes_from_text
from anabranch.tables.changes import comes
from anabranch.tables.declaration import CHANGE

PARTS, STATES = "parts", "states"
"""In the scratch: what parts keep that can be computed again, and what cannot. The latter stays for each checkpoint."""
ROW = "row number"
"""As a column of a source: the number of its row."""


def with_row(schema: pa.Schema) -> pa.Schema:
    """The columns that a source of a stream can have."""
    return schema.append(pa.field(ROW, pa.int64()))


class Taken(NamedTuple):
    """Up to where it is taken in what comes: of each stream, and of those of each part, by the number of its node."""

    streams: dict[str, Offset]
    parts: dict[int, dict[str, Offset]]
    time: int
    """What steps are told to have reached."""


@functools.lru_cache(maxsize=4096)
def inputs_of(nodes: str) -> tuple[str, ...]:
    """The streams that a tree and its parts read."""
    parts = (name for part in parts_of(nodes).values() for name in part.inputs)
    return tuple(dict.fromkeys([*sources_of(nodes), *parts]))


@functools.lru_cache(maxsize=4096)
def sources_of(nodes: str) -> dict[str, tuple[str, list[str]]]:
    """Of each stream that is read as it is, in which form, and its columns that are wanted."""
    wanted: dict[str, tuple[str, list[str]]] = {}
    for node in nodes_from_text(nodes):
        if isinstance(node, Source):
            columns = wanted.setdefault(node.stream, (node.form, []))[1]
            columns += dict.fromkeys(column for _, column in node.columns if column not in columns)
    return wanted


@functools.lru_cache(maxsize=4096)
def parts_of(nodes: str) -> dict[int, Operator]:
    """The operators inside the tree, by the numbers of their nodes."""
    known = enumerate(nodes_from_text(nodes))
    return {number: operator_from_json(node.operator) for number, node in known if isinstance(node, Part)}


def rows_streams(nodes: str) -> list[str]:
    """The streams whose rows come and stay; others are tables, and so are feeds."""
    return [name for name, (form, _) in sources_of(nodes).items() if form == "rows"]


def of_part(part: Operator, at: Offsets) -> dict[str, Offset]:
    """The offsets of a part's streams."""
    return {name: at[name] for name in part.inputs}


def inputs_of_part(number: int, part: Operator, inputs: Inputs, *, again: bool = False) -> Inputs:
    """Those of the tree, with a folder of the part's own.

    What is of micro-batches does not help where rows are taken in `again`, as these are cut otherwise.
    """
    if inputs.scratch is None:
        return inputs
    folder = Storage(inputs.scratch).child(STATES if part.scratch_is_state else PARTS, str(number))
    return replace(inputs, scratch=None if again and not part.scratch_is_state else folder.address)


def all_of(nodes: str, at: Offsets, time: int) -> Taken:
    """All rows up to some offsets."""
    return Taken(dict(at), {number: of_part(part, at) for number, part in parts_of(nodes).items()}, time)


def at_time(time: int, at: Offsets, inputs: Inputs) -> dict[str, Offset]:
    """The offsets at which all streams have reached a time: rows that are older."""
    if time == MIN_TIME:
        return {name: Offset(inputs.readers[name].first_row(), MIN_TIME, at[name].every) for name in at}
    rows = {name: inputs.readers[name].row_at_time(time, at[name].row) for name in at}
    return {name: at[name]._replace(row=row, time=time) for name, row in rows.items()}


def entering(nodes: str, start: Taken, end: Taken, inputs: Inputs, *, again: bool = False) -> dict[str, Changes]:
    """What comes in between: of streams and tables by their names, of parts by their numbers."""
    return from_streams(nodes, start, end, inputs) | from_parts(nodes, start, end, inputs, again=again)


def from_streams(nodes: str, start: Taken, end: Taken, inputs: Inputs) -> dict[str, Changes]:
    """What comes in of streams and tables."""
    came: dict[str, Changes] = {}
    for stream, (form, columns) in sources_of(nodes).items():
        low, high = start.streams[stream].row, end.streams[stream].row
        if low < high:
            wanted = [*([CHANGE] if form == "changes" else []), *(name for name in columns if name != ROW)]
            rows = inputs.readers[stream].read(low, high, wanted)
            inputs.work.rows_read += high - low
            inputs.work.bytes_read += rows.nbytes
            if ROW in columns:
                rows = rows.append_column(ROW, pa.array(np.arange(low, high)))
            came[stream] = _as_changes(rows, form)
    return came


def from_parts(nodes: str, start: Taken, end: Taken, inputs: Inputs, *, again: bool = False) -> dict[str, Changes]:
    """What comes in of parts."""
    came: dict[str, Changes] = {}
    for number, part in parts_of(nodes).items():
        own = inputs_of_part(number, part, inputs, again=again)
        tasks = part.plan(start.parts[number], end.parts[number], own, 1)
        batches = [batch for task in tasks for batch in part.run(task, own)]
        if batches:
            came[part_name(number)] = Changes.of(part.gather(pa.Table.from_batches(batches)))
    return came


def _as_changes(rows: pa.Table, form: str) -> Changes:
    """Rows of a log as changes; those of a table's changes are what came or went."""
    if form != "changes":
        return Changes.of(rows)
    weights = np.where(comes(rows), 1, -1).astype(np.int64)
    return Changes(rows.drop_columns([CHANGE]).combine_chunks(), weights)


def rows_of_tables(nodes: str, at: Offsets, inputs: Inputs) -> dict[str, Changes]:
    """The rows that tables have at some offsets, as rows that come."""
    return {
        name: Changes.of(state_of(inputs.readers[name], at[name].row).table.select(columns))
        for name, (form, columns) in sources_of(nodes).items()
        if form == "changes" and at[name].row
    }


def times_of_parts(nodes: str) -> dict[str, str]:
    """Of each part with a window its name among streams, and the column that is the time of its answers."""
    parts = parts_of(nodes).items()
    return {part_name(number): part.time for number, part in parts if part.answers_of_windows is not None}


def least_stay(nodes: str) -> int:
    """How long (µs) all that expires counts at least."""
    return min((node.after for node in nodes_from_text(nodes) if isinstance(node, Expire)), default=0)


def window_by_window(
    came: dict[str, Changes], times_of: dict[str, str], end: int, stays: int
) -> Iterator[tuple[int, dict[str, Changes]]]:
    """What came, as it is taken in: answers of windows one window after the other, and what is no answer first of all.

    So what is combined of windows is answered for each of them, however many are over at once. Windows of which nothing
    goes before the last of them is over (`stays`) are taken in together.
    """
    stamped = {name: integers(came[name].rows.column(column)) for name, column in times_of.items() if name in came}
    moments = np.unique(np.concatenate([np.zeros(0, np.int64), *stamped.values()]))
    others = {name: changes for name, changes in came.items() if name not in stamped}
    begin = 0
    while begin < len(moments):
        after = int(np.searchsorted(moments, moments[begin] + stays, "right"))
        first, last = int(moments[begin]), int(moments[after - 1])
        some = {
            name: changes.filter(_between(stamped[name], first, last))
            for name, changes in came.items()
            if name in stamped
        }
        yield last, {**others, **some}
        others, begin = {}, after
    if others or not len(moments) or moments[-1] < end:
        yield end, others


def _between(times: NDArray[np.int64], first: int, last: int) -> NDArray[np.bool_]:
    return (times >= first) & (times <= last)

"""The operators: one file each, one contract (`base`), one table that lists them."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.operators.base import Operator

OPERATORS: dict[str, str] = {
    "archive_aggregate": ".archive.aggregate:ArchiveAggregate",
    "archive_scan": ".archive.scan:ArchiveScan",
    "archive_write": ".archive.write:ArchiveWrite",
    "history_join": ".history.join:HistoryJoin",
    "history_join_aggregate": ".history.join_aggregate:HistoryJoinAggregate",
    "landmark": ".history.landmark:Landmark",
    "last_rows": ".windows.last_rows:LastRows",
    "merge": ".merge.operator:Merge",
    "outer_join": ".join.outer:OuterJoin",
    "range_merge": ".merge.range_operator:RangeMerge",
    "session_aggregate": ".windows.sessions:SessionAggregate",
    "select": ".select:SelectRows",
    "table_join": ".table.join:TableJoin",
    "table_scan": ".table.scan:TableScan",
    "together": ".together.together:Together",
    "tree": ".tree.operator:Tree",
    "tree_of_rows": ".tree.of_rows:TreeOfRows",
    "tree_of_windows": ".tree.of_windows:TreeOfWindows",
    "unnest": ".unnest:UnnestRows",
    "whole": ".whole:Whole",
    "window_aggregate": ".windows.aggregate:WindowAggregate",
    "window_changes": ".windows.changes:WindowChanges",
    "window_combination": ".join.combination:WindowCombination",
    "window_join": ".join.operator:WindowJoin",
    "window_join_aggregate": ".join.aggregate:WindowJoinAggregate",
    "window_rows": ".windows.rows:WindowRows",
    "window_set_operation": ".windows.sets:WindowSetOperation",
}
"""Every operator there is, by the name it has in JSON: its module (a dot: in this folder) and class.

Loaded when first met: each of Spark's Python processes runs few of them, and importing all takes a fifth of a second.
"""


@functools.cache
def operator_class(kind: str) -> type[Operator]:
    """The class of the operators of a kind.

    >>> operator_class("select")
    <class 'anabranch.operators.select.SelectRows'>
    """
    module, name = OPERATORS[kind].split(":")
    operator: type[Operator] = getattr(importlib.import_module(module, __name__), name)
    return operator


def operator_from_json(data: dict[str, Any]) -> Operator:
    """The operator that `Operator.to_json` wrote down.

    >>> operator_from_json({"kind": "select", "stream": "s", "columns": [["a", "a"]], "time": "a", "filter": None})
    SelectRows(stream='s', columns=(('a', 'a'),), time='a', filter=None)
    """
    fields = {name: _from_json(value) for name, value in data.items() if name != "kind"}
    return operator_class(data["kind"])(**fields)


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return operator_from_json(value)
    return tuple(_from_json(v) for v in value) if isinstance(value, list | tuple) else value

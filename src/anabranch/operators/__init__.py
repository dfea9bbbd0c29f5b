"""The operators: one file each, one contract (`base`), one table that lists them."""

from __future__ import annotations

from typing import Any

from anabranch.operators.archive_aggregate import ArchiveAggregate
from anabranch.operators.archive_scan import ArchiveScan
from anabranch.operators.archive_write import ArchiveWrite
from anabranch.operators.base import Operator
from anabranch.operators.history_join import HistoryJoin
from anabranch.operators.history_join_aggregate import HistoryJoinAggregate
from anabranch.operators.landmark import Landmark
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.operators.select import Select
from anabranch.operators.window_aggregate import WindowAggregate
from anabranch.operators.window_changes import WindowChanges
from anabranch.operators.window_combination import WindowCombination
from anabranch.operators.window_join import WindowJoin
from anabranch.operators.window_join_aggregate import WindowJoinAggregate
from anabranch.operators.window_rows import WindowRows
from anabranch.operators.window_sets import WindowSetOperation

OPERATORS: dict[str, type[Operator]] = {
    "archive_aggregate": ArchiveAggregate,
    "archive_scan": ArchiveScan,
    "archive_write": ArchiveWrite,
    "history_join": HistoryJoin,
    "history_join_aggregate": HistoryJoinAggregate,
    "landmark": Landmark,
    "merge": Merge,
    "range_merge": RangeMerge,
    "select": Select,
    "window_aggregate": WindowAggregate,
    "window_changes": WindowChanges,
    "window_combination": WindowCombination,
    "window_join": WindowJoin,
    "window_join_aggregate": WindowJoinAggregate,
    "window_rows": WindowRows,
    "window_set_operation": WindowSetOperation,
}
"""Every operator there is, by the name it has in JSON."""


def operator_from_json(data: dict[str, Any]) -> Operator:
    """The operator that `Operator.to_json` wrote down.

    >>> operator_from_json({"kind": "select", "stream": "s", "columns": [["a", "a"]], "time": "a", "filter": None})
    Select(stream='s', columns=(('a', 'a'),), time='a', filter=None)
    """
    fields = {name: _from_json(value) for name, value in data.items() if name != "kind"}
    return OPERATORS[data["kind"]](**fields)


def _from_json(value: Any) -> Any:
    if isinstance(value, dict) and "kind" in value:
        return operator_from_json(value)
    return tuple(_from_json(v) for v in value) if isinstance(value, list | tuple) else value

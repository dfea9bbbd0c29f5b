"""The operators: one file each, one contract (`base`), one table that lists them."""

from __future__ import annotations

from typing import Any

from anabranch.operators.base import Operator
from anabranch.operators.select import Select
from anabranch.operators.window_aggregate import WindowAggregate

OPERATORS: dict[str, type[Operator]] = {
    "select": Select,
    "window_aggregate": WindowAggregate,
}
"""Every operator there is, by the name it has in JSON."""


def operator_from_json(data: dict[str, Any]) -> Operator:
    """The operator that `Operator.to_json` wrote down.

    >>> operator_from_json({"kind": "select", "stream": "s", "columns": [["a", "a"]], "time": "a", "filter": None})
    Select(stream='s', columns=(('a', 'a'),), time='a', filter=None)
    """
    fields = {name: _tuples(value) for name, value in data.items() if name != "kind"}
    return OPERATORS[data["kind"]](**fields)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list | tuple) else value

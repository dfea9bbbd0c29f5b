"""A tree as people read it: its nodes from the answer down, numbered, with what each reads and computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.operators.tree.nodes import (
    Aggregate,
    Call,
    Expire,
    Join,
    Latest,
    Node,
    Part,
    Ranked,
    Rows,
    SetOperation,
    Source,
    Top,
    Union,
    Unnest,
)


def explain_tree(
    nodes: Sequence[Node], bounds: Mapping[int, str] | None = None, why: Mapping[int, str] | None = None
) -> str:
    """An indented list, a node below the one that reads it; what is read twice is shown once.

    `bounds` say what bounds what a node keeps, `why` how it goes on when something changes.
    """
    lines: list[str] = []
    shown: set[int] = set()

    def show(number: int, depth: int) -> None:
        again = number in shown
        said = f"{nodes[number].kind} as above" if again else described(nodes[number])
        bound = f"  -- bounded by {bounds[number]}" if bounds and number in bounds and not again else ""
        lines.append("  " * depth + f"{number} {said}{bound}")
        if again:
            return
        if why and number in why:
            lines.append("  " * depth + f"  · {why[number]}")
        shown.add(number)
        for read in nodes[number].reads:
            show(read, depth + 1)

    show(len(nodes) - 1, 0)
    return "\n".join(lines)


def described(node: Node) -> str:
    """A node in one line."""
    if isinstance(node, Source):
        return f"{node.form} of {node.stream}: {_columns([(name, column) for name, column in node.columns])}"
    if isinstance(node, Part):
        return f"part {node.operator.get('kind', '')}: {_columns(node.columns)}".replace(" :", ":")
    if isinstance(node, Rows):
        where = f" where {node.where}" if node.where is not None else ""
        return f"rows: {_columns(node.columns)}{where}"
    if isinstance(node, Join):
        keys = ", ".join(f"{left} = {right}" for left, right in node.keys)
        condition = f" if {node.condition}" if node.condition is not None else ""
        kind, on = node.join.replace("_", " "), f" on {keys}" if keys else ""
        return f"{kind} join {node.left} with {node.right}{on}{condition}"
    if isinstance(node, Aggregate):
        keys = f" by {', '.join(node.keys)}" if node.keys else ""
        keep = f", the {node.keep} newest" if node.keep is not None else ""
        return f"aggregate{keys}{keep}: {', '.join(map(_call, node.calls))}" if node.calls else f"distinct{keys}{keep}"
    if isinstance(node, Union):
        return f"union of {', '.join(map(str, node.inputs))}"
    if isinstance(node, SetOperation):
        return f"{node.operation}{' all' if node.all else ''} of {node.left} and {node.right}"
    if isinstance(node, Top):
        limit = f"{node.limit}" if node.limit is not None else "all"
        return f"top {limit}{f' from {node.offset}' if node.offset else ''}{_window(node.partition, node.order)}"
    if isinstance(node, Ranked):
        return f"ranked{_window(node.partition, node.order)}: {', '.join(map(_call, node.calls))}"
    if isinstance(node, Expire):
        return f"expire {(node.after + 1) // 1000 / 1000:g} s after {node.column}"
    if isinstance(node, Latest):
        return f"latest of each {', '.join(node.key)} by {node.change}"
    if isinstance(node, Unnest):
        place = "" if node.place is None else f" at {node.place}"
        return f"elements of {node.array} as {node.element}{place}{', or NULL' if node.outer else ''}"
    return node.kind


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    return ", ".join(name if said.strip("`") == name else f"{said} as {name}" for name, said in columns)


def _call(call: Call) -> str:
    distinct = "distinct " if call.distinct else ""
    values = ", ".join(call.arguments) or ("*" if call.function == "count" else "")
    options = "".join(f" {name} {value}" for name, value in call.options)
    counted = f" where {call.filter}" if call.filter else ""
    return f"{call.function}({distinct}{values}{options}){counted} as {call.name}"


def _window(partition: Sequence[str], order: Sequence[tuple[str, bool, bool]]) -> str:
    """Part and order; NULLs first when ascending and last when descending go without saying."""
    parts = f" per {', '.join(partition)}" if partition else ""
    keys = [
        name
        + (" desc" if descending else "")
        + ("" if first != descending else f" nulls {'first' if first else 'last'}")
        for name, descending, first in order
    ]
    return f"{parts}{' by ' + ', '.join(keys) if keys else ''}"

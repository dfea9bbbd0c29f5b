"""What nodes answer, from all rows at once: each row touched one by one, as the definition says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pyarrow as pa

from anabranch.operators.tree.nodes import Expire, Join, Node, SetOperation, Union, Unnest
from tests.operators.tree.rows import Bag, Row, settled

Condition = Callable[[Row, Row], bool | None]


def answer(node: Node, schemas: Sequence[pa.Schema], inputs: Sequence[Bag], reached: int, condition: Condition) -> Bag:
    """The rows of a node's answer, and how often each is there."""
    if isinstance(node, Union):
        return settled(sum(inputs, Counter()))
    if isinstance(node, SetOperation):
        return _set(node, *inputs)
    if isinstance(node, Expire):
        at = schemas[0].get_field_index(node.column)
        return Counter({row: n for row, n in inputs[0].items() if not _is_old(row[at], reached - node.after)})
    if isinstance(node, Join):
        return _join(node, schemas, inputs[0], inputs[1], condition)
    if isinstance(node, Unnest):
        return _unnested(node, schemas[0], inputs[0])
    raise AssertionError(node)


def _unnested(node: Unnest, schema: pa.Schema, rows: Bag) -> Bag:
    at, found = schema.get_field_index(node.array), Bag()
    for row, count in rows.items():
        elements: list[tuple[object, object]] = list(enumerate(row[at] or ())) or ([(None, None)] if node.outer else [])
        for place, element in elements:
            found[row + ((place, element) if node.place else (element,))] += count
    return found


def _is_old(time: object, bound: int) -> bool:
    return time is not None and time.timestamp() * 1e6 < bound  # type: ignore[attr-defined]


def _set(node: SetOperation, left: Bag, right: Bag) -> Bag:
    if not node.all:
        left, right = Counter(set(left)), Counter(set(right))
    return settled(left & right if node.operation == "intersect" else left - right)


def _join(node: Join, schemas: Sequence[pa.Schema], left: Bag, right: Bag, condition: Condition) -> Bag:
    places = [(schemas[0].get_field_index(a), schemas[1].get_field_index(b)) for a, b in node.keys]

    def equal(a: Row, b: Row) -> bool | None:
        said = [None if a[i] is None or b[j] is None else a[i] == b[j] for i, j in places]
        return False if False in said else None if None in said else True

    def meet(a: Row, b: Row) -> bool:
        keys = equal(a, b)
        met = keys is not False if node.join == "not_in" else keys is True
        return met and condition(a, b) is True

    pairs: Bag = Counter()
    met_left: set[Row] = set()
    met_right: set[Row] = set()
    for a, n in left.items():
        for b, m in right.items():
            if meet(a, b):
                pairs[a + b] += n * m
                met_left.add(a)
                met_right.add(b)
    if node.join == "semi":
        return Counter({a: n for a, n in left.items() if a in met_left})
    if node.join in ("anti", "not_in"):
        return Counter({a: n for a, n in left.items() if a not in met_left})
    if node.join in ("left", "full"):
        for a, n in left.items():
            if a not in met_left:
                pairs[a + (None,) * len(schemas[1])] += n
    if node.join in ("right", "full"):
        for b, m in right.items():
            if b not in met_right:
                pairs[(None,) * len(schemas[0]) + b] += m
    return pairs

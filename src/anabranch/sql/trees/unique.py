"""Which columns of each node are together different in all its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from anabranch.operators.tree.nodes import Aggregate, Expire, Latest, Ranked, SetOperation, Source, Top, Unnest
from anabranch.sql.trees.draft import Draft, DraftJoin, DraftRows

Unique = frozenset[frozenset[str]]
"""Sets of columns; the empty one says that there is at most one row."""

_MOST = 6
_NONE: Unique = frozenset()


def uniques(nodes: Sequence[Draft], names: Sequence[Sequence[str]], keys: Mapping[str, Sequence[str]]) -> list[Unique]:
    """For each node, whose columns have these names; `keys` are the keys of tables by the stream of their changes."""
    found: list[Unique] = []
    for node, columns in zip(nodes, names, strict=True):
        found.append(_fewest(_of(node, found, columns, keys)))
    return found


def _fewest(sets: Iterable[frozenset[str]]) -> Unique:
    """The sets that hold no other, the smallest of them."""
    least: list[frozenset[str]] = []
    for one in sorted(set(sets), key=lambda s: (len(s), sorted(s))):
        if not any(known <= one for known in least):
            least.append(one)
    return frozenset(least[:_MOST])


def _of(node: Draft, found: list[Unique], columns: Sequence[str], keys: Mapping[str, Sequence[str]]) -> Unique:
    if isinstance(node, Source):
        here = {column.lower(): name for name, column in node.columns}
        key = [here.get(column.lower()) for column in keys.get(node.stream, ())] if node.form == "changes" else []
        return frozenset({frozenset(name for name in key if name)}) if key and None not in key else _NONE
    if isinstance(node, Latest):
        return frozenset({frozenset(node.key)})
    if isinstance(node, DraftRows):
        return _of_rows(node, found[node.input])
    if isinstance(node, DraftJoin):
        return _of_join(node, found[node.left], found[node.right])
    if isinstance(node, Aggregate):
        key_set = frozenset(node.keys)
        return frozenset({key_set, *(() if node.calls else (s for s in found[node.input] if s <= key_set))})
    if isinstance(node, SetOperation):
        return frozenset({*found[node.left], *(() if node.all else (frozenset(columns),))})
    if isinstance(node, Top):
        one = {frozenset(node.partition)} if node.limit == 1 else set[frozenset[str]]()
        return frozenset({*found[node.input], *one})
    if isinstance(node, Ranked):
        numbers = [call.name for call in node.calls if call.function == "row_number"]
        return frozenset({*found[node.input], *(frozenset({*node.partition, name}) for name in numbers)})
    if isinstance(node, Unnest):
        return frozenset(one | {node.place} for one in found[node.input]) if node.place is not None else _NONE
    return found[node.input] if isinstance(node, Expire) else _NONE


def _of_rows(node: DraftRows, below: Unique) -> Unique:
    shown: dict[str, str] = {}
    for name, value in node.columns:
        if isinstance(value, exp.Column):
            shown.setdefault(value.name, name)
    return frozenset(frozenset(shown[name] for name in one) for one in below if all(name in shown for name in one))


def _of_join(node: DraftJoin, left: Unique, right: Unique) -> Unique:
    if node.join in ("semi", "anti", "not_in"):
        return left
    sets = {one | other for one in left for other in right}
    left_keys, right_keys = frozenset(key for key, _ in node.keys), frozenset(key for _, key in node.keys)
    if node.join in ("inner", "left") and any(one <= right_keys for one in right):
        sets |= left
    if node.join in ("inner", "right") and any(one <= left_keys for one in left):
        sets |= right
    return frozenset(sets)

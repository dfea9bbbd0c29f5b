"""Trees put together at random, and changes of the rows of their sources.

Values are few, so that keys meet, orders have ties and groups vanish. Doubles are quarters, so that their sums are
exact in any order.
"""

from __future__ import annotations

import datetime as dt
import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.column_types import is_nested
from anabranch.operators.tree import nodes as n
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.steps import STEPS
from anabranch.operators.tree.steps.calls import FUNCTIONS
from anabranch.schema import TIME_TYPE
from tests.operators.tree.oracle_tree import ARRAY, STRUCT, Bag, plain, schema_of

KINDS = tuple(sorted(STEPS))
SECOND = 1_000_000
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

_LIST = pa.list_(pa.int64())
_STRUCT = pa.struct([("p", pa.int32()), ("q", _LIST)])
"""Nothing in them is NULL: DuckDB puts that last in an order, and Spark first."""

SCHEMAS = {
    "r": pa.schema([("k", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("t", TIME_TYPE)]),
    "u": pa.schema([("k", pa.int64()), ("i", pa.int32()), ("s", pa.string()), ("b", pa.bool_())]),
    "v": pa.schema([("i", pa.int32()), ("x", pa.float64()), ("t", TIME_TYPE)]),
    "w": pa.schema([("k", pa.int64()), ("a", _LIST), ("z", _STRUCT)]),
    "f": pa.schema([("change", pa.string()), ("k", pa.int64()), ("s", pa.string()), ("turn", pa.int64())]),
}
FEED = "f"
"""A change feed, whose rows are in the order of their turns."""
CHANGES = ("c", "R", "u", "d", "+I", "+U", "-U", "-D", "insert", "Upsert", "DELETE", "update_before", "update_after")
_VALUES: dict[Any, Sequence[Any]] = {
    pa.int64(): (None, -2, 0, 1, 2, 3),
    pa.int32(): (None, -1, 0, 1, 2),
    pa.float64(): (None, -1.25, 0.0, 0.5, 2.0, float("nan")),
    pa.string(): (None, "", "a", "b", "ä", "Z"),
    pa.bool_(): (None, True, False),
    _LIST: (None, (), (0,), (1,), (1, 0), (2, 2, -2)),
    _STRUCT: (None, {"p": 1, "q": (1,)}, {"p": 0, "q": ()}, {"p": 1, "q": (1, 2)}, {"p": 2, "q": (0,)}),
    TIME_TYPE: (None, *(START + dt.timedelta(seconds=second) for second in range(6))),
}
_NUMBERS = (pa.int64(), pa.int32(), pa.float64())


class FeedRows:
    """The rows of a change feed, which only come."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self.rows = chance, list[tuple[Any, ...]]()

    def change(self, most: int, least: int = 0) -> Changes:
        chance, first = self._chance, len(self.rows)
        for _ in range(chance.randint(least, most)):
            values = chance.choice(CHANGES), chance.choice((-2, 0, 1, 2, 3)), chance.choice((None, "", "a", "ä"))
            self.rows.append((*values, len(self.rows)))
        schema = SCHEMAS[FEED]
        columns = [pa.array([row[i] for row in self.rows[first:]], field.type) for i, field in enumerate(schema)]
        return Changes.of(pa.Table.from_arrays(columns, schema=schema))

    def bag(self) -> Bag:
        return Counter(self.rows)


class Stream:
    """The rows of a source, as they come and go. If they only come, none goes."""

    def __init__(self, chance: random.Random, schema: pa.Schema, only_comes: bool) -> None:
        self._chance, self.schema, self.only_comes = chance, schema, only_comes
        self.rows: Bag = Counter()

    def change(self, most: int, least: int = 0) -> Changes:
        """Some rows come, some of those that are there go; the same row may do so in several places."""
        chance = self._chance
        entries: list[tuple[tuple[Any, ...], int]] = []
        for _ in range(chance.randint(least, most)):
            if self.rows and not self.only_comes and chance.random() < 0.45:
                row = chance.choice(sorted(self.rows, key=repr))
                weight = -chance.randint(1, self.rows[row])
            else:
                row = tuple(plain(chance.choice(_VALUES[column.type])) for column in self.schema)
                weight = chance.choice((1, 1, 1, 2, 3))
            self.rows[row] += weight
            if not self.rows[row]:
                del self.rows[row]
            entries.append((row, weight))
        if not self.only_comes and chance.random() < 0.1:
            # All go at once.
            entries += [(row, -count) for row, count in self.rows.items()]
            self.rows.clear()
        chance.shuffle(entries)
        rows = [_values(row) for row, _ in entries]
        columns = [pa.array([row[i] for row in rows], column.type) for i, column in enumerate(self.schema)]
        weights = np.array([weight for _, weight in entries], np.int64)
        return Changes(pa.Table.from_arrays(columns, schema=self.schema), weights)

    def bag(self) -> Bag:
        """The rows as values."""
        return Counter({_values(row): count for row, count in self.rows.items()})


def _values(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(float("nan") if value == "NaN" else value for value in row)


@dataclass
class RandomTree:
    """A tree whose nodes are of some kinds."""

    chance: random.Random
    kinds: Sequence[str] = KINDS
    nodes: list[n.Node] = field(default_factory=list)
    schemas: list[pa.Schema] = field(default_factory=list)
    forms: dict[str, str] = field(default_factory=dict)
    _names: int = 0
    _rounded: set[str] = field(default_factory=set)
    _wide: int = 0
    """How many joins that may be of everything with everything there are."""

    def grown(self) -> tuple[n.Node, ...]:
        for stream in self.chance.sample(sorted(SCHEMAS.keys() - {FEED}), self.chance.randint(1, 3)):
            form = self.forms[stream] = self.chance.choice(("rows", "changes", "changes"))
            columns = list(SCHEMAS[stream].names)
            self.chance.shuffle(columns)
            self._add(n.Source(stream, tuple((self._name(), column) for column in columns), form))  # type: ignore[arg-type]
        sources = len(self.nodes)
        for _ in range(self.chance.randint(1, 5)):
            self._grow(self.chance.choice(self.kinds))
        if len(self.nodes) == sources:
            self._rows(sources - 1)
        return tuple(self.nodes)

    def _add(self, node: n.Node) -> int:
        self._note_rounded(node)
        self.nodes.append(node)
        self.schemas.append(schema_of(node, self.schemas, SCHEMAS))
        return len(self.nodes) - 1

    def _note_rounded(self, node: n.Node) -> None:
        """Whichever columns may hold something else than quarters: no one sums these up."""
        match node:
            case n.Rows():
                found = [name for name, sql in node.columns if self._rounded & set(re.findall(r"c\d+", sql))]
            case n.Aggregate() | n.Ranked():
                divided = ("avg", "percent_rank", "cume_dist")
                found = [
                    call.name for call in node.calls if call.function in divided or self._rounded & set(call.arguments)
                ]
            case n.Union() | n.SetOperation():
                by_place = zip(*(self.schemas[i].names for i in node.reads), strict=True)
                found = [names[0] for names in by_place if self._rounded & set(names)]
            case _:
                found = []
        self._rounded |= set(found)

    def _name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def _some_node(self) -> int:
        """Rather one of the last."""
        return max(self.chance.randrange(len(self.nodes)) for _ in range(2))

    def _columns(self, node: int, *types: pa.DataType) -> list[str]:
        return [column.name for column in self.schemas[node] if not types or column.type in types]

    def _quarters(self, node: int) -> list[str]:
        return [name for name in self._columns(node, *_NUMBERS) if name not in self._rounded]

    def _pick(self, names: Sequence[str], most: int, least: int = 0) -> tuple[str, ...]:
        return tuple(self.chance.sample(list(names), min(len(names), self.chance.randint(least, most))))

    def _grow(self, kind: str) -> None:
        node = self._some_node()
        match kind:
            case "rows":
                self._rows(node)
            case "join":
                self._join(node, self._some_node())
            case "aggregate":
                self._aggregate(node)
            case "union":
                inputs = self._alike(self.chance.randint(2, 3))
                self._add(n.Union(inputs))
            case "set_operation":
                left, right = self._alike(2)
                operation = self.chance.choice(("intersect", "except", "except"))
                self._add(n.SetOperation(left, right, operation, self.chance.random() < 0.5))  # type: ignore[arg-type]
            case "top":
                partition = self._pick(self._columns(node), 2)
                limit = self.chance.choice((None, 0, 1, 2, 3, 5, 9, 20))
                offset = self.chance.choice((0, 0, 1, 2, 7))
                self._add(n.Top(node, partition, self._order(node), limit, offset))
            case "ranked":
                self._ranked(node)
            case "expire":
                times = self._columns(node, TIME_TYPE)
                if times:
                    self._add(n.Expire(node, self.chance.choice(times), self.chance.randint(0, 5) * SECOND))
            case "latest":
                self._latest()
            case "unnest":
                arrays = self._columns(node, _LIST)
                if arrays:
                    place = self._name() if self.chance.random() < 0.5 else None
                    self._add(
                        n.Unnest(node, self.chance.choice(arrays), self._name(), place, self.chance.random() < 0.5)
                    )
            case _:
                raise AssertionError(kind)

    def _latest(self) -> None:
        self.forms[FEED] = "feed"
        names = {column: self._name() for column in SCHEMAS[FEED].names}
        source = self._add(n.Source(FEED, tuple((name, column) for column, name in names.items()), "feed"))
        key = (names["k"], names["s"]) if self.chance.random() < 0.3 else (names["k"],)
        self._add(n.Latest(source, key, names["change"]))

    def _order(self, node: int) -> n.Order:
        flip = self.chance.random
        return tuple((name, flip() < 0.5, flip() < 0.5) for name in self._pick(self._columns(node), 2))

    # -- rows ----------------------------------------------------------------------------------------------

    def _rows(self, node: int) -> int:
        columns = [(self._name(), name) for name in self._columns(node) if self.chance.random() < 0.8]
        for _ in range(self.chance.randint(0, 2)):
            columns.append((self._name(), self._expression(node)))
        where = self._condition(self.schemas[node]) if self.chance.random() < 0.3 else None
        self.chance.shuffle(columns)
        return self._add(n.Rows(node, tuple(columns) or ((self._name(), self._columns(node)[0]),), where))

    def _renamed(self, node: int) -> int:
        return self._add(n.Rows(node, tuple((self._name(), name) for name in self._columns(node))))

    def _expression(self, node: int) -> str:
        schema = self.schemas[node]
        column = self.chance.choice(list(schema))
        name = column.name
        if column.type in _NUMBERS:
            other = self.chance.choice([c.name for c in schema if c.type == column.type])
            return self.chance.choice(
                (f"coalesce({name}, {other})", f"{name} > 0", f"CASE WHEN {name} > 0 THEN {name} ELSE {other} END")
            )
        if column.type == pa.string():
            return self.chance.choice((f"coalesce({name}, 'n')", f"{name} = 'a'", f"length({name})", f"{name} IS NULL"))
        if column.type == pa.bool_():
            return f"NOT {name}"
        if column.type == _STRUCT:
            return self.chance.choice((f"({name}).p", f"({name}).q"))
        return f"{name} IS NOT NULL"

    def _condition(self, schema: pa.Schema) -> str:
        column = self.chance.choice(list(schema))
        name = column.name
        if column.type in _NUMBERS:
            other = self.chance.choice([c.name for c in schema if c.type == column.type])
            return self.chance.choice((f"{name} > 0", f"{name} <= {other}", f"{name} IS NULL OR {name} < 1"))
        if column.type == pa.string():
            return self.chance.choice((f"{name} <> 'a'", f"{name} >= 'a'", f"{name} IS NOT NULL"))
        return name if column.type == pa.bool_() else f"{name} IS NOT NULL"

    # -- several inputs ------------------------------------------------------------------------------------

    def _alike(self, count: int) -> tuple[int, ...]:
        """Nodes with columns of the same types; they may read the same node."""
        first = self._some_node()
        types = [column.type for column in self.schemas[first]]
        for type_ in types[:]:
            if len(types) > 1 and self.chance.random() < 0.4:
                types.remove(type_)
        return tuple(self._cut(first if i == 0 else self._some_node(), types) for i in range(count))

    def _cut(self, node: int, types: Sequence[pa.DataType]) -> int:
        columns = []
        for type_ in types:
            names = self._columns(node, type_)
            empty = f"CAST(NULL AS {self._spark(type_)})"
            columns.append((self._name(), self.chance.choice(names) if names else empty))
        return self._add(n.Rows(node, tuple(columns)))

    @staticmethod
    def _spark(type_: pa.DataType) -> str:
        names = {pa.int64(): "BIGINT", pa.int32(): "INT", pa.float64(): "DOUBLE", pa.string(): "STRING"}
        names |= {_LIST: ARRAY, _STRUCT: STRUCT}
        return names.get(type_) or ("BOOLEAN" if type_ == pa.bool_() else "TIMESTAMP")

    def _join(self, left: int, right: int) -> None:
        right = self._renamed(right)
        pairs = [
            (a.name, b.name) for a in self.schemas[left] for b in self.schemas[right] if a.type == b.type
        ]  # fmt: skip
        keys = self.chance.sample(pairs, min(len(pairs), self.chance.choice((0, 1, 1, 1, 2))))
        kind = self.chance.choice(("inner", "left", "left", "right", "full", "semi", "anti", "not_in", "not_in"))
        if kind not in ("semi", "anti", "not_in"):
            self._wide += 1
            if self._wide > 2:
                kind = "semi"
        both = pa.schema([*self.schemas[left], *self.schemas[right]])
        condition = self._condition(both) if self.chance.random() < 0.3 else None
        if kind == "not_in" and keys and self.chance.random() < 0.8:
            # One key, of which few are NULL: else NULL is always among them, and nothing is in the answer.
            key, few = keys[0][1], [self._condition(self.schemas[right]) for _ in range(3)]
            where = f"({key} IS NOT NULL OR (({few[0]}) AND ({few[1]}))) AND ({few[2]})"
            same = tuple((name, name) for name in self._columns(right))
            right, keys, condition = self._add(n.Rows(right, same, where)), keys[:1], None
        self._add(n.Join(left, right, kind, tuple(keys), condition))  # type: ignore[arg-type]

    # -- functions -----------------------------------------------------------------------------------------

    def _aggregate(self, node: int) -> None:
        keys = self._pick(self._columns(node), 2)
        calls = [self._aggregate_call(node) for _ in range(self.chance.randint(0 if keys else 1, 3))]
        self._add(n.Aggregate(node, keys, tuple(calls)))

    def _aggregate_call(self, node: int) -> n.Call:
        filters = self._columns(node, pa.bool_())
        chosen = self.chance.choice(filters) if filters and self.chance.random() < 0.3 else None
        function = self.chance.choice(("count", "count", "sum", "avg", "min", "max"))
        arguments = self._quarters(node) if function in ("sum", "avg") else self._columns(node)
        if not arguments or (function == "count" and self.chance.random() < 0.4):
            return n.Call(self._name(), "count", filter=chosen)
        if chosen is not None and self.chance.random() < 0.3:
            return n.Call(self._name(), self.chance.choice(("bool_and", "bool_or", "count_if")), (filters[0],))
        distinct = function in ("count", "sum") and self.chance.random() < 0.25
        return n.Call(self._name(), function, (self.chance.choice(arguments),), distinct, chosen)

    def _ranked(self, node: int) -> None:
        partition = self._pick(self._columns(node), 2)
        order = self._order(node)
        calls = tuple(self._window_call(node, order) for _ in range(self.chance.randint(1, 3)))
        self._add(n.Ranked(node, partition, order, calls))

    def _window_call(self, node: int, order: n.Order) -> n.Call:
        chance = self.chance
        function = chance.choice(FUNCTIONS)
        options: list[tuple[str, Any]] = []
        if function in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist"):
            return n.Call(self._name(), function)
        if function == "ntile":
            return n.Call(self._name(), function, options=(("count", chance.randint(1, 4)),))
        if function in ("lag", "lead"):
            name = chance.choice(self._columns(node))
            type_ = self.schemas[node].field(name).type
            options.append(("offset", chance.choice((0, 1, 1, 2, 3))))
            arguments: tuple[str, ...] = (name,)
            if chance.random() < 0.4:
                arguments = (name, chance.choice(self._columns(node, type_)))
            elif chance.random() < 0.5 and not is_nested(type_):
                options.append(("default", chance.choice([v for v in _VALUES[type_][:5] if v is not None])))
        elif function in ("sum", "avg"):
            numbers = self._quarters(node)
            if not numbers:
                return n.Call(self._name(), "row_number")
            arguments = (chance.choice(numbers),)
        else:
            arguments = () if function == "count" and chance.random() < 0.5 else (chance.choice(self._columns(node)),)
        if function == "nth_value":
            options.append(("n", chance.randint(1, 3)))
        ignoring = ("lag", "lead", "first_value", "last_value", "nth_value")
        if function in ignoring and dict(options).get("offset") != 0 and chance.random() < 0.3:
            options.append(("ignore_nulls", True))
        filters = self._columns(node, pa.bool_())
        aggregate = function in ("count", "sum", "avg", "min", "max")
        chosen = chance.choice(filters) if aggregate and filters and chance.random() < 0.3 else None
        if function not in ("lag", "lead") and chance.random() < 0.7:
            by = next(((name, down) for name, down, _ in order), None) if len(order) == 1 else None
            kind = None if by is None else self.schemas[node].field(by[0]).type
            if by is not None and kind in (*_NUMBERS, TIME_TYPE) and chance.random() < 0.5:
                options += [("frame", self._distances(kind)), ("by", by)]
            else:
                options.append(("frame", self._frame()))
        return n.Call(self._name(), function, arguments, filter=chosen, options=tuple(options))

    def _distances(self, kind: pa.DataType) -> list[Any]:
        unit: Any = SECOND if kind == TIME_TYPE else 0.25 if kind == pa.float64() else 1
        start, end = sorted(self.chance.choices((-3, -2, -1, 0, 1, 2), k=2))
        return ["range", *(None if self.chance.random() < 0.2 else edge * unit for edge in (start, end))]

    def _frame(self) -> list[Any]:
        if self.chance.random() < 0.4:
            return ["range", self.chance.choice((None, 0)), self.chance.choice((None, 0))]
        start, end = sorted(self.chance.choices((-3, -2, -1, 0, 1, 2), k=2))
        return ["rows", self.chance.choice((None, start, start)), self.chance.choice((None, end, end))]

"""A tree made smaller: rows computed in one go, first rows instead of numbered ones, and only columns that are read.

Nothing here changes what is answered. Expressions are put into each other only where the type stays the same: Spark
types a literal by its digits, and a column by its type.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.operators.tree.nodes import (
    Aggregate,
    Call,
    Expire,
    Latest,
    Part,
    Ranked,
    SetOperation,
    Source,
    Top,
    Union,
    Unnest,
)
from anabranch.sql.standing.columns import sql_of
from anabranch.sql.trees.draft import (
    Draft,
    DraftJoin,
    DraftRows,
    Drafts,
    Place,
    as_they_are,
    both,
    names_of,
    picked,
    without,
)
from anabranch.sql.trees.graph import Graph, moved, nested
from anabranch.sql.trees.pushing import pushed
from anabranch.sql.trees.typing import constant_of

_SAFE = ("row_number", "rank", "dense_rank")
"""Functions that are the same among the first rows of an order as among all."""


def simplified(drafts: Drafts, last: int) -> Graph:
    """The tree of a node."""
    graph = pushed(_merged(Graph.of(drafts, last)))
    graph = _first_rows(_merged(graph))
    graph = _pruned(graph)
    return _merged(graph)


# -- rows of rows ----------------------------------------------------------------------------------


def _merged(graph: Graph) -> Graph:
    """Rows that are read by Rows alone become part of these."""
    readers = graph.readers()
    nodes = list(graph.nodes)
    for number, node in enumerate(nodes):
        while isinstance(node, DraftRows):
            below = nodes[node.input]
            if not isinstance(below, DraftRows) or readers[node.input] > 1:
                break
            together = _together(node, below, graph.schemas[number], graph.schemas[below.input])
            if together is None:
                break
            node = together
        nodes[number] = node
    return _without_idle(Graph(nodes, graph.schemas, graph.places))


def _is_nothing(node: DraftRows, schema: pa.Schema) -> bool:
    return not node.where and node.columns == as_they_are(schema.names)


def _without_idle(graph: Graph) -> Graph:
    """Without Rows that change nothing."""
    instead: dict[int, int] = {}
    nodes: list[Draft] = []
    for number, node in enumerate(graph.nodes):
        places = {read: instead.get(read, read) for read in node.reads}
        node = moved(node, places)
        if isinstance(node, DraftRows) and _is_nothing(node, graph.schemas[node.input]):
            instead[number] = node.input
        nodes.append(node)
    last = len(nodes) - 1
    return Graph(nodes, graph.schemas, graph.places).up_to(instead.get(last, last))


def _together(upper: DraftRows, lower: DraftRows, wanted: pa.Schema, base: pa.Schema) -> DraftRows | None:
    """One Rows for two, or None if an expression would be computed twice, or mean something else."""
    values = dict(lower.columns)
    uses = Counter(
        node.name for value in (*(v for _, v in upper.columns), *upper.where) for node in value.find_all(exp.Column)
    )
    inside = {name for value in (*(v for _, v in upper.columns), *upper.where) if not isinstance(value, exp.Column)
              for name in names_of(value)}  # fmt: skip
    for name, count in uses.items():
        value = values[name]
        if isinstance(value, exp.Column):
            continue
        if count > 1 or (name in inside and not names_of(value)):
            return None

    def put_in(value: exp.Expr) -> exp.Expr:
        if isinstance(value, exp.Column):
            return values[value.name]
        return value.copy().transform(lambda node: nested(values[node.name]) if isinstance(node, exp.Column) else node)

    columns = tuple((name, put_in(value)) for name, value in upper.columns)
    where = (*lower.where, *(put_in(value) for value in upper.where))
    for name, value in columns:
        if not _has_type(value, base, wanted.field(name).type):
            return None
    if not all(_has_type(value, base, None) for value in where):
        return None
    return DraftRows(lower.input, columns, where)


def _has_type(value: exp.Expr, schema: pa.Schema, wanted: pa.DataType | None) -> bool:
    try:
        type_ = expressions.compile(sql_of(value), schema).type
    except (NotEvaluable, AnabranchError):
        return False
    return wanted is None or type_.equals(wanted)


# -- first rows ------------------------------------------------------------------------------------


def _first_rows(graph: Graph) -> Graph:
    """`row_number() … <= n` asks for the first rows of an order; all others need no number."""
    made = Graph([], [], [])
    readers = graph.readers()
    places: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        below = graph.nodes[node.input] if isinstance(node, DraftRows) else None
        if isinstance(node, DraftRows) and isinstance(below, Ranked) and readers[node.input] == 1:
            places[number] = _as_top(graph, made, number, node, below, places)
        else:
            places[number] = made.add(moved(node, places), graph.schemas[number], graph.places[number])
    return made.up_to(places[len(graph.nodes) - 1])


def _as_top(graph: Graph, made: Graph, number: int, rows: DraftRows, ranked: Ranked, places: dict[int, int]) -> int:
    numbers = {call.name for call in ranked.calls if call.function == "row_number"}
    found = next(((c, r) for c in rows.where if (r := _range(c, numbers)) is not None), None)
    plain = moved(rows, places)
    if found is None:
        return made.add(plain, graph.schemas[number], graph.places[number])
    condition, (first, last) = found
    rest = tuple(c for c in rows.where if c is not condition)
    used = names_of(*(value for _, value in rows.columns), *rest)
    calls = tuple(call for call in ranked.calls if call.name in used)
    if (calls and first > 1) or any(call.function not in _SAFE for call in calls):
        return made.add(plain, graph.schemas[number], graph.places[number])
    base, place = graph.schemas[ranked.input], graph.places[rows.input]
    limit = None if last is None else max(last - first + 1, 0)
    top = Top(places[ranked.input], ranked.partition, ranked.order, limit, first - 1)
    node = made.add(top, base, place)
    if calls:
        schema = graph.schemas[rows.input]
        shape = pa.schema([*base, *(schema.field(call.name) for call in calls)])
        node = made.add(replace(ranked, input=node, calls=calls), shape, place)
    return made.add(replace(rows, input=node, where=rest), graph.schemas[number], graph.places[number])


def _range(condition: exp.Expr, numbers: set[str]) -> tuple[int, int | None] | None:
    """The first and the last number that a condition lets pass; None if it is about something else."""
    condition = condition.unnest()
    if isinstance(condition, exp.Between):
        low, high = _whole(condition.args["low"]), _whole(condition.args["high"])
        is_number = isinstance(condition.this, exp.Column) and condition.this.name in numbers
        return (max(low, 1), high) if is_number and low is not None and high is not None else None
    if not isinstance(condition, exp.EQ | exp.LT | exp.LTE):
        if not isinstance(condition, exp.GT | exp.GTE):
            return None
        flipped = exp.LT if isinstance(condition, exp.GT) else exp.LTE
        return _range(flipped(this=condition.expression.copy(), expression=condition.this.copy()), numbers)
    left, right = condition.this.unnest(), condition.expression.unnest()
    if isinstance(condition, exp.EQ) and isinstance(right, exp.Column):
        left, right = right, left
    strict = isinstance(condition, exp.LT)
    if isinstance(left, exp.Column) and left.name in numbers:
        most = _whole(right)
        if most is None:
            return None
        if isinstance(condition, exp.EQ):
            return (most, most) if most >= 1 else (1, 0)
        return 1, max(most - strict, 0)
    if isinstance(right, exp.Column) and right.name in numbers:
        least = _whole(left)
        return None if least is None else (max(least + strict, 1), None)
    return None


def _whole(value: exp.Expr) -> int | None:
    if names_of(value):
        return None
    try:
        found = constant_of(value)
    except (NotEvaluable, AnabranchError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


# -- columns ---------------------------------------------------------------------------------------


def _pruned(graph: Graph) -> Graph:
    """Nodes with the columns that are read, and one at least: a row without columns cannot be counted."""
    needed: list[set[str]] = [set() for _ in graph.nodes]
    needed[-1] = set(graph.schemas[-1].names)
    for number in range(len(graph.nodes) - 1, -1, -1):
        if not needed[number] & set(graph.schemas[number].names):
            needed[number].add(graph.schemas[number].names[0])
        _need(graph, number, needed)
    made = Graph([], [], [])
    places: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        places[number] = _narrow(graph, made, number, node, needed[number], places)
    return made.up_to(places[len(graph.nodes) - 1])


def _need(graph: Graph, number: int, needed: list[set[str]]) -> None:
    """What a node needs of those it reads."""
    node, wanted = graph.nodes[number], needed[number]
    if isinstance(node, DraftRows):
        needed[node.input] |= names_of(*(value for name, value in node.columns if name in wanted), *node.where)
    elif isinstance(node, DraftJoin):
        own = wanted | names_of(*node.condition) | {key for pair in node.keys for key in pair}
        for side in node.reads:
            needed[side] |= own & set(graph.schemas[side].names)
    elif isinstance(node, Aggregate):
        needed[node.input] |= set(node.keys)
        calls = _called(node, wanted)
        needed[node.input] |= {name for call in calls for name in (*call.arguments, call.filter) if name}
        wanted |= {call.name for call in calls}
    elif isinstance(node, Union):
        numbers = [i for i, name in enumerate(graph.schemas[number].names) if name in wanted]
        for side in node.inputs:
            needed[side] |= {graph.schemas[side].names[i] for i in numbers}
    elif isinstance(node, SetOperation):
        wanted |= set(graph.schemas[number].names)
        for side in node.reads:
            needed[side] |= set(graph.schemas[side].names)
    elif isinstance(node, Top | Ranked):
        below = set(graph.schemas[node.input].names)
        own = {*node.partition, *(name for name, _, _ in node.order)}
        if isinstance(node, Ranked):
            own |= {
                name for call in node.calls if call.name in wanted for name in (*call.arguments, call.filter) if name
            }
        needed[node.input] |= (wanted & below) | own
    elif isinstance(node, Expire):
        needed[node.input] |= wanted | {node.column}
    elif isinstance(node, Latest):
        needed[node.input] |= wanted | {*node.key, node.change}
    elif isinstance(node, Unnest):
        needed[node.input] |= (wanted & set(graph.schemas[node.input].names)) | {node.array}


def _called(node: Aggregate, wanted: set[str]) -> list[Call]:
    calls = [call for call in node.calls if call.name in wanted]
    return calls or ([] if node.keys else list(node.calls[:1]))


def _narrow(graph: Graph, made: Graph, number: int, node: Draft, wanted: set[str], places: dict[int, int]) -> int:
    schema, place = graph.schemas[number], graph.places[number]
    new = moved(node, places)
    if isinstance(new, Source | Part):
        new = replace(new, columns=tuple(c for c in new.columns if c[0] in wanted))
        return made.add(new, picked(schema, [name for name, _ in new.columns]), place)
    if isinstance(new, DraftRows):
        new = replace(new, columns=tuple(c for c in new.columns if c[0] in wanted))
        return made.add(new, picked(schema, [name for name, _ in new.columns]), place)
    if isinstance(new, Aggregate):
        new = replace(new, calls=tuple(_called(new, wanted)))
        return made.add(new, picked(schema, [*new.keys, *(call.name for call in new.calls)]), place)
    if isinstance(new, Union | SetOperation):
        return _narrow_sides(graph, made, number, wanted, places)
    if isinstance(new, DraftJoin):
        own = wanted | names_of(*new.condition) | {key for pair in new.keys for key in pair}
        left, right = (_only(made, side, own, place) for side in new.reads)
        new = replace(new, left=left, right=right)
        shape = made.schemas[left]
        return made.add(
            new, shape if new.join in ("semi", "anti", "not_in") else both(shape, made.schemas[right]), place
        )
    below = made.schemas[new.input]
    if isinstance(new, Ranked):
        calls = tuple(call for call in new.calls if call.name in wanted)
        if not calls:
            return new.input
        new = replace(new, calls=calls)
        return made.add(new, pa.schema([*below, *(schema.field(call.name) for call in calls)]), place)
    if isinstance(new, Unnest):
        new = replace(new, place=new.place if new.place in wanted else None)
        made_here = [name for name in (new.place, new.element) if name is not None]
        return made.add(new, pa.schema([*below, *(schema.field(name) for name in made_here)]), place)
    return made.add(new, without(below, new.change) if isinstance(new, Latest) else below, place)


def _narrow_sides(graph: Graph, made: Graph, number: int, wanted: set[str], places: dict[int, int]) -> int:
    """A union or set operation goes by place, so each side has just the columns that are read."""
    node, names = graph.nodes[number], graph.schemas[number].names
    kept = [i for i, name in enumerate(names) if name in wanted]
    sides: dict[int, int] = {}
    for side in node.reads:
        own = [graph.schemas[side].names[i] for i in kept]
        new = places[side]
        if made.schemas[new].names != own:
            rows = DraftRows(new, as_they_are(own))
            new = made.add(rows, picked(made.schemas[new], own), graph.places[number])
        sides[side] = new
    return made.add(moved(node, sides), picked(graph.schemas[number], [names[i] for i in kept]), graph.places[number])


def _only(made: Graph, number: int, wanted: set[str], place: Place) -> int:
    """A side of a join without what it has beyond need, as every row of it is kept."""
    schema = made.schemas[number]
    names = [name for name in schema.names if name in wanted]
    if len(names) == len(schema.names) or not names or isinstance(made.nodes[number], Source | Part):
        return number
    return made.add(DraftRows(number, as_they_are(names)), picked(schema, names), place)

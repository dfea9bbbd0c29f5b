"""What bounds what each node keeps. A stream has no end, so what keeps its rows grows without one.

That is refused, unless the query says that it may (`ACCEPT UNBOUNDED`), for how long rows count (`EXPIRE AFTER`), or of
an aggregate how many groups there are (`KEEP GROUPS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators import operator_from_json
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
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.tree import Select
from anabranch.sql.trees.draft import Draft, DraftJoin, DraftRows, Place, names_of

SUMS = ("count", "sum", "avg", "bool_and", "bool_or", "stddev", "stddev_pop", "variance", "var_pop")
"""Functions that need no more than counts and sums."""
ONE_STATE = (*SUMS, "min", "max", "max_by", "min_by")
"""Functions that need no more than one value for rows that only come."""
_FEW = {"hour", "minute", "second", "month", "quarter", "dayofweek", "weekday", "day", "dayofmonth", "dayofyear",
        "weekofyear", "sign", "signum", "isnull", "isnotnull", "isnan"}  # fmt: skip
"""Functions that have few different values."""
_ROWS = "the rows of "
_EXPIRE, _ACCEPT = "EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long", "or ACCEPT UNBOUNDED"
_KEEP = "KEEP GROUPS 10000, if the groups with the newest rows are wanted"


@dataclass(frozen=True)
class Growth:
    """What a node's rows are: of which stream they are without end (None: they are bounded), and `why` they are not.

    `few` are its columns that have few different values.
    """

    stream: str | None
    why: str
    few: frozenset[str] = frozenset()
    comes: bool = False
    """Whether its rows only ever come."""


def bounds_of(
    select: Select, nodes: Sequence[Draft], schemas: Sequence[pa.Schema], places: Sequence[Place]
) -> tuple[tuple[tuple[int, str], ...], Growth]:
    """For each node that keeps something, by its number, what bounds that, and how the last one grows.

    What nothing bounds is refused.
    """
    accepts = select.bounding is not None and select.bounding.accepts
    growths: list[Growth] = []
    bounds: list[tuple[int, str]] = []
    for number, (node, schema, place) in enumerate(zip(nodes, schemas, places, strict=True)):
        below = [growths[read] for read in node.reads]
        grows = next((growth.stream for growth in below if growth.stream is not None), None)
        said = _bound(node, below, grows)
        if said is None and grows is not None:
            if not accepts:
                table = _meets_a_table(node, below)
                groups = _may_keep_groups(nodes, node, place)
                near = place.said.endswith("JOIN") and all(_is_stream(nodes, read) for read in node.reads)
                raise _unbounded(select, node, grows, place, meets_table=table, groups=groups, of_streams=near)
            said = "nothing: ACCEPT UNBOUNDED"
        if said:
            bounds.append((number, said))
        growths.append(_growth(node, below, grows, schema))
    return tuple(bounds), growths[-1]


def _meets_a_table(node: Draft, below: Sequence[Growth]) -> bool:
    """Whether rows of a stream are joined with a table, which could be that of their time."""
    is_pairs = isinstance(node, DraftJoin) and node.join in ("inner", "left")
    return is_pairs and below[0].stream is not None and below[1].why.startswith(_ROWS)


def _bound(node: Draft, below: Sequence[Growth], grows: str | None) -> str | None:
    """What bounds what a node keeps: empty if it keeps nothing, None if nothing does."""
    if isinstance(node, Source | Part | DraftRows | Union | Unnest):
        return ""
    if isinstance(node, Expire):
        return f"rows for {format_us(_whole(node.after))}"
    if isinstance(node, Latest):
        return f"a row for each key of {grows}"
    why = _together(below)
    if grows is None:
        return why or "what it reads"
    if isinstance(node, Aggregate) and node.keep is not None:
        return f"{node.keep} groups"
    if isinstance(node, Aggregate):
        totals = all(_is_total(call, below[0]) for call in node.calls)
        if totals and not node.keys:
            return "one row of totals"
        if totals and set(node.keys) <= below[0].few:
            return f"few groups: {', '.join(node.keys)}"
    if isinstance(node, Top) and node.limit is not None and set(node.partition) <= below[0].few and below[0].comes:
        return f"{node.limit + node.offset} rows" + (" of each of few parts" if node.partition else "")
    return None


def _is_total(call: Call, below: Growth) -> bool:
    """Whether a call needs no more than one value, in place of all that it has seen."""
    return call.function in (ONE_STATE if below.comes else SUMS) and not call.distinct


def _growth(node: Draft, below: Sequence[Growth], grows: str | None, schema: pa.Schema) -> Growth:
    few = frozenset(f.name for f in schema if pa.types.is_boolean(f.type) or pa.types.is_int8(f.type))
    why = _together(below)
    if isinstance(node, Source):
        if node.form == "changes":
            return Growth(None, f"{_ROWS}{node.stream.removesuffix('.changes')}", few)
        return Growth(node.stream, "", few, comes=True)
    if isinstance(node, Part):
        return Growth(operator_from_json(node.operator).inputs[0], "", few, comes=True)
    if isinstance(node, Latest):
        return Growth(None, f"the keys of {grows}", few)
    if isinstance(node, Expire):
        return Growth(None, f"rows for {format_us(_whole(node.after))}", few)
    kept = frozenset(name for growth in below for name in growth.few if name in schema.names)
    if isinstance(node, DraftRows):
        few |= {
            name
            for name, value in node.columns
            if _is_few(value, below[0].few)
            and (value.find(exp.Mod) is None or pa.types.is_integer(schema.field(name).type))
        }
        return Growth(grows, why, few, below[0].comes)
    if isinstance(node, Aggregate) and node.keep is not None:
        return Growth(None, f"{node.keep} groups", few | kept)
    if isinstance(node, Aggregate) and grows is not None and set(node.keys) <= below[0].few:
        return Growth(None, "few groups" if node.keys else "one row", few | kept)
    if isinstance(node, Top) and node.limit is not None and set(node.partition) <= below[0].few:
        return Growth(None, f"{node.limit} rows", few | kept)
    comes = all(growth.comes for growth in below)
    if isinstance(node, Union):
        return Growth(grows, why, few, comes)
    if isinstance(node, Unnest):
        return Growth(grows, why, few | kept, comes)
    return Growth(grows, why, few | kept, comes and _only_adds(node))


def _only_adds(node: Draft) -> bool:
    """Whether rows that come to a node never have it take a row back."""
    if isinstance(node, DraftJoin):
        return node.join == "inner" or (node.join == "semi" and bool(node.keys) and not node.condition)
    return isinstance(node, Aggregate) and not node.calls


def _together(growths: Sequence[Growth]) -> str:
    """What bounds what several nodes give, each thing said once."""
    parts = list(dict.fromkeys(part for growth in growths for part in growth.why.split(" and ") if part))
    names = list(dict.fromkeys(name for part in parts if part.startswith(_ROWS) for name in _names(part)))
    rows = [f"{_ROWS}{', '.join(names)}"] if names else []
    return " and ".join([*rows, *(part for part in parts if not part.startswith(_ROWS))])


def _names(part: str) -> list[str]:
    return part.removeprefix(_ROWS).split(", ")


def _whole(after: int) -> int:
    """What counts until just before the next window begins is told as the length of that."""
    return after + 1 if (after + 1) % 1000 == 0 else after


def _is_few(value: exp.Expr, few: frozenset[str]) -> bool:
    """Whether an expression has few different values, whatever rows come."""
    value = value.unnest()
    if isinstance(value, exp.Case):
        results = [part.args["true"] for part in value.args["ifs"]]
        results += [value.args["default"]] if value.args.get("default") is not None else []
        return all(_is_few(result, few) for result in results)
    if not names_of(value):
        return True
    if called(value) in _FEW or (isinstance(value, exp.Extract) and value.name.lower() in _FEW - {"second"}):
        return True
    if isinstance(value, exp.Mod) and not names_of(value.expression):
        return True
    return names_of(value) <= few


def read_by(nodes: Sequence[Draft], node: Draft) -> Draft:
    """What a node with one input reads, below filters and computed columns."""
    below = nodes[node.reads[0]]
    while isinstance(below, DraftRows):
        below = nodes[below.input]
    return below


def keeps_values(node: Aggregate) -> Call | None:
    """A call for which more than one value is kept of each group, of rows that only come."""
    return next((call for call in node.calls if call.distinct or call.function not in ONE_STATE), None)


def _may_keep_groups(nodes: Sequence[Draft], node: Draft, place: Place) -> bool:
    """Whether KEEP GROUPS would bound what a node keeps."""
    if not isinstance(node, Aggregate) or place.said != "GROUP BY" or not node.keys or keeps_values(node) is not None:
        return False
    source = read_by(nodes, node)
    return isinstance(source, Source) and source.form == "rows"


def _is_stream(nodes: Sequence[Draft], number: int) -> bool:
    """Whether a node is rows of a stream, as they are or some of them."""
    while isinstance(node := nodes[number], DraftRows):
        number = node.input
    return isinstance(node, Source) and node.form == "rows"


def _unbounded(
    select: Select, node: Draft, stream: str, place: Place, *, meets_table: bool, groups: bool, of_streams: bool
) -> SqlError:
    what = {
        Aggregate: "keeps every group that ever was" if getattr(node, "calls", ()) else "keeps every row",
        DraftJoin: "keeps every row of both sides",
        Ranked: "keeps every row",
        SetOperation: "keeps every row",
        Top: "keeps every row",
    }[type(node)]
    windowed = 'a subquery that reads "' + stream + '" with WINDOW = INTERVAL … after FROM'
    if of_streams:
        windowed = "WINDOW = INTERVAL … after FROM"
    if meets_table:
        windowed += ", or join it with a table as it was: JOIN … FOR SYSTEM_TIME AS OF the time of its row"
    if isinstance(node, Aggregate) and place.said == "GROUP BY":
        what = "keeps every group that ever was"
    if isinstance(node, Aggregate) and not node.keys:
        held = next(
            (call for call in node.calls if call.function not in ONE_STATE or call.distinct),
            next(call for call in node.calls if call.function not in SUMS or call.distinct),
        )
        what = f"keeps every value for {held.function}({'DISTINCT ' if held.distinct else ''}…)"
    if isinstance(node, Top) and node.limit is not None and node.partition:
        what = f"keeps {node.limit} rows of every part that ever was"
    return select.error(
        "STATE_UNBOUNDED",
        f'{place.said} {what}, and stream "{stream}" has no end',
        place.node,
        hint=f"end the query with {', '.join([_EXPIRE, *([_KEEP] if groups else []), _ACCEPT])}, or write {windowed}",
        keyword=place.keyword,
    )

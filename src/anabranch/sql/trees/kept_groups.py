"""KEEP GROUPS: which aggregate of a query it is about. It goes by the order of rows, as one stream has it."""

from __future__ import annotations

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.tree.nodes import Aggregate, Source
from anabranch.sql.tree import Select
from anabranch.sql.trees.bounds import keeps_values, read_by
from anabranch.sql.trees.graph import Graph

_ANOTHER_WAY = "write EXPIRE AFTER INTERVAL … in place of it, or ACCEPT UNBOUNDED"


def check_kept_groups(select: Select, graph: Graph) -> None:
    """An error if the query says KEEP GROUPS, and it is not about one GROUP BY over the rows of a stream."""
    if select.bounding is None or select.bounding.groups is None:
        return
    about = [number for number, node in enumerate(graph.nodes) if isinstance(node, Aggregate) and node.keep is not None]
    if len(about) != 1:
        several = len(about) > 1
        raise _refused(
            select,
            "KEEP GROUPS is about one GROUP BY of columns, and the query has " + ("several" if several else "none"),
            graph.places[about[1]].node if several else None,
            "make one of them a view of its own" if several else "leave it out, or " + _ANOTHER_WAY,
        )
    (number,) = about
    node, place = graph.nodes[number], graph.places[number].node
    assert isinstance(node, Aggregate)
    source = read_by(graph.nodes, node)
    if isinstance(source, Source) and source.form != "rows":
        name = source.stream.removesuffix(".changes")
        said = f'KEEP GROUPS is about rows that come one after the other, and "{name}" has keys, which bound it'
        raise _refused(select, said, place, "leave it out")
    if not isinstance(source, Source):
        said = "KEEP GROUPS is about a GROUP BY of the rows of one stream, as their order says which groups are newest"
        hint = "make what is grouped a stream with CREATE STREAM … AS SELECT …, and group that, or " + _ANOTHER_WAY
        raise _refused(select, said, place, hint)
    call = keeps_values(node)
    if call is not None:
        shown = f"{call.function}({'DISTINCT ' if call.distinct else ''}…)"
        said = f"KEEP GROUPS bounds how many groups there are, and {shown} keeps every value of each"
        raise _refused(select, said, place, _ANOTHER_WAY)


def _refused(select: Select, said: str, place: exp.Expr | None, hint: str) -> SqlError:
    assert select.bounding is not None
    start = select.bounding.start if place is None else None
    return select.error("NOT_IN_THE_LANGUAGE", said, place, start=start, hint=hint)

"""What all queries with aggregates over one stream say, before it is decided what runs them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.functions.aggregates import row_of
from anabranch.operators.windows.explain import not_of_values
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.standing.columns import Scope, sql_of
from anabranch.sql.standing.rows import Output, answer_schema, check_names
from anabranch.sql.standing.sources import KEYWORDS
from anabranch.sql.tree import Window
from anabranch.sql.windows.aggregate_reader import AggregateReader
from anabranch.sql.windows.group_by import checked
from anabranch.sql.windows.windowed import Ordering, orderings, stamp_of, time_of


@dataclass(frozen=True)
class Grouped:
    """A query with aggregates; `outputs` are the columns of its answer, the first of them those it selects."""

    scope: Scope
    tree: exp.Select
    reader: AggregateReader
    outputs: tuple[Output, ...]
    selected: tuple[Output, ...]
    stamp: Output
    filter: str | None
    having: str | None
    ordering: tuple[Ordering, ...]
    inner: pa.Schema

    @property
    def window(self) -> Window:
        return self.reader.groups.window

    @property
    def columns(self) -> tuple[tuple[str, str], ...]:
        """The columns as operators take them."""
        return tuple((out.name, sql_of(out.value)) for out in self.outputs)

    @property
    def schema(self) -> StreamSchema:
        return answer_schema(self.scope, list(self.outputs), self.stamp.name, self.inner)


def read_grouped(scope: Scope, tree: exp.Select) -> Grouped:
    """The groups and aggregates of a query over one stream."""
    reader = AggregateReader(scope, tree)
    reader.read()
    where = tree.args.get("where")
    filter_tree = checked(scope, where.this, boolean=True) if where is not None else None
    outputs = reader.outputs()
    having = reader.having()
    window = reader.groups.window
    by_name = {out.name.lower(): out.value for out in outputs}
    ordering = orderings(scope, tree, outputs, lambda key: reader.rewrite(key, {}, by_name))
    inner = reader.check(outputs, having)
    selected = tuple(outputs)
    stamp = stamp_of(outputs, window)
    if stamp is None:
        stamp = Output(ARRIVAL_COLUMN, time_of(window), tree)
        outputs = [*outputs, stamp]
    check_names(scope, outputs, stamp)
    return Grouped(
        scope,
        tree,
        reader,
        tuple(outputs),
        selected,
        stamp,
        filter=None if filter_tree is None else sql_of(filter_tree),
        having=None if having is None else sql_of(having),
        ordering=tuple(ordering),
        inner=inner,
    )


def refuse_what_needs_whole_windows(grouped: Grouped, what: str, why_no_order: str) -> None:
    """For windows that are answered group by group, from partial aggregates; `what` they are, as errors say it."""
    select, tree = grouped.scope.select, grouped.tree
    if select.emit is not None and select.emit.changes:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"EMIT CHANGES compares a window with the one before, and {what} have none before them",
            start=select.emit.start,
            hint="leave it out: each is answered once, and stays true",
        )
    for clause in ("order", "limit", "distinct"):
        if tree.args.get(clause):
            said = KEYWORDS[clause] + (" BY" if clause == "order" else "")
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                f"{said} cannot be used with {what}",
                tree.args[clause] if clause != "distinct" else tree,
                hint="name the keys in GROUP BY" if clause == "distinct" else why_no_order,
                keyword=KEYWORDS[clause],
            )
    for function, argument in grouped.reader.aggregates.values():
        if row_of(function).kind == "holistic":
            message, hint = not_of_values(function, what)
            raise select.error("AGGREGATE_NOT_AVAILABLE", message, argument, hint=hint)
    refuse_hints(select, f"of {what} partial aggregates are kept")


def wrong_windows(grouped: Grouped) -> SqlError:
    """Of a query that is part of another, whose windows have to be of one length."""
    return grouped.scope.select.error(
        "NOT_IN_THE_LANGUAGE",
        "sessions cannot be compared with other windows",
        grouped.reader.groups.window_keys[0],
        hint="make a stream of them with CREATE STREAM … AS SELECT …",
    )

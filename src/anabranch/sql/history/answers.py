"""Aggregates over history: from all rows like those of windows; from part of them each has bounds and stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError, SqlError
from anabranch.functions.aggregates import AGGREGATES, AggregateFunction, rows
from anabranch.operators.archive.question import FRACTION, MET
from anabranch.operators.base import Inputs, LogReader, Operator
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.archive_tree import CONFIDENCE
from anabranch.sql.reading.reduce_by import placed
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, needs_quotes, sql_of
from anabranch.sql.standing.rows import Output, check_names
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_row
from anabranch.sql.windows.aggregate_reader import AggregateReader
from anabranch.sql.windows.group_by import checked

BOUNDS = ("_low", "_high")
"""What is put behind the name of an aggregate for the columns of its bounds."""


@dataclass(frozen=True)
class HistoryScope(Scope):
    """A stream that is read from the past on: its groups do not lie in windows."""

    @property
    def has_windows(self) -> bool:
        return False

    @property
    def inside(self) -> str:
        return "while history is read"


@dataclass(frozen=True)
class Aggregates:
    """Keys (name, SQL), aggregates (name, function, SQL), the answer's columns (name, SQL over those), and HAVING."""

    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    filter: str | None
    having: str | None
    outputs: tuple[Output, ...]
    reader: AggregateReader


def read_aggregates(scope: Scope, tree: exp.Select, instead: str) -> Aggregates:
    """The clauses of a query whose aggregates are kept up from the past on; `instead`: the hint for what cannot be."""
    _refuse_functions(
        scope.select, tree, instead, "AGGREGATE_NOT_AVAILABLE", "kept up from the past on", distinct=False
    )
    reader, condition, outputs = _read(scope, tree)
    having = reader.having()
    reader.check(outputs, having)
    return Aggregates(
        reader.named_keys(),
        reader.named_aggregates(),
        tuple((out.name, sql_of(out.value)) for out in outputs),
        condition,
        None if having is None else sql_of(having),
        tuple(outputs),
        reader,
    )


def read_estimates(scope: Scope, tree: exp.Select, instead: str, *, distinct: bool) -> Aggregates:
    """The same for aggregates of part of the rows: the answer has two more columns for the bounds of each.

    So each column is a key or an aggregate, by a name that needs no quotes. `distinct`: count(DISTINCT x) can be
    answered, too.
    """
    _refuse_functions(
        scope.select, tree, instead, "NOT_ON_REDUCED_DATA", "answered from part of the rows", distinct=distinct
    )
    reader, condition, outputs = _read(scope, tree)
    columns = tuple((out.name, _alone(scope.select, reader, out, instead)) for out in outputs)
    reader.check(outputs, None)
    _check_reserved(scope.select, outputs, columns, reader)
    names = _plain_names(reader)
    return Aggregates(
        tuple((names[name], sql) for name, sql in reader.named_keys()),
        tuple((names[name], function, sql) for name, function, sql in reader.named_aggregates()),
        tuple((name, names.get(source, source)) for name, source in columns),
        condition,
        None,
        tuple(outputs),
        reader,
    )


def _read(scope: Scope, tree: exp.Select) -> tuple[AggregateReader, str | None, list[Output]]:
    reader = AggregateReader(scope, tree)
    reader.read()
    where = tree.args.get("where")
    condition = None if where is None else sql_of(checked(scope, where.this, boolean=True))
    return reader, condition, reader.outputs()


def _plain_names(reader: AggregateReader) -> dict[str, str]:
    """Names for keys and aggregates that can stand in any expression: `count_1` for `count(*)`."""
    wanted = dict.fromkeys(reader.groups.keys, "key")
    wanted |= {name: function for name, (function, _) in reader.aggregates.items()}
    names: dict[str, str] = {name: name for name in wanted if not needs_quotes(name)}
    for name, kind in wanted.items():
        if name not in names:
            number = 1
            while f"{kind}_{number}" in (*names, *names.values()):
                number += 1
            names[name] = f"{kind}_{number}"
    return names


def _refuse_functions(
    select: Select, tree: exp.Select, instead: str, name_of_error: str, what: str, *, distinct: bool
) -> None:
    clauses = (tree.args.get("having"), tree.args.get("order"))
    for part in (*tree.expressions, *(clause for clause in clauses if clause is not None)):
        for node in part.walk():
            row = aggregate_row(node)
            if row is None:
                continue
            holds = any(isinstance(argument, exp.Distinct) for argument in node.expressions)
            if row.estimator is None or (holds and not _takes_distinct(row, distinct)):
                said = f"{row.name}({'DISTINCT …' if holds else ''})"
                *others, last = (known.name for known in rows() if known.estimator and known.bind and known.has_call)
                hint = f"{instead}; what can be: {', '.join(others)} and {last}"
                raise select.error(name_of_error, f"{said} cannot be {what}", node, hint=hint)


def _takes_distinct(row: AggregateFunction, distinct: bool) -> bool:
    """Whether f(DISTINCT x) can be answered: as f(x), or where `distinct` values can be told, as a count of them."""
    if row.distinct is None:
        return False
    return row.distinct == row.name or (distinct and AGGREGATES[row.distinct].estimator is not None)


def _alone(select: Select, reader: AggregateReader, out: Output, instead: str) -> str:
    """The key or aggregate that a column is."""
    value = out.value.unnest()
    ends = WINDOW_COLUMNS if reader.scope.has_windows else ()
    if isinstance(value, exp.Column) and value.name in (*reader.groups.keys, *reader.aggregates, *ends):
        return value.name
    computed = any(used.name in reader.aggregates for used in value.find_all(exp.Column))
    raise select.error(
        "NOT_ON_REDUCED_DATA",
        f"{sql_of(out.written.unalias())} is computed from aggregates, and those alone have bounds"
        if computed
        else f"{sql_of(out.written.unalias())} is neither a key nor an aggregate",
        out.written,
        hint=f"select the aggregates by themselves, or {instead}" if computed else "group by it",
    )


def _check_reserved(
    select: Select, outputs: Sequence[Output], columns: Sequence[tuple[str, str]], reader: AggregateReader
) -> None:
    kept = {FRACTION: "the part of the rows that was read", MET: "whether WITH ERROR was reached"}
    for name, source in columns:
        if source in reader.aggregates:
            kept |= {f"{name}{bound}".lower(): f'a bound of "{name}"' for bound in BOUNDS}
    for out in outputs:
        if out.name.lower() in kept:
            raise select.error(
                "COLUMN_RESERVED",
                f'column "{out.name}" is kept for {kept[out.name.lower()]}',
                out.written,
                hint="give it another name with AS",
            )


def refuse_having(select: Select, tree: exp.Select) -> None:
    """Of groups that are chosen for their estimates, those that came out too large are chosen too often."""
    having = tree.args.get("having")
    if having is not None:
        raise select.error(
            "NOT_ON_REDUCED_DATA",
            "HAVING would choose groups by their estimates, and the bounds of those would not hold",
            having,
            hint="leave REDUCE BY out; or make it a stream, CREATE STREAM … AS SELECT …, and filter that by a bound",
            keyword="HAVING",
        )


def check_answer_names(scope: Scope, outputs: Sequence[Output], *, timed: bool) -> None:
    """No name comes twice; where the answer is `timed`, `_time` is its own."""
    stamp = None if timed else next((out for out in outputs if out.name.lower() == ARRIVAL_COLUMN), None)
    check_names(scope, outputs, stamp)


def confidence_of(select: Select, *, reduced: bool) -> float:
    """What a standing query says of its bounds: WITH CONFIDENCE, where there are any."""
    accuracy = select.accuracy
    if accuracy is None:
        return CONFIDENCE
    if accuracy.said != "WITH CONFIDENCE":
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"{accuracy.said} is for questions that are asked once",
            start=accuracy.start,
            hint="write REDUCE BY … behind SINCE, and WITH CONFIDENCE … at the end",
        )
    if not reduced:
        raise no_bounds(select)
    return accuracy.confidence


def no_bounds(select: Select) -> SqlError:
    """WITH CONFIDENCE where everything is read."""
    assert select.accuracy is not None
    return select.error(
        "NOT_IN_THE_LANGUAGE",
        "WITH CONFIDENCE is about the bounds of aggregates over part of the rows",
        start=select.accuracy.start,
        hint="leave it out, or read less with REDUCE BY …",
    )


@dataclass(frozen=True)
class _Columns:
    """A stream of which only the columns are known, which is all that an operator's own schema needs."""

    schema: pa.Schema
    time_column: str


def schema_of(select: Select, operator: Operator, schemas: dict[str, StreamSchema], start: int) -> StreamSchema:
    """The columns of an operator's answer; what the operator refuses is an error at the place `start`."""
    readers: dict[str, LogReader] = {}
    for name, schema in schemas.items():
        readers[name] = _Columns(schema.arrow, schema.time)  # type: ignore[assignment]  # it is never read
    try:
        return StreamSchema(operator.schema(Inputs(readers)), operator.time)
    except AnabranchError as problem:
        raise placed(select, start, problem) from None

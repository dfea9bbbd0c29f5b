"""Aggregates over history: each column of the answer is a key or an aggregate, and reduced data adds bounds to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.operators.base import Inputs, LogReader, Operator
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.aggregate_functions import aggregate_name
from anabranch.sql.aggregate_reader import AggregateReader
from anabranch.sql.archive_tree import CONFIDENCE
from anabranch.sql.columns import Scope, sql_of
from anabranch.sql.group_by import checked
from anabranch.sql.rows import Output, check_names
from anabranch.sql.tree import Select

FRACTION = "_fraction"
"""The column that says which part of the rows an answer was made from."""
BOUNDS = ("_low", "_high")
"""What is put behind the name of an aggregate for the columns of its bounds."""

_ANSWERED = ("count", "sum", "avg", "min", "max")
_INSTEAD = "; there are: count, sum, avg, min and max"


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
    """Keys (name, SQL), aggregates (name, function, SQL), and the answer's columns by the name of either."""

    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    filter: str | None
    outputs: tuple[Output, ...]
    reader: AggregateReader


def read_aggregates(scope: Scope, tree: exp.Select, instead: str, *, bounds: bool, distinct: bool) -> Aggregates:
    """The select list, WHERE and GROUP BY of a query with plain aggregates.

    `bounds`: the answer has more columns for each aggregate. `distinct`: count(DISTINCT x) can be answered, too.
    `instead` is the hint for what cannot.
    """
    _refuse_functions(scope.select, tree, instead, distinct=distinct)
    reader = AggregateReader(scope, tree)
    reader.read()
    where = tree.args.get("where")
    condition = checked(scope, where.this, boolean=True) if where is not None else None
    outputs = reader.outputs()
    columns = tuple((out.name, _plain(scope.select, reader, out, instead)) for out in outputs)
    reader.check(outputs, None)
    if bounds:
        _check_reserved(scope.select, outputs, columns, reader)
    return Aggregates(
        reader.named_keys(),
        reader.named_aggregates(),
        columns,
        None if condition is None else sql_of(condition),
        tuple(outputs),
        reader,
    )


def _refuse_functions(select: Select, tree: exp.Select, instead: str, *, distinct: bool) -> None:
    order = tree.args.get("order")
    for part in (*tree.expressions, *([order] if order is not None else ())):
        for node in part.walk():
            name = aggregate_name(node)
            if name is None:
                continue
            holds = any(isinstance(each, exp.Distinct) for each in node.expressions)
            if name not in _ANSWERED or (holds and name not in ("min", "max", *(("count",) if distinct else ()))):
                raise select.error(
                    "NOT_ON_REDUCED_DATA",
                    f"{name}({'DISTINCT …' if holds else ''}) cannot be answered from part of the rows, or piece by piece",
                    node,
                    hint=instead + _INSTEAD,
                )


def _plain(select: Select, reader: AggregateReader, out: Output, instead: str) -> str:
    """The key or aggregate that a column is."""
    value = out.value.unnest()
    if isinstance(value, exp.Column) and value.name in (*reader.groups.keys, *reader.aggregates):
        return value.name
    computed = any(each.name in reader.aggregates for each in value.find_all(exp.Column))
    raise select.error(
        "NOT_ON_REDUCED_DATA",
        f"{sql_of(out.written.unalias())} is computed from "
        + ("aggregates, and only aggregates themselves have bounds" if computed else "no aggregate, and no key"),
        out.written,
        hint=(f"select the aggregates by themselves, or {instead}" if computed else "group by it"),
    )


def _check_reserved(
    select: Select, outputs: Sequence[Output], columns: Sequence[tuple[str, str]], reader: AggregateReader
) -> None:
    kept = {FRACTION: "the part of the rows that was read"}
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
        "WITH CONFIDENCE is about bounds, and an answer from all rows has none",
        start=select.accuracy.start,
        hint="leave it out, or add REDUCE BY …",
    )


@dataclass(frozen=True)
class _Columns:
    """A stream of which only the columns are known, which is all that an operator's own schema needs."""

    schema: pa.Schema
    time_column: str


def schema_of(operator: Operator, schemas: dict[str, StreamSchema]) -> StreamSchema:
    """The columns of an operator's answer."""
    readers: dict[str, LogReader] = {}
    for name, schema in schemas.items():
        readers[name] = _Columns(schema.arrow, schema.time)  # type: ignore[assignment]  # it is never read
    return StreamSchema(operator.schema(Inputs(readers)), operator.time)

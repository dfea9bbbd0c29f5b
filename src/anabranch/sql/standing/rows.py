"""Standing queries without aggregates: each row of the stream by itself gives one answer row or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.operators.select import SelectRows
from anabranch.operators.unnest import UnnestRows
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema, sql_type
from anabranch.sql.checking.safety import spark_text
from anabranch.sql.checking.time_texts import without_the_clock
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import Scope, column, conjuncts, joined, sql_of
from anabranch.sql.standing.fields import last_field
from anabranch.sql.standing.sources import IN_WINDOWS, Lookup, one_stream, refuse_clauses, refuse_emit
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.standing.unnest import ElementScope, with_elements, without_laterals
from anabranch.sql.tree import Select

INPUT_VIEW = "__input"
"""The name under which Spark SQL sees what the operator delivers."""


@dataclass(frozen=True)
class Output:
    """One column of the answer: its name, what it is, and where it was written."""

    name: str
    value: exp.Expr
    written: exp.Expr


@dataclass(frozen=True)
class RowAnswer:
    """The columns an operator delivers, (name, SQL), with their time, and the Spark SQL behind it, if any."""

    columns: tuple[tuple[str, str], ...]
    operator_time: str
    residual_sql: str | None
    schema: StreamSchema | None
    time: str


def is_of_rows(select: Select) -> bool:
    """What nothing else has claimed is read row by row."""
    return True


def plan_rows(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator, and the Spark SQL behind it where Arrow cannot do an expression."""
    laterals, bare = without_laterals(select)
    one, tree = one_stream(bare, lookup)
    refuse_clauses(select, tree, IN_WINDOWS)
    refuse_emit(select)
    refuse_hints(select, "the query has no window")
    scope = with_elements(one, laterals)
    filter_sql, rest = conditions_of(scope, tree)
    answer = answer_of_rows(scope, tree, rest)
    operator = SelectRows(scope.stream, answer.columns, answer.operator_time, filter_sql)
    if isinstance(scope, ElementScope):
        operator = UnnestRows(scope.stream, answer.columns, answer.operator_time, filter_sql, scope.arrays)
    return StandingPlan(operator, answer.residual_sql, answer.schema, answer.time)


def conditions_of(scope: Scope, tree: exp.Select) -> tuple[str | None, list[exp.Expr]]:
    """The parts of WHERE that are applied while reading, and those that Arrow cannot evaluate."""
    where = tree.args.get("where")
    parts = conjuncts(scope.resolve(where.this)) if where is not None else []
    for part in parts:
        check_condition(scope, part)
    pushable = [part for part in parts if scope.can_compile(part)]
    rest = [part for part in parts if not any(part is pushed for pushed in pushable)]
    filter_tree = joined(pushable)
    return sql_of(filter_tree) if filter_tree is not None else None, rest


def answer_of_rows(scope: Scope, tree: exp.Select, rest: list[exp.Expr]) -> RowAnswer:
    """The select list, row by row; `rest` are conditions that are left to Spark SQL."""
    outputs = _outputs(scope, tree)
    stamp = next((out for out in outputs if _is_time(scope, out.value)), None)
    if stamp is None:
        stamp = Output(ARRIVAL_COLUMN, column(scope.schema.time), tree)
        outputs.append(stamp)
    check_names(scope, outputs, stamp)
    if rest or not all(scope.can_compile(out.value) for out in outputs):
        used = {node.name for tree in [*(out.value for out in outputs), *rest] for node in tree.find_all(exp.Column)}
        raw = [name for name in scope.schema.names if name in used or name == scope.schema.time]
        columns = tuple((name, sql_of(column(name))) for name in raw)
        return RowAnswer(columns, scope.schema.time, spark_rest(outputs, rest), None, stamp.name)
    columns = tuple((out.name, sql_of(out.value)) for out in outputs)
    schema = answer_schema(scope, outputs, stamp.name, scope.schema.arrow)
    return RowAnswer(columns, stamp.name, None, schema, stamp.name)


def spark_rest(outputs: Sequence[Output], rest: list[exp.Expr]) -> str:
    """The Spark SQL that makes the outputs of what an operator delivers, where the rest of the conditions holds."""
    residual = exp.select(*(exp.alias_(out.value.copy(), out.name, quoted=True) for out in outputs)).from_(
        exp.to_table(INPUT_VIEW)
    )
    condition = joined(rest)
    if condition is not None:
        residual = residual.where(condition)
    return spark_text(without_the_clock(residual))


def _outputs(scope: Scope, tree: exp.Select) -> list[Output]:
    outputs: list[Output] = []
    aliases: dict[str, exp.Expr] = {}
    for item in tree.expressions:
        star = star_of(item)
        if star is not None:
            outputs.extend(Output(name, column(name), item) for name in star_names(scope, item, star))
            continue
        value = scope.resolve(item.this if isinstance(item, exp.Alias) else item, aliases)
        outputs.append(Output(output_name(item, value), value, item))
        if isinstance(item, exp.Alias):
            aliases.setdefault(item.alias.lower(), value)
    return outputs


def star_of(item: exp.Expr) -> exp.Star | None:
    """The star of `*` and `p.*`."""
    if isinstance(item, exp.Star):
        return item
    return item.this if isinstance(item, exp.Column) and isinstance(item.this, exp.Star) else None


def star_names(scope: Scope, item: exp.Expr, star: exp.Star) -> list[str]:
    """The columns a star stands for."""
    if isinstance(item, exp.Column):
        scope.name_of(item)
    if star.args.get("replace") or star.args.get("rename"):
        raise scope.select.error("NOT_IN_THE_LANGUAGE", "* can only be followed by EXCEPT", item)
    left_out: set[str] = set()
    for left_out_column in star.args.get("except_") or ():
        name = scope.find(left_out_column.name)
        if name is None:
            raise scope.not_found(left_out_column, [])
        left_out.add(name)
    return [name for name in scope.schema.names if name not in left_out]


def output_name(item: exp.Expr, value: exp.Expr) -> str:
    """The name of an answer column: its alias, the name of the column or field, or the expression's text."""
    if isinstance(item, exp.Alias):
        return item.alias
    field = last_field(value)
    if field is not None:
        return field
    return value.name if isinstance(value, exp.Column) else sql_of(item).replace("`", "").replace("${", "{")


def _is_time(scope: Scope, value: exp.Expr) -> bool:
    return isinstance(value, exp.Column) and value.name == scope.schema.time


def check_names(scope: Scope, outputs: Sequence[Output], stamp: Output | None) -> None:
    """No two answer columns may have one name, and only the time may be called `_time`."""
    seen: set[str] = set()
    for out in outputs:
        if out.name.lower() == ARRIVAL_COLUMN and out is not stamp:
            raise scope.select.error(
                "COLUMN_RESERVED",
                f'column "{ARRIVAL_COLUMN}" is kept for the time',
                out.written,
                hint="give it another name with AS",
            )
        if out.name.lower() in seen:
            raise scope.select.error(
                "COLUMN_EXISTS",
                f'column "{out.name}" comes twice in the answer',
                out.written,
                hint="give one of them another name with AS",
            )
        seen.add(out.name.lower())


def check_condition(scope: Scope, condition: exp.Expr, schema: pa.Schema | None = None) -> None:
    """A condition must be BOOLEAN, as far as it is known without Spark."""
    try:
        type_ = scope.compile(condition, schema).type
    except NotEvaluable:
        return
    if not (pa.types.is_boolean(type_) or pa.types.is_null(type_)):
        raise scope.select.error(
            "CONDITION_NOT_BOOLEAN",
            f"the condition {sql_of(condition)} is {type_name(type_)}, it must be BOOLEAN",
            condition,
        )


def type_name(type_: pa.DataType) -> str:
    try:
        return sql_type(type_)
    except AnabranchError:
        return str(type_)


def answer_schema(scope: Scope, outputs: Sequence[Output], time: str, schema: pa.Schema) -> StreamSchema:
    """The answer's columns; each must be of a type a stream can hold."""
    fields: list[pa.Field] = []
    for out in outputs:
        type_ = scope.compile(out.value, schema).type
        try:
            sql_type(type_)
        except AnabranchError:
            raise scope.select.error(
                "TYPE_NOT_SUPPORTED",
                f'column "{out.name}" of the answer is {type_}, which a stream cannot hold',
                out.written,
                hint="give it a type with CAST",
            ) from None
        fields.append(pa.field(out.name, type_))
    return StreamSchema(pa.schema(fields), time)

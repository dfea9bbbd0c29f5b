"""Types of expressions, and what Arrow cannot evaluate as Spark does."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError, SqlError
from anabranch.expressions import NotEvaluable
from anabranch.expressions.types import widest
from anabranch.schema import sql_type
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import column, sql_of
from anabranch.sql.standing.rows import type_name
from anabranch.sql.tree import Select

INSTEAD = "compute it in a CREATE STREAM … AS SELECT … first and read that stream"


def type_of(select: Select, value: exp.Expr, schema: pa.Schema, written: exp.Expr | None = None) -> pa.DataType:
    """The type of an expression over the columns of a schema; one that needs Spark is refused where it stands."""
    place = value if written is None else written
    if isinstance(value, exp.Column) and value.name in schema.names:
        return schema.field(value.name).type
    try:
        return expressions.compile(sql_of(value), schema).type
    except NotEvaluable:
        raise _needs_spark(select, value, schema, place) from None
    except AnabranchError as problem:
        raise select.error(problem.name, problem.message, place, detail=problem.detail, hint=problem.hint) from None


def is_evaluable(value: exp.Expr, schema: pa.Schema) -> bool:
    """Whether Arrow evaluates an expression as Spark does."""
    try:
        expressions.compile(sql_of(value), schema)
    except (NotEvaluable, AnabranchError):
        return False
    return True


def check_boolean(select: Select, condition: exp.Expr, schema: pa.Schema, written: exp.Expr | None = None) -> None:
    """A condition must be BOOLEAN."""
    type_ = type_of(select, condition, schema, written)
    if not (pa.types.is_boolean(type_) or pa.types.is_null(type_)):
        raise select.error(
            "CONDITION_NOT_BOOLEAN",
            f"the condition {shown(condition)} is {type_name(type_)}, it must be BOOLEAN",
            condition if written is None else written,
        )


def shown(value: exp.Expr) -> str:
    """An expression as errors show it."""
    return sql_of(value).replace("`", "")


def converted(name: str, type_: pa.DataType, to: pa.DataType) -> exp.Expr:
    """A column in another type; raises NotEvaluable where Arrow cannot do the conversion."""
    if type_.equals(to):
        return column(name)
    if pa.types.is_null(type_):
        return null_of(to)
    value = exp.cast(column(name), sql_type(to), dialect="spark")
    expressions.compile(sql_of(value), pa.schema([(name, type_)]))
    return value


def null_of(type_: pa.DataType) -> exp.Expr:
    """NULL of a type."""
    return exp.Null() if pa.types.is_null(type_) else exp.cast(exp.Null(), sql_type(type_), dialect="spark")


def common_type(first: pa.DataType, second: pa.DataType) -> pa.DataType:
    """The type in which Spark unites two, checked to be one that Arrow converts both to; raises NotEvaluable."""
    type_ = first if first.equals(second) else widest(first, second)
    for each in (first, second):
        converted("x", each, type_)
    return type_


def constant_of(value: exp.Expr) -> object:
    """The value of an expression without columns; raises NotEvaluable or AnabranchError for any other."""
    compiled = expressions.compile(sql_of(value), pa.schema([]))
    return compiled.evaluate(pa.table({"": pa.nulls(1)}))[0].as_py()


def _needs_spark(select: Select, value: exp.Expr, schema: pa.Schema, place: exp.Expr) -> SqlError:
    culprit, reason = _culprit(value, schema)
    name = called(culprit)
    what = f"{name}()" if name else shown(place.unalias() if culprit is value else culprit)
    if any("start" in node.meta for node in culprit.walk()):
        place = culprit
    return select.error(
        "EXPRESSION_NEEDS_SPARK",
        f"{what} needs Spark SQL, which cannot keep an answer that changes",
        place,
        detail=reason,
        hint=INSTEAD,
    )


def _culprit(value: exp.Expr, schema: pa.Schema) -> tuple[exp.Expr, str]:
    """The smallest part of an expression that Arrow cannot evaluate, and why."""
    for part in value.iter_expressions():
        if not isinstance(part, exp.DataType | exp.Var | exp.Identifier | exp.If) and _reason(part, schema):
            return _culprit(part, schema)
        if isinstance(part, exp.If):
            for inner in part.iter_expressions():
                if _reason(inner, schema):
                    return _culprit(inner, schema)
    return value, _reason(value, schema) or ""


def _reason(value: exp.Expr, schema: pa.Schema) -> str | None:
    if isinstance(value, exp.Interval | exp.Tuple):
        return None
    try:
        expressions.compile(sql_of(value), schema)
    except NotEvaluable as problem:
        return problem.reason.replace("`", "")
    except AnabranchError as problem:
        return problem.message
    return None

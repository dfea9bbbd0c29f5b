"""From SQL text to something that can be evaluated, once per text and schema.

Only what means the same in the parser's grammar and in Spark's is accepted: where the two bind
operators differently (bits and `||`, comparisons of comparisons), parentheses are wanted.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.errors import SqlError, did_you_mean
from anabranch.expressions import expr
from anabranch.expressions.expr import Expr, NotEvaluable
from anabranch.expressions.functions import SCALARS
from anabranch.expressions.reading import read
from anabranch.expressions.rules import REFUSED, RULES
from anabranch.expressions.types import INTERVAL, column_type

CACHE_SIZE = 4096
MAX_DEPTH = 100
"""Deeper trees are left to Spark: each level takes Python's stack."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (*_COMPARISONS, exp.Is, exp.In, exp.Between, exp.Like)
_BITS = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.DPipe)


@dataclass(frozen=True)
class Compiled:
    """An expression ready to be evaluated on tables of its schema.

    `columns` are the columns it reads, as the schema spells them; `type` is the type Spark gives it.
    """

    sql: str
    columns: tuple[str, ...]
    type: pa.DataType
    _expr: Expr = field(repr=False, compare=False)

    def evaluate(self, table: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Its value for each row of `table`."""
        values = self._expr.run(table)
        return pa.repeat(values, table.num_rows) if isinstance(values, pa.Scalar) else values


def compile(sql: str | exp.Expr, schema: pa.Schema) -> Compiled:
    """`sql`, a Spark SQL expression over the columns of `schema`, ready to be evaluated without Spark.

    Raises NotEvaluable if that could give another answer than Spark, SqlError if the text is wrong.

    >>> table = pa.table({"length": pa.array([40, 1500], pa.int32())})
    >>> compile("length > 1000", table.schema).evaluate(table).to_pylist()
    [False, True]
    """
    if isinstance(sql, str):
        return _compile_text(sql, schema)
    return _compile_node(sql, sql.sql(dialect="spark"), schema)


@functools.lru_cache(CACHE_SIZE)
def _compile_text(sql: str, schema: pa.Schema) -> Compiled:
    return _compile_node(_parse(sql), sql, schema)


def _parse(sql: str) -> exp.Expr:
    try:
        return read(sql)
    except SqlglotError as problem:
        places: list[dict[str, Any]] = getattr(problem, "errors", [])
        line, column = (places[0].get("line"), places[0].get("col")) if places else (None, None)
        raise SqlError("SYNTAX_ERROR", f"{sql!r} is not an expression", line=line, column=column) from None
    except RecursionError:
        raise NotEvaluable("it is nested too deeply") from None


def _compile_node(node: exp.Expr, sql: str, schema: pa.Schema) -> Compiled:
    builder = _Builder(schema)
    result = builder.build(node)
    if result.type.equals(INTERVAL):
        raise NotEvaluable("an INTERVAL is not a value of a column")
    return Compiled(sql, tuple(builder.read), result.type, result)


class _Builder:
    """Compiles the nodes of one expression and notes the columns they read."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.read: dict[str, None] = {}
        self.depth = 0

    def build(self, node: exp.Expr) -> Expr:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotEvaluable(f"it is nested more than {MAX_DEPTH} deep")
        built = self._build(node)
        self.depth -= 1
        return built

    def _build(self, node: exp.Expr) -> Expr:
        if type(node) is exp.Column:
            return self._column(node)
        if type(node) is exp.Anonymous:
            return self._named(node)
        rule = RULES.get(type(node))
        if rule is None:
            reason = REFUSED.get(type(node), "it is not evaluated here")
            raise NotEvaluable(f"{node.sql(dialect='spark')}: {reason}")
        for argument, value in node.args.items():
            if value and argument not in rule.args:
                raise NotEvaluable(f"{node.sql(dialect='spark')}: {argument} is not evaluated here")
        _check_grouping(node)
        return rule.handler(node, self.build)

    def _named(self, node: exp.Anonymous) -> Expr:
        row = SCALARS.get(node.name.lower())
        rule = None if row is None else row.rules.get(exp.Anonymous)
        if rule is None:
            raise NotEvaluable(f"{node.sql(dialect='spark')}: it is not evaluated here")
        return rule.handler(node, self.build)

    def _column(self, node: exp.Column) -> Expr:
        if not isinstance(node.this, exp.Identifier):
            raise NotEvaluable(f"{node.sql(dialect='spark')} is not a column")
        wanted = node.name.lower()
        names = [known for known in self.schema.names if known.lower() == wanted]
        place = node.this.meta
        line, end = place.get("line"), place.get("col")
        column = end - (place["end"] - place["start"]) if end is not None else None
        if len(names) > 1:
            raise SqlError("COLUMN_AMBIGUOUS", f'column "{node.name}" is there twice', line=line, column=column)
        if not names:
            raise SqlError(
                "COLUMN_NOT_FOUND",
                f'column "{node.name}" does not exist',
                hint=did_you_mean(node.name, self.schema.names),
                line=line,
                column=column,
            )
        self.read[names[0]] = None
        return expr.column(names[0], column_type(self.schema.field(names[0]).type))


def _check_grouping(node: exp.Expr) -> None:
    """Refuses what Spark's grammar may group in another way than the parser did."""
    kinds: tuple[type[exp.Expr], ...]
    if isinstance(node, _PREDICATES):
        kinds = (*_PREDICATES, exp.Not)
    elif isinstance(node, exp.DPipe):
        kinds = (*_BITS, exp.Add, exp.Sub)
    elif isinstance(node, _BITS):
        kinds = _BITS
    else:
        return
    for side in (node.this, node.args.get("expression")):
        if isinstance(side, kinds) and type(side) is not type(node):
            raise NotEvaluable(f"{node.sql(dialect='spark')}: parentheses have to say what belongs together")
        if isinstance(side, _PREDICATES) and isinstance(node, _PREDICATES):
            raise NotEvaluable(f"{node.sql(dialect='spark')}: parentheses have to say what belongs together")

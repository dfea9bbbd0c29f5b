"""The answer of a join or merge: its columns over the joined row, and what of them is left to Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.joins.scope import JoinScope, star_columns
from anabranch.sql.standing.columns import column, sql_of
from anabranch.sql.standing.rows import Output, answer_schema, check_names, output_name, spark_rest, star_of


@dataclass(frozen=True)
class JoinAnswer:
    """What the operator computes, (name, SQL), and the Spark SQL behind it where Arrow cannot do an expression.

    `time` is the answer's time column, `operator_time` that of what the operator delivers.
    """

    columns: tuple[tuple[str, str], ...]
    operator_time: str
    residual_sql: str | None
    schema: StreamSchema | None
    time: str


def answer_of(scope: JoinScope, tree: exp.Select, rest: Sequence[exp.Expr]) -> JoinAnswer:
    """The select list over a scope with results; `rest` are the conditions that Arrow cannot evaluate."""
    outputs = _outputs(scope, tree)
    stamp = next((out for out in outputs if out.value == column(ARRIVAL_COLUMN)), None)
    if stamp is None:
        stamp = Output(ARRIVAL_COLUMN, column(ARRIVAL_COLUMN), tree)
        outputs.append(stamp)
    check_names(scope, outputs, stamp)
    if rest or not all(scope.can_compile(out.value) for out in outputs):
        trees = [*(out.value for out in outputs), *rest]
        used = {node.name for tree in trees for node in tree.find_all(exp.Column)}
        raw = [name for name in scope.schema.names if name in used or name == ARRIVAL_COLUMN]
        columns = tuple((name, sql_of(column(name))) for name in raw)
        return JoinAnswer(columns, ARRIVAL_COLUMN, spark_rest(outputs, list(rest)), None, stamp.name)
    columns = tuple((out.name, sql_of(out.value)) for out in outputs)
    schema = answer_schema(scope, outputs, stamp.name, scope.schema.arrow)
    return JoinAnswer(columns, stamp.name, None, schema, stamp.name)


def _outputs(scope: JoinScope, tree: exp.Select) -> list[Output]:
    outputs: list[Output] = []
    aliases: dict[str, exp.Expr] = {}
    for item in tree.expressions:
        star = star_of(item)
        if star is not None:
            outputs.extend(Output(name, value, item) for name, value in star_columns(scope, item, star))
            continue
        value = scope.resolve(item.this if isinstance(item, exp.Alias) else item, aliases)
        name = scope.spelled(item) if isinstance(item, exp.Column) else output_name(item, value)
        outputs.append(Output(name, value, item))
        if isinstance(item, exp.Alias):
            aliases.setdefault(item.alias.lower(), value)
    return outputs

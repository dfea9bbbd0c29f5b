"""Combinations: arithmetic of aggregates over different streams and joins, answered once per period.

`SELECT (SELECT count(*) FROM a, b WINDOW = … WHERE …) / (SELECT count(*) FROM b) AS fraction
EMIT EVERY INTERVAL 1 MINUTE` is query Q2 of S. Babu and J. Widom, "Continuous Queries over Data
Streams" (2001). Each subquery is a part: one aggregate over the rows, or results, of the period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from anabranch.operators.join.combination import WindowCombination
from anabranch.schema import ARRIVAL_COLUMN, StreamSchema
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.checking.join_clauses import refuse_join_clauses
from anabranch.sql.joins.combination_parts import Part, plan_part
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, column, sql_of, window_column, without_own_functions
from anabranch.sql.standing.rows import Output, answer_schema, check_names, output_name, spark_rest
from anabranch.sql.standing.sources import KEYWORDS, Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, Side, Window
from anabranch.sql.windows.aggregate_functions import aggregate_name
from anabranch.sql.windows.windowed import stamp_of, time_of, window_fields


def is_combination(select: Select) -> bool:
    """True for a SELECT without FROM that says how often to answer."""
    return isinstance(select.tree, exp.Select) and select.tree.args.get("from_") is None and select.every is not None


def plan_combination(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator of a combination, and what Spark SQL does with its parts where Arrow cannot."""
    refuse_archives(select)
    refuse_join_clauses(replace(select, emit=None))
    refuse_hints(select, "the query has no window")
    return _Planner(select, lookup).plan()


@dataclass
class _Planner:
    """Collects the parts while the select list is rewritten over their names."""

    select: Select
    lookup: Lookup
    parts: dict[str, Part] = field(default_factory=dict)
    known: dict[tuple[exp.Expr, tuple[Side, ...]], str] = field(default_factory=dict)

    def plan(self) -> StandingPlan:
        tree, period = self.select.tree, self.select.every
        assert isinstance(tree, exp.Select)
        assert period is not None
        self._check_clauses(tree)
        window = Window("time", period, period)
        outputs = self._outputs(tree)
        if not self.parts:
            raise self.select.error(
                "NOT_IN_THE_LANGUAGE", "a standing query reads a stream", tree, hint="add FROM with a stream's name"
            )
        first = next(iter(self.parts.values())).operator.inputs[0]
        schema = pa.schema([*((name, part.type) for name, part in self.parts.items()), *window_fields(window)])
        scope = Scope(self.select, first, first, StreamSchema(schema, WINDOW_COLUMNS[1]))
        stamp = stamp_of(outputs, window)
        if stamp is None:
            stamp = Output(ARRIVAL_COLUMN, time_of(window), tree)
            outputs.append(stamp)
        check_names(scope, outputs, stamp)
        columns, time = tuple((out.name, sql_of(out.value)) for out in outputs), stamp.name
        if not all(scope.can_compile(out.value) for out in outputs):
            used = {node.name for out in outputs for node in out.value.find_all(exp.Column)}
            raw = tuple((name, sql_of(column(name))) for name in schema.names if name in used)
            operator = self._operator(period, raw, scope.schema.time)
            return StandingPlan(operator, spark_rest(outputs, []), None, time)
        answer = answer_schema(scope, outputs, time, schema)
        return StandingPlan(self._operator(period, columns, time), None, answer, time)

    def _operator(self, period: int, columns: tuple[tuple[str, str], ...], time: str) -> WindowCombination:
        parts = tuple((name, part.operator, part.empty) for name, part in self.parts.items())
        return WindowCombination(period, parts, columns, time)

    def _check_clauses(self, tree: exp.Select) -> None:
        for name, value in tree.args.items():
            if value and name not in ("kind", "expressions"):
                said = KEYWORDS.get(name, name.strip("_").upper())
                raise self.select.error(
                    "NOT_IN_THE_LANGUAGE",
                    f"a SELECT of aggregates without FROM cannot have {said}",
                    value if isinstance(value, exp.Expr) else tree,
                    hint="put it into the subqueries",
                )

    # -- the select list ---------------------------------------------------------------------------

    def _outputs(self, tree: exp.Select) -> list[Output]:
        outputs: list[Output] = []
        aliases: dict[str, exp.Expr] = {}
        for item in tree.expressions:
            value = self._rewrite(item.unalias(), aliases)
            outputs.append(Output(output_name(item, exp.Null()), value, item))
            if isinstance(item, exp.Alias):
                aliases.setdefault(item.alias.lower(), value)
        return outputs

    def _rewrite(self, written: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        """The expression over the names of the parts and the ends of the period."""

        def put_in(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Subquery) and not isinstance(node.parent, exp.In | exp.SubqueryPredicate):
                return column(self._part(node))
            if isinstance(node, exp.Query):
                raise self.select.error(
                    "NOT_IN_THE_LANGUAGE",
                    "only single values can be combined",
                    node,
                    hint="write the subquery as a value: (SELECT count(*) FROM …) > 0",
                )
            if aggregate_name(node):
                raise self.select.error(
                    "AGGREGATE_MISPLACED",
                    f"{aggregate_name(node)}() has no stream",
                    node,
                    hint=f"write (SELECT {aggregate_name(node)}(…) FROM …)",
                )
            return self._name(node, aliases) if isinstance(node, exp.Column | exp.Star) else node

        return without_own_functions(written.copy().transform(put_in))

    def _name(self, node: exp.Expr, aliases: Mapping[str, exp.Expr]) -> exp.Expr:
        name = window_column(node)
        if name is not None:
            return column(name)
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in aliases:
            return exp.Paren(this=aliases[node.name.lower()].copy())
        said = node.name if isinstance(node, exp.Column) else "*"
        raise self.select.error(
            "COLUMN_NOT_FOUND",
            f'"{said}" stands outside of the subqueries, where there are no rows',
            node,
            hint="use it inside an aggregate: (SELECT max(…) FROM …)",
        )

    def _part(self, node: exp.Subquery) -> str:
        """Takes note of a subquery, once, and gives its name."""
        key = (node.unnest(), self.select.subquery(node.unnest()).sides)
        if key not in self.known:
            name = f"part{len(self.parts) + 1}"
            self.parts[name] = plan_part(self.select, node, name, self.lookup)
            self.known[key] = name
        return self.known[key]

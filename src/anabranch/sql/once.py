"""A SELECT asked once: Spark SQL over what the streams hold, with every stream behind a safe name.

All of Spark's queries are allowed (joins, subqueries, ORDER BY…), over streams of the catalog only.
A SELECT with a WINDOW, a MERGE JOIN, SINCE or a join with the past is planned as a standing query, to be run over
what the stream holds. Aggregates over part of an archive are a question of their own (`archives`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError
from anabranch.operators.table.scan import TableScan
from anabranch.schema import sql_type
from anabranch.sql.as_of import AsOf, is_of_each_row
from anabranch.sql.checking.archive_clauses import refuse_windows
from anabranch.sql.checking.inner_clauses import refuse_bounding, refuse_inner
from anabranch.sql.checking.safety import check_tree, too_large
from anabranch.sql.explain import as_json, once_as_text
from anabranch.sql.history.archives import ArchiveQuestion
from anabranch.sql.history.joins import is_history_join
from anabranch.sql.history.landmarks import is_landmark
from anabranch.sql.history.questions import question_of
from anabranch.sql.joins.combinations import is_combination
from anabranch.sql.joins.outer import is_outer_join
from anabranch.sql.joins.tables import is_table_join
from anabranch.sql.merges.merge import is_merge
from anabranch.sql.over_views import StreamUse, Tables, log_of, over_views, tables_of, version_of
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import NONE_REGISTERED, Registered
from anabranch.sql.standing.columns import Scope, column, sql_of, without_own_functions
from anabranch.sql.standing.plan import plan_standing
from anabranch.sql.standing.rows import conditions_of, star_names, star_of
from anabranch.sql.standing.sources import Lookup, look_up, refuse_emit, stream_name
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.composed import is_composed
from anabranch.sql.windows.aggregate_functions import aggregate_row, is_aggregate

_ROWS_ALONE = {"expressions", "from_", "where"}


@dataclass(frozen=True)
class RowsHere:
    """Rows of one table whose columns and filter need no Spark."""

    table: str
    scan: TableScan
    as_of: AsOf | None


@dataclass(frozen=True)
class OncePlan:
    """`sql` runs in Spark over the views of `streams`; or `standing` is run over what the stream holds.

    What is run is `guarded`: the same, with sums that fail where they overflow. Or it is a `question` to an archive,
    answered with bounds. `ended`: the streams count as ended, so what waits for rows to come is answered, too.
    `in_any_order`: rows may be read in any order, as the answer is made of aggregates that all give the same.
    `here`: what Spark would do can be done without.
    """

    sql: str | None
    streams: tuple[StreamUse, ...] = ()
    standing: StandingPlan | None = None
    question: ArchiveQuestion | None = None
    guarded: str | None = None
    ended: bool = False
    in_any_order: bool = False
    here: RowsHere | None = None

    def explain(self) -> dict[str, Any]:
        if self.standing is not None:
            return self.standing.explain()
        if self.question is not None:
            return {"question": self.question.explain(), "runs_in_spark_sql": False}
        if self.here is not None:
            here = self.here
            said = {"table": here.table, "columns": dict(here.scan.columns), "filter": here.scan.filter}
            return {**said, **({} if here.as_of is None else here.as_of.explain()), "runs_in_spark_sql": False}
        return {"sql": self.sql, "streams": [use.explain() for use in self.streams], "runs_in_spark_sql": True}

    def archives(self) -> list[tuple[str, str | None]]:
        """The streams that are read from their archives, and from which, where it is named."""
        uses = [(use.stream, use.archive.name) for use in self.streams if use.archive is not None]
        return uses if self.question is None else [*uses, (self.question.stream, self.question.archive)]

    def explain_text(self) -> str:
        return self.standing.explain_text() if self.standing is not None else once_as_text(self.explain())

    def explain_json(self) -> str:
        return as_json(self.explain())


def plan_once(
    select: Select, lookup: Lookup, reducers: Registered = NONE_REGISTERED, tables: Tables = lambda name: None
) -> OncePlan:
    """The plan of a SELECT that is asked once; `reducers` are the user's own, `tables` are read as they are."""
    refuse_bounding(select)
    of_windows = bool(select.windows) and is_composed(select)
    refuse_inner(select, windows=is_combination(select) or of_windows)
    past = is_landmark(select) or (is_history_join(select) and isinstance(select.tree, exp.Select))
    windowed = (
        select.window is not None or bool(select.pairs) or is_merge(select) or is_combination(select) or of_windows
    )
    if windowed and not past:
        refuse_windows(select)
    as_it_was = is_table_join(select) and any(map(is_of_each_row, select.tree.find_all(exp.Table)))
    if windowed or past or as_it_was:
        ended = is_merge(select) or as_it_was or is_outer_join(select)
        plan = plan_standing(select, lookup, reducers)
        if of_windows and plan.operator.answer_key:
            raise select.error(
                "NOT_IN_THE_LANGUAGE",
                "asked once, windows are combined with windows that end together, and nothing else",
                select.tree,
                hint="give all of them the same WINDOW = …, or make a view of it",
            )
        return OncePlan(None, standing=plan, ended=ended)
    try:
        return _plan(select, lambda name: tables(name) or lookup(name), reducers, tables)
    except RecursionError:
        raise too_large(select) from None


def _plan(select: Select, lookup: Lookup, reducers: Registered, known: Tables) -> OncePlan:
    check_tree(select, standing=False)
    refuse_emit(select)
    refuse_hints(select, "the query has no window")
    question = question_of(select, lookup, reducers)
    if question is not None:
        return OncePlan(None, question=question)
    tree = without_own_functions(select.tree.copy())
    here = _rows_here(select, tree, lookup, known)
    asked = over_views(select, tree, lookup, reducers, lambda name: known(name) is not None, versions=True)
    in_any_order = _is_in_any_order(select.tree)
    return OncePlan(asked.sql, asked.streams, guarded=asked.guarded, in_any_order=in_any_order, here=here)


def _rows_here(select: Select, tree: exp.Expr, lookup: Lookup, known: Tables) -> RowsHere | None:
    """A SELECT of one table's rows that needs no more than expressions Arrow has."""
    if not isinstance(tree, exp.Select):
        return None
    tables = tables_of(select, tree)
    plain = not any(tree.args.get(part) for part in tree.args.keys() - _ROWS_ALONE)
    if len(tables) != 1 or not plain or known(stream_name(tables[0])) is None:
        return None
    table = tables[0]
    if table.parent is not tree.args.get("from_") or any(
        table.args.get(part) for part in ("joins", "laterals", "pivots")
    ):
        return None
    schema = look_up(select, table, lookup, as_of=True)
    version = version_of(select, table, lambda name: known(name) is not None)
    scope = Scope(select, stream_name(table), table.alias or table.name, schema)
    try:
        condition, rest = conditions_of(scope, tree)
        columns = [column for item in tree.expressions for column in _columns_here(scope, item)]
    except (AnabranchError, expressions.NotEvaluable):  # Spark does it, or says what is wrong
        return None
    if rest or len({name.lower() for name, _ in columns}) < len(columns):
        return None
    scan = TableScan(log_of(scope.stream, schema), tuple(columns), schema.time, condition, schema.key)
    return RowsHere(scope.stream, scan, version)


def _columns_here(scope: Scope, item: exp.Expr) -> list[tuple[str, str]]:
    """The columns of one item of the list, (name, SQL); NotEvaluable if it has no name of its own, or needs Spark."""
    star = star_of(item)
    if star is not None:
        return [(name, sql_of(column(name))) for name in star_names(scope, item, star)]
    if not isinstance(item, exp.Alias | exp.Column):
        raise expressions.NotEvaluable("only Spark knows what the column is called")
    value = scope.resolve(item.this if isinstance(item, exp.Alias) else item)
    sql_type(scope.compile(value).type)
    return [(item.alias if isinstance(item, exp.Alias) else item.name, sql_of(value))]


def _is_in_any_order(tree: exp.Expr) -> bool:
    if not isinstance(tree, exp.Select) or not is_aggregate(tree):
        return False
    for node in tree.walk():
        is_inner_query = isinstance(node, exp.Query) and node is not tree
        row = aggregate_row(node)
        if is_inner_query or isinstance(node, exp.Window) or (row is not None and not row.any_order):
            return False
    return True

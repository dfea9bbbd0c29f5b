"""A SELECT asked once: Spark SQL over what the streams hold, with every stream behind a safe name.

All of Spark's queries are allowed (joins, subqueries, ORDER BY…), over streams of the catalog only.
A SELECT with a WINDOW, a MERGE JOIN, SINCE or a join with the past is planned as a standing query, to be run over
what the stream holds. Aggregates over part of an archive are a question of their own (`archives`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError, did_you_mean
from anabranch.operators.archive.question import FRACTION
from anabranch.schema import StreamSchema, sql_type
from anabranch.sql.checking.archive_clauses import refuse_windows
from anabranch.sql.checking.inner_clauses import refuse_bounding, refuse_inner
from anabranch.sql.checking.overflow import FAILS, refuse_overflow
from anabranch.sql.checking.safety import SESSION_NAMES, check_tree, spark_text, too_large
from anabranch.sql.explain import as_json, once_as_text
from anabranch.sql.history.archives import ArchiveQuestion, ArchiveUse, use_of
from anabranch.sql.history.joins import is_history_join
from anabranch.sql.history.landmarks import is_landmark
from anabranch.sql.history.questions import question_of
from anabranch.sql.joins.combinations import is_combination
from anabranch.sql.joins.tables import is_table_join
from anabranch.sql.merges.merge import is_merge
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import NONE_REGISTERED, Registered
from anabranch.sql.standing.columns import Scope, column, conjuncts, is_of_rows, joined, sql_of, without_own_functions
from anabranch.sql.standing.plan import plan_standing
from anabranch.sql.standing.rows import conditions_of, star_names, star_of
from anabranch.sql.standing.sources import Lookup, look_up, refuse_emit, stream_name
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_row, is_aggregate

Tables = Callable[[str], StreamSchema | None]
"""The columns of a table by its name; None if no table has it."""
_ROWS_ALONE = {"expressions", "from_", "where"}


@dataclass(frozen=True)
class StreamUse:
    """What a one-time query needs of a stream: under which view name, which columns, which rows.

    `columns` None means all. `filter` may be applied while reading; the query applies it again. With `archive` it is
    read from there, and if that is reduced the view has a column `_fraction` more.
    """

    stream: str
    view: str
    schema: StreamSchema
    columns: tuple[str, ...] | None
    filter: str | None = None
    archive: ArchiveUse | None = None
    is_table: bool = False

    def explain(self) -> dict[str, Any]:
        said = {
            "table" if self.is_table else "stream": self.stream,
            "columns": self.columns or "all",
            "filter_pushed_to_read": self.filter,
        }
        return said if self.archive is None else {**said, **self.archive.explain()}


@dataclass(frozen=True)
class RowsHere:
    """Rows of one table whose columns, (name, SQL), and filter need no Spark."""

    table: str
    columns: tuple[tuple[str, str], ...]
    filter: str | None


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
            said = {"table": self.here.table, "columns": dict(self.here.columns), "filter": self.here.filter}
            return {**said, "runs_in_spark_sql": False}
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
    refuse_inner(select, windows=is_combination(select))
    past = is_landmark(select) or (is_history_join(select) and isinstance(select.tree, exp.Select))
    windowed = select.window is not None or bool(select.pairs) or is_merge(select) or is_combination(select)
    if windowed and not past:
        refuse_windows(select)
    as_it_was = is_table_join(select)
    if windowed or past or as_it_was:
        ended = is_merge(select) or as_it_was
        return OncePlan(None, standing=plan_standing(select, lookup, reducers), ended=ended)
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
    tables = [table for table in tree.find_all(exp.Table) if select.archive(table) is not None or not _is_cte(table)]
    schemas = {stream_name(table).lower(): look_up(select, table, lookup) for table in tables}
    reads = [_archive_use(select, table, lookup, reducers) for table in tables]
    reduced = any(read is not None and read.reducer is not None for read in reads)
    _check_columns(select, tree, list(schemas.values()), [FRACTION] if reduced else [])
    uses: dict[tuple[str, ArchiveUse | None], StreamUse] = {}
    prefix = _unused_prefix(tree)
    filters = _Filters(select, tree, tables)
    here = _rows_here(select, tree, tables, schemas, known)
    for table, read in zip(tables, reads, strict=True):
        name = stream_name(table)
        schema = schemas[name.lower()]
        if (name.lower(), read) not in uses:
            view, columns = f"{prefix}{len(uses)}", _columns_used(tree, schema)
            is_table = known(name) is not None
            uses[name.lower(), read] = StreamUse(name, view, schema, columns, filters.of(table, schema), read, is_table)
    for table, read in zip(tables, reads, strict=True):
        _replace(table, uses[stream_name(table).lower(), read].view)
    try:
        sql = spark_text(tree)
        refuse_overflow(tree)
        guarded = spark_text(tree, (FAILS,))
    except AnabranchError as problem:
        if problem.line is not None:
            raise
        raise select.error(problem.name, problem.message, None, hint=problem.hint) from None
    return OncePlan(sql, tuple(uses.values()), guarded=guarded, in_any_order=_is_in_any_order(select.tree), here=here)


def _rows_here(
    select: Select, tree: exp.Expr, tables: list[exp.Table], schemas: Mapping[str, StreamSchema], known: Tables
) -> RowsHere | None:
    """A SELECT of one table's rows that needs no more than expressions Arrow has."""
    if not isinstance(tree, exp.Select):
        return None
    plain = not any(tree.args.get(part) for part in tree.args.keys() - _ROWS_ALONE)
    if len(tables) != 1 or not plain or known(stream_name(tables[0])) is None:
        return None
    table = tables[0]
    if table.parent is not tree.args.get("from_") or any(
        table.args.get(part) for part in ("joins", "laterals", "pivots")
    ):
        return None
    scope = Scope(select, stream_name(table), table.alias or table.name, schemas[stream_name(table).lower()])
    try:
        condition, rest = conditions_of(scope, tree)
        columns = [column for item in tree.expressions for column in _columns_here(scope, item)]
    except (AnabranchError, expressions.NotEvaluable):  # Spark does it, or says what is wrong
        return None
    if rest or len({name.lower() for name, _ in columns}) < len(columns):
        return None
    return RowsHere(scope.stream, tuple(columns), condition)


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


def _archive_use(select: Select, table: exp.Table, lookup: Lookup, reducers: Registered) -> ArchiveUse | None:
    archive = select.archive(table)
    return None if archive is None else use_of(select, table, archive, lookup, reducers)


def _is_cte(table: exp.Table) -> bool:
    """True if a WITH that is visible from the table defines its name."""
    if table.db or not isinstance(table.this, exp.Identifier):
        return False
    name, node = table.name.lower(), table.this
    current: exp.Expr = node
    while current.parent is not None:
        parent = current.parent
        if isinstance(parent, exp.With):
            definitions = parent.expressions
            position = next(i for i, definition in enumerate(definitions) if definition is current)
            visible = definitions[: position + 1] if parent.args.get("recursive") else definitions[:position]
        else:
            with_clause = parent.args.get("with_")
            visible = []
            if isinstance(with_clause, exp.With) and with_clause is not current:
                visible = with_clause.expressions
        if any(definition.alias.lower() == name for definition in visible):
            return True
        current = parent
    return False


def _unused_prefix(tree: exp.Expr) -> str:
    """A beginning for view names that no name of the query has."""
    names = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    number = 0
    while any(name.startswith(f"__stream{number}_") for name in names):
        number += 1
    return f"__stream{number}_"


def _replace(table: exp.Table, view: str) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.Identifier(this=table.name, quoted=True)))
    table.set("this", exp.Identifier(this=view, quoted=True))
    table.set("db", None)


def _columns_used(tree: exp.Expr, schema: StreamSchema) -> tuple[str, ...] | None:
    """The columns of a stream that the query may mean; None if it may mean all."""
    for node in tree.walk():
        if isinstance(node, exp.Star) and not is_of_rows(node):
            return None
        if isinstance(node, exp.Pivot) or (isinstance(node, exp.Join) and node.args.get("method")):
            return None
    named = {node.name.lower() for node in tree.find_all(exp.Identifier)}
    return tuple(name for name in schema.names if name.lower() in named)


_GENERATED = ("col", "key", "value", "pos", "window", "session_window", "start", "end")
"""Names Spark itself gives to columns."""


def _check_columns(select: Select, tree: exp.Expr, schemas: list[StreamSchema], added: list[str]) -> None:
    """Every name must be some column or alias of the query, or `added` to those; Spark says the rest."""
    columns = {name.lower() for schema in schemas for name in schema.names} | set(added)
    known = columns | set(_GENERATED)
    for alias in tree.find_all(exp.Alias, exp.TableAlias, exp.CTE, exp.Aliases, exp.PropertyEQ):
        known.update(part.name.lower() for part in alias.find_all(exp.Identifier) if part.parent is alias)
    known.update(part.name.lower() for function in tree.find_all(exp.Lambda) for part in function.expressions)
    known.update(part.name.lower() for table in tree.find_all(exp.Table) for part in table.parts)
    alone = sum(1 for _ in tree.find_all(exp.Query)) == 1
    for node in tree.find_all(exp.Column):
        if isinstance(node.this, exp.Star):
            continue
        first = node.parts[0].name.lower()
        if first in SESSION_NAMES and len(node.parts) == 1 and not (alone and first in columns):
            hint = "write the stream's name before it" if first in columns else did_you_mean(first, columns)
            raise select.error(
                "COLUMN_NOT_FOUND", f'column "{node.name}" is not in the streams of this query', node, hint=hint
            )
        if first not in known and not (first.startswith("col") and first[3:].isdigit()) and "(" not in first:
            raise select.error(
                "COLUMN_NOT_FOUND",
                f'column "{node.parts[0].name}" is not in the streams of this query',
                node,
                hint=did_you_mean(node.parts[0].name, sorted({n for s in schemas for n in s.names})),
            )


@dataclass(frozen=True)
class _Filters:
    """Conditions that may be applied while a stream is read."""

    select: Select
    tree: exp.Expr
    tables: list[exp.Table] = field(default_factory=list)

    def of(self, table: exp.Table, schema: StreamSchema) -> str | None:
        """The conditions on a stream that is read once, as the only source of its SELECT."""
        name = stream_name(table).lower()
        source = table.parent
        query = source.parent if isinstance(source, exp.From) else None
        if (
            sum(stream_name(read).lower() == name for read in self.tables) != 1
            or not isinstance(query, exp.Select)
            or query.args.get("joins")
            or query.args.get("laterals")
            or any(table.args.get(part) for part in ("joins", "laterals", "pivots"))
            or query.args.get("where") is None
        ):
            return None
        scope = Scope(self.select, stream_name(table), table.alias or table.name, schema)
        kept: list[exp.Expr] = []
        for part in conjuncts(query.args["where"].this):
            if part.find(exp.Query) is not None:
                continue
            try:
                value = scope.resolve(part)
                if expressions.compile(sql_of(value), schema.arrow).columns:
                    kept.append(value)
            except (AnabranchError, expressions.NotEvaluable):
                continue
        condition = joined(kept)
        return sql_of(condition) if condition is not None else None

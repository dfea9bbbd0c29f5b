"""A SELECT as Spark SQL over views: every stream and table stands behind a name that no name of the query has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlglot import exp

from anabranch import expressions
from anabranch.errors import AnabranchError, did_you_mean
from anabranch.log.stream import changes_name, store_owner
from anabranch.operators.archive.question import FRACTION
from anabranch.operators.archive.scan import ArchiveScan
from anabranch.operators.select import SelectRows
from anabranch.operators.table.scan import TableScan
from anabranch.schema import StreamSchema
from anabranch.sql.as_of import AsOf, as_of
from anabranch.sql.checking.overflow import FAILS, refuse_overflow
from anabranch.sql.checking.safety import SESSION_NAMES, spark_text
from anabranch.sql.history.archives import ArchiveUse, use_of
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import Scope, conjuncts, is_of_rows, joined, sql_of
from anabranch.sql.standing.sources import Lookup, look_up, stream_name
from anabranch.sql.tree import Select

Tables = Callable[[str], StreamSchema | None]
"""The columns of a table by its name; None if no table has it."""


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
    as_of: AsOf | None = None

    @property
    def log(self) -> str:
        """The stream that is read: of a table that of its changes."""
        return log_of(self.stream, self.schema) if self.is_table else self.stream

    def read(self) -> ArchiveScan | TableScan | SelectRows:
        """The operator that reads it."""
        names = self.schema.names if self.columns is None else list(self.columns) or [self.schema.time]
        columns = tuple((name, exp.column(name, quoted=True).sql("spark")) for name in names)
        if self.archive is not None:
            past = self.archive
            return ArchiveScan(
                self.stream, columns, self.schema.time, self.filter, past.since, past.until, past.reducer, past.name
            )
        if self.is_table:
            return TableScan(self.log, columns, self.schema.time, self.filter, self.schema.key)
        return SelectRows(self.stream, columns, self.schema.time, self.filter)

    def explain(self) -> dict[str, Any]:
        said = {
            "table" if self.is_table else "stream": self.stream,
            "columns": self.columns or "all",
            "filter_pushed_to_read": self.filter,
        }
        more = self.archive or self.as_of
        return said if more is None else {**said, **more.explain()}


def log_of(table: str, schema: StreamSchema) -> str:
    """The stream of the changes of a table or view; of a Store, which has a key here, the answers of its query."""
    return (store_owner(table) or table) if schema.key else changes_name(table)


class OverViews(NamedTuple):
    """`sql` reads the views of `streams`; `guarded` is the same with sums that fail where they overflow."""

    sql: str
    guarded: str
    streams: tuple[StreamUse, ...]


def over_views(
    select: Select,
    tree: exp.Expr,
    lookup: Lookup,
    reducers: Registered,
    is_table: Callable[[str], bool],
    *,
    versions: bool = False,
) -> OverViews:
    """A SELECT that reads views; its `tree` is changed. `versions`: tables may be read as they were."""
    tables = tables_of(select, tree)
    schemas = {stream_name(table).lower(): look_up(select, table, lookup, as_of=versions) for table in tables}
    reads = [_archive_use(select, table, lookup, reducers) for table in tables]
    reduced = any(read is not None and read.reducer is not None for read in reads)
    _check_columns(select, tree, list(schemas.values()), [FRACTION] if reduced else [])
    read_at = [version_of(select, table, is_table) for table in tables]
    uses: dict[tuple[str, ArchiveUse | None, AsOf | None], StreamUse] = {}
    prefix = _unused_prefix(tree)
    filters = _Filters(select, tree, tables)
    for table, read, version in zip(tables, reads, read_at, strict=True):
        name = stream_name(table)
        schema = schemas[name.lower()]
        if (name.lower(), read, version) not in uses:
            view, columns = f"{prefix}{len(uses)}", _columns_used(tree, schema)
            uses[name.lower(), read, version] = StreamUse(
                name, view, schema, columns, filters.of(table, schema), read, is_table(name), version
            )
    for table, read, version in zip(tables, reads, read_at, strict=True):
        _replace(table, uses[stream_name(table).lower(), read, version].view)
    try:
        sql = spark_text(tree)
        refuse_overflow(tree)
        guarded = spark_text(tree, (FAILS,))
    except AnabranchError as problem:
        if problem.line is not None:
            raise
        raise select.error(problem.name, problem.message, None, hint=problem.hint) from None
    return OverViews(sql, guarded, tuple(uses.values()))


def tables_of(select: Select, tree: exp.Expr) -> list[exp.Table]:
    """What a SELECT reads that it does not define itself."""
    return [table for table in tree.find_all(exp.Table) if select.archive(table) is not None or not _is_cte(table)]


def version_of(select: Select, table: exp.Table, is_table: Callable[[str], bool]) -> AsOf | None:
    """At which version something is read, which must have versions."""
    version = as_of(select, table)
    if version is not None and not is_table(stream_name(table)):
        raise select.error(
            "STREAM_IS_NO_TABLE",
            f'"{stream_name(table)}" is a stream: its rows stay as they are, and have no versions',
            table,
            hint="WHERE says which of them are wanted",
        )
    return version


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
    table.set("version", None)


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

"""A stream joined with a table as it was: `FROM s JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k`.

Each row of the stream meets the version of the table at its own time, so an answer is final, and no window is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError, CatalogError
from anabranch.log.stream import changes_name
from anabranch.operators.table.join import TableJoin
from anabranch.operators.table.keys import check_comparable
from anabranch.schema import StreamSchema
from anabranch.sql.checking.archive_clauses import refuse_archives
from anabranch.sql.checking.join_clauses import refuse_join_clauses
from anabranch.sql.joins.answer import answer_of
from anabranch.sql.joins.scope import JoinScope, JoinSource, sources_of
from anabranch.sql.reading.hints import refuse_hints
from anabranch.sql.reading.reduce_by import Registered
from anabranch.sql.standing.columns import conjuncts, joined, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.standing.sources import IN_WINDOWS, Lookup, plain_select, refuse_clauses
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import is_aggregate
from anabranch.tables.declaration import COMES, RESERVED

_AS_OF = "write FROM stream s JOIN table t FOR SYSTEM_TIME AS OF s.{time} ON …"
_FIRST = "make the join a stream with CREATE STREAM … AS SELECT …, and"


class _Conditions(NamedTuple):
    """What a join asks for: keys, (SQL over the stream, column of the table), and the other conditions."""

    keys: tuple[tuple[str, str], ...]
    on: tuple[str, ...]
    where: str | None
    filter: str | None
    rest: tuple[exp.Expr, ...]


def is_table_join(select: Select) -> bool:
    """True if the query reads something as it was at a time."""
    tree = select.tree
    return isinstance(tree, exp.Select) and any(table.args.get("version") for table in _tables(tree))


def _tables(tree: exp.Select) -> list[exp.Expr]:
    source = tree.args.get("from_")
    return [*([source.this] if source is not None else []), *(join.this for join in tree.args.get("joins") or ())]


def plan_table_join(select: Select, lookup: Lookup, reducers: Registered) -> StandingPlan:
    """The operator, and the Spark SQL behind it where Arrow cannot do an expression."""
    refuse_archives(select)
    refuse_join_clauses(select)
    tree = plain_select(select, joins=True)
    refuse_clauses(select, tree, IN_WINDOWS)
    refuse_hints(select, "the query has no window")
    if select.window is not None or select.emit is not None or is_aggregate(tree):
        what = "a window" if select.window is not None else "EMIT" if select.emit is not None else "aggregates"
        raise select.error(
            "NOT_IN_THE_LANGUAGE", f"a join with a table as it was cannot have {what}", tree,
            hint=f"{_FIRST} read that",
        )  # fmt: skip
    stream, table, left = _sources(select, tree)
    scope = _scope(select, stream, table, lookup)
    conditions = _conditions(scope, tree, left=left)
    _check_time(scope, table)
    answer = answer_of(scope.with_results(), tree, conditions.rest)
    ours, theirs = scope.sources
    operator = TableJoin(
        ours.stream,
        ours.alias,
        theirs.stream,
        theirs.alias,
        conditions.keys,
        COMES,
        "left" if left else "inner",
        conditions.on,
        conditions.where,
        answer.columns,
        answer.operator_time,
        conditions.filter,
    )
    return StandingPlan(operator, answer.residual_sql, answer.schema, answer.time)


def _sources(select: Select, tree: exp.Select) -> tuple[exp.Table, exp.Table, bool]:
    """The stream, the table, and whether rows that meet none are answered."""
    stream, joins = tree.args["from_"].this, tree.args.get("joins") or []
    if len(joins) != 1 or stream.args.get("version"):
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "one stream is joined with one table as it was",
            joins[1] if len(joins) > 1 else stream,
            hint=f"{_FIRST} join that" if len(joins) > 1 else _AS_OF.format(time="ts"),
        )
    join = joins[0]
    said = " ".join(str(word).upper() for part in ("method", "side", "kind") if (word := join.args.get(part)))
    if said not in ("", "INNER", "LEFT", "LEFT OUTER") or join.args.get("using"):
        what = f"a {said} JOIN" if said else "JOIN … USING"
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a table as it was is not met by {what}",
            join,
            hint="write JOIN … ON … or LEFT JOIN … ON …",
        )
    return stream, join.this, said.startswith("LEFT")


def _scope(select: Select, stream: exp.Table, table: exp.Table, lookup: Lookup) -> JoinScope:
    plain = table.copy()
    plain.set("version", None)

    def rows_of(name: str) -> StreamSchema:
        """The columns of the table, by the log of its changes."""
        try:
            changes = lookup(changes_name(name))
        except CatalogError:
            changes = lookup(name)
        if not changes.key:
            raise CatalogError(
                "TABLE_NOT_FOUND",
                f'"{name}" is no table, and has no versions',
                hint="join two streams with WINDOW = INTERVAL … after FROM",
            )
        columns = [field for field in changes.arrow if field.name not in RESERVED]
        return StreamSchema(pa.schema(columns), changes.key[0], changes.key)

    lookups = iter((lookup, rows_of))

    def in_turn(name: str) -> StreamSchema:
        """A stream and a table of one name are two things."""
        return next(lookups)(name)

    ours, theirs = sources_of(select, [stream, plain], in_turn)
    return JoinScope.of(select, (ours, JoinSource(theirs.alias, changes_name(theirs.stream), theirs.schema)))


def _check_time(scope: JoinScope, table: exp.Table) -> None:
    """The version is that of the stream's time."""
    version, ours = table.args["version"], scope.sources[0]
    said = version.expression
    time = scope.resolve(said) if isinstance(said, exp.Column) else said
    is_time = isinstance(time, exp.Column) and scope.owners.get(time.name) == (ours, ours.schema.time)
    if version.name.upper() != "TIMESTAMP" or not is_time:
        raise scope.select.error(
            "NOT_IN_THE_LANGUAGE",
            f'the version of a table is that of the time of the stream\'s row, "{ours.schema.time}"',
            said if isinstance(said, exp.Expr) else table,
            hint=_AS_OF.format(time=ours.schema.time).replace(" s.", f" {ours.alias}."),
        )


def _conditions(scope: JoinScope, tree: exp.Select, *, left: bool) -> _Conditions:
    ours, theirs = scope.sources
    keys: dict[str, exp.Expr] = {}
    on: list[exp.Expr] = []
    own: list[exp.Expr] = []
    where: list[exp.Expr] = []
    rest: list[exp.Expr] = []
    join = tree.args["joins"][0]
    for part in conjuncts(scope.resolve(join.args["on"])) if join.args.get("on") is not None else ():
        check_condition(scope, part)
        equal = key_equality(scope, theirs, part)
        if equal is not None and equal[0] not in keys and scope.can_compile(equal[1]):
            keys[equal[0]] = equal[1]
        elif scope.can_compile(part):
            on.append(part)
        elif left:
            raise scope.select.error(
                "EXPRESSION_NEEDS_SPARK",
                f"the ON of a LEFT JOIN cannot compute {sql_of(part).replace('`', '')}",
                part,
                hint="compute it in a CREATE STREAM … AS SELECT … first and read that stream",
            )
        else:
            rest.append(part)
    condition = tree.args.get("where")
    for part in conjuncts(scope.resolve(condition.this)) if condition is not None else ():
        check_condition(scope, part)
        is_own = scope.owners_of(part) == {ours}
        (rest if not scope.can_compile(part) else own if is_own else where).append(part)
    for name in theirs.schema.key:
        if name not in keys:
            raise scope.select.error(
                "JOIN_NEEDS_KEY",
                f'ON does not say what the key column "{name}" of table "{theirs.alias}" equals',
                join,
                hint=f"add {theirs.alias}.{name} = …, over columns of {ours.alias}",
            )
        _check_types(scope, keys[name], theirs, name)
    whole, filtered = joined(where), joined([scope.own(part) for part in own])
    return _Conditions(
        tuple((sql_of(scope.own(keys[name])), name) for name in theirs.schema.key),
        tuple(sql_of(part) for part in on),
        None if whole is None else sql_of(whole),
        None if filtered is None else sql_of(filtered),
        tuple(rest),
    )


def _check_types(scope: JoinScope, value: exp.Expr, table: JoinSource, name: str) -> None:
    said = sql_of(value).replace("`", "")
    try:
        check_comparable(scope.compile(value).type, table.schema.arrow.field(name).type, said, f"{table.alias}.{name}")
    except AnabranchError as problem:
        raise scope.select.error(problem.name, problem.message, value, hint=problem.hint) from None


def key_equality(scope: JoinScope, table: JoinSource, part: exp.Expr) -> tuple[str, exp.Expr] | None:
    """`table.key = something of the stream`."""
    if not isinstance(part, exp.EQ):
        return None
    for key, value in ((part.this, part.expression), (part.expression, part.this)):
        if isinstance(key, exp.Column) and scope.owners[key.name][0] == table:
            name = scope.owners[key.name][1]
            if name in table.schema.key and table not in scope.owners_of(value):
                return name, value
    return None

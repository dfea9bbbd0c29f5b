"""What UPDATE, DELETE FROM and MERGE INTO do to the rows of a table as they are.

Expressions are evaluated on Arrow columns, run by run of the table's rows. What Arrow cannot do exactly as Spark does
is left to Spark: an UPDATE or DELETE is then asked as a SELECT that gives the keys, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from sqlglot import exp

from anabranch import expressions
from anabranch.errors import DataError, SqlError
from anabranch.expressions import NotEvaluable
from anabranch.kernels.groups import encode
from anabranch.kernels.keyed import Places, first_repeated
from anabranch.kernels.values import Column, one_array
from anabranch.operators.table.keys import as_keys, check_comparable, present, true
from anabranch.schema import StreamSchema, as_table
from anabranch.sql.checking.safety import check_tree
from anabranch.sql.joins.scope import JoinScope, JoinSource
from anabranch.sql.joins.tables import key_equality
from anabranch.sql.reading.values import counted
from anabranch.sql.standing.columns import Scope, conjuncts, sql_of
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.statements import DeleteFrom, MergeInto, UpdateTable, When
from anabranch.sql.tree import Select
from anabranch.sql.windows.aggregate_functions import aggregate_name
from anabranch.tables.changes import Changes, check_rows, deleted, inserted, key_text, united, updated
from anabranch.tables.declaration import TableInfo
from anabranch.tables.state import Mask, State

Ask = Callable[[Select], pa.Table]
"""The answer of a SELECT that is asked once."""


def of_update(statement: UpdateTable, info: TableInfo, ask: Ask) -> Callable[[State], Changes]:
    """What an UPDATE does, checked as far as that is possible without rows."""
    columns = _columns(info, statement.select, statement.columns, statement.starts)
    chosen = _Chosen(statement.select, info, ask)

    def deciding(state: State) -> Changes:
        places, values = chosen.of(state)
        return updated(info, state, places, _with(info, state.take(places), dict(zip(columns, values, strict=True))))

    return deciding


def of_delete(statement: DeleteFrom, info: TableInfo, ask: Ask) -> Callable[[State], Changes]:
    """What a DELETE does."""
    chosen = _Chosen(statement.select, info, ask)
    return lambda state: deleted(chosen.of(state)[0])


def rows_to_insert(info: TableInfo, names: Sequence[str] | None, rows: pa.Table) -> pa.Table:
    """Rows of some columns, by their places, as rows of a table; what is not said is NULL."""
    columns = info.schema.names if names is None else [info.find(name).name for name in names]
    if rows.num_columns != len(columns):
        raise DataError(
            "VALUES_MISMATCH",
            f"{counted(len(columns), 'column')} for {counted(rows.num_columns, 'value')}",
            hint="the columns are: " + ", ".join(columns),
        )
    return conformed(info, rows.rename_columns(columns))


def conformed(info: TableInfo, data: object) -> pa.Table:
    """Rows as those of a table: a type is changed only where no value is lost."""
    rows = StreamSchema(info.schema, info.key[0]).conform(data, of=f'table "{info.name}"')
    return rows.combine_chunks()


def keys_of(info: TableInfo, data: object) -> pa.Table:
    """The keys of a table's rows in some data, which may have its other columns, too."""
    schema = pa.schema([info.schema.field(name) for name in info.key])
    given = as_table(data, info.schema)
    for name in given.column_names:
        info.find(name)
    for name in info.key:
        if name not in given.column_names:
            raise DataError(
                "KEY_WANTED", f'the key column "{name}" of table "{info.name}" is missing', hint="give whole keys"
            )
    return StreamSchema(schema, info.key[0]).conform(given.select(schema.names)).combine_chunks()


def refuse_aggregates(select: Select, tree: exp.Expr) -> None:
    """Values are those of one row; what is in a subquery is its own."""
    for node in tree.walk(prune=lambda inner: isinstance(inner, exp.Query) and inner is not tree):
        if not isinstance(node, exp.Query) and (name := aggregate_name(node)):
            raise select.error(
                "AGGREGATE_MISPLACED",
                f"{name}() is about many rows, and stands where a value of one row does",
                node,
                hint="compute it in a subquery: (SELECT …)",
            )


# -- rows that a WHERE chooses ---------------------------------------------------------------------


class _Chosen:
    """The rows of a table that a `SELECT value, … FROM table WHERE …` is about, and the values."""

    def __init__(self, select: Select, info: TableInfo, ask: Ask) -> None:
        check_tree(select, standing=False)
        tree = select.tree
        assert isinstance(tree, exp.Select)
        refuse_aggregates(select, tree)
        table = tree.args["from_"].this
        self._select, self._info, self._ask = select, info, ask
        self._scope = Scope(
            select, info.name, table.alias or table.name, StreamSchema(info.schema, info.key[0]), what="table"
        )
        self._inner_query = any(isinstance(node, exp.Query) and node is not tree for node in tree.walk())
        where = tree.args.get("where")
        self._evaluable = not self._inner_query
        if not self._inner_query:
            values = [self._scope.resolve(value) for value in tree.expressions]
            conditions = [] if where is None else conjuncts(self._scope.resolve(where.this))
            for condition in conditions:
                check_condition(self._scope, condition)
            try:
                self._values = [self._scope.compile(value) for value in values]
                self._conditions = [self._scope.compile(condition) for condition in conditions]
            except NotEvaluable:
                self._evaluable = False

    def of(self, state: State) -> tuple[Places, list[Column]]:
        return self._here(state) if self._evaluable else self._by_spark(state)

    def _here(self, state: State) -> tuple[Places, list[Column]]:
        places: list[Places] = []
        values: list[list[Column]] = []
        for base, rows, alive in state.pieces():
            mask = alive
            for condition in self._conditions:
                mask = mask & true(condition.evaluate(rows))
            at = np.flatnonzero(mask)
            if len(at):
                read = sorted({name for value in self._values for name in value.columns})
                some = rows.select(read or rows.column_names[:1]).take(pa.array(at))
                places.append(at + base)
                values.append([one_array(value.evaluate(some)) for value in self._values])
        if not places:
            return np.zeros(0, np.int64), [pa.array([], value.type) for value in self._values]
        return np.concatenate(places), [pa.concat_arrays(parts) for parts in zip(*values, strict=True)]

    def _by_spark(self, state: State) -> tuple[Places, list[Column]]:
        tree = self._select.tree.copy()
        assert isinstance(tree, exp.Select)
        table = tree.args["from_"].this
        alias = table.alias or table.name
        values = [exp.alias_(value, f"__value{i}", quoted=True) for i, value in enumerate(tree.expressions)]
        keys = [
            exp.alias_(exp.column(name, table=alias, quoted=True), f"__key{i}", quoted=True)
            for i, name in enumerate(self._info.key)
        ]
        tree.set("expressions", [*values, *keys])
        answer = self._ask(replace(self._select, tree=tree)).combine_chunks()
        columns = [one_array(column) for column in answer.columns]
        found = [
            one_array(column).cast(self._info.schema.field(name).type)
            for column, name in zip(columns[len(values) :], self._info.key, strict=True)
        ]
        return state.find(found), list(columns[: len(values)])


def _columns(info: TableInfo, select: Select, names: Sequence[str], starts: Sequence[int] = ()) -> list[str]:
    """The columns of some names; one that is not there is an error, in its place where that is known."""
    columns = []
    for number, name in enumerate(names):
        try:
            columns.append(info.find(name).name)
        except DataError as problem:
            start = starts[number] if starts else None
            raise select.error(problem.name, problem.message, hint=problem.hint, start=start) from None
    return columns


def _with(info: TableInfo, rows: pa.Table, columns: Mapping[str, Column]) -> pa.Table:
    """Rows with other values in some columns."""
    data = {name: columns.get(name, rows.column(name)) for name in info.schema.names}
    return conformed(info, pa.table(data)) if rows.num_rows else rows


# -- MERGE INTO ------------------------------------------------------------------------------------


def of_merge(statement: MergeInto, info: TableInfo, ask: Ask) -> Callable[[State], Changes]:
    """What a MERGE INTO does; its source is read when the table is."""
    check_tree(statement.expressions, standing=False)
    refuse_aggregates(statement.expressions, statement.expressions.tree)
    for when in statement.whens:
        _columns(info, statement.expressions, when.columns or ())
    return lambda state: _Merging(statement, info, ask(statement.using)).changes(state)


@dataclass(frozen=True)
class _Meeting:
    """The condition of ON: for each column of the key what it must equal, and what else must be true."""

    keys: list[expressions.Compiled]
    rest: list[expressions.Compiled]


class _Merging:
    def __init__(self, statement: MergeInto, info: TableInfo, source: pa.Table) -> None:
        self._whens, self._info = statement.whens, info
        self._select = statement.expressions
        if statement.alias.lower() == statement.source_alias.lower():
            raise self._select.error(
                "SOURCE_EXISTS",
                f'the table and the source are both called "{statement.alias}"',
                hint="give the source another name with AS",
            )
        sources = (
            JoinSource(statement.source_alias, statement.source_alias, StreamSchema(source.schema, "")),
            JoinSource(statement.alias, info.name, StreamSchema(info.schema, info.key[0], info.key)),
        )
        self._scope = JoinScope.of(self._select, sources)
        self._source, self._target = sources
        self._rows = source.combine_chunks().rename_columns([sources[0].full(name) for name in source.column_names])
        assert isinstance(self._select.tree, exp.Select)
        self._nodes = self._select.tree.expressions
        self._meeting = self._on(self._nodes[0])

    def _on(self, condition: exp.Expr) -> _Meeting:
        keys: dict[str, exp.Expr] = {}
        rest: list[exp.Expr] = []
        for part in conjuncts(self._scope.resolve(condition)):
            check_condition(self._scope, part)
            equal = key_equality(self._scope, self._target, part)
            if equal is not None and equal[0] not in keys:
                keys[equal[0]] = equal[1]
            else:
                rest.append(part)
        missing = [name for name in self._info.key if name not in keys]
        if missing:
            raise self._select.error(
                "JOIN_NEEDS_KEY",
                f'ON does not say what the key column "{missing[0]}" of table "{self._info.name}" equals',
                condition,
                hint=f"add {self._target.alias}.{missing[0]} = …, over columns of the source",
            )
        compiled = [self._compile(keys[name]) for name in self._info.key]
        for value, name in zip(compiled, self._info.key, strict=True):
            said = value.sql.replace("`", "")
            check_comparable(value.type, self._info.schema.field(name).type, said, f"{self._target.alias}.{name}")
        return _Meeting(compiled, [self._compile(part) for part in rest])

    def _compile(self, node: exp.Expr) -> expressions.Compiled:
        try:
            return self._scope.compile(node)
        except NotEvaluable:
            raise self._needs_spark(node) from None

    def _needs_spark(self, node: exp.Expr) -> SqlError:
        said = sql_of(node).replace("`", "")
        return self._select.error(
            "EXPRESSION_NEEDS_SPARK",
            f"MERGE INTO cannot compute {said}",
            node,
            hint="compute it in the source: USING (SELECT … AS …) AS …",
        )

    def changes(self, state: State) -> Changes:
        info, count = self._info, self._rows.num_rows
        keys = [
            as_keys(one_array(value.evaluate(self._rows)), info.schema.field(name).type)
            for value, name in zip(self._meeting.keys, info.key, strict=True)
        ]
        whole = present(keys, count)
        places = np.full(count, -1, np.int64)
        places[whole] = state.find([column.filter(pa.array(whole)) for column in keys])
        pairs = self._pairs(state, places)
        for condition in self._meeting.rest:
            places[~true(condition.evaluate(pairs))] = -1
        pairs = self._pairs(state, places)
        gone: list[Places] = []
        changed: list[tuple[Places, pa.Table]] = []
        came: list[pa.Table] = []
        open_ = np.ones(count, np.bool_)
        for when in self._whens:
            at = np.flatnonzero(self._applies(when, pairs, open_ & ((places >= 0) == when.matched)))
            open_[at] = False
            some = pairs.take(pa.array(at))
            if when.action == "delete":
                gone.append(places[at])
            elif when.action == "update":
                changed.append((places[at], _with(info, state.take(places[at]), self._values(when, some))))
            else:
                came.append(conformed(info, pa.table(self._values(when, some))))
        return self._united(state, gone, changed, came)

    def _pairs(self, state: State, places: Places) -> pa.Table:
        """Rows of the source, and beside each the row of the table that it meets, or NULLs."""
        target = state.take(places).rename_columns([self._target.full(name) for name in self._info.schema.names])
        return pa.table([*self._rows.columns, *target.columns], names=[*self._rows.column_names, *target.column_names])

    def _applies(self, when: When, pairs: pa.Table, those: Mask) -> Mask:
        if when.condition is None:
            return those
        node = self._scope.resolve(self._nodes[when.condition])
        check_condition(self._scope, node)
        return those & true(self._compile(node).evaluate(pairs))

    def _values(self, when: When, pairs: pa.Table) -> dict[str, Column]:
        if when.values is None:
            known = {name: self._source.find(name) for name in self._info.schema.names}
            if none := [name for name, own in known.items() if own is None and name in self._info.required]:
                raise self._select.error(
                    "COLUMN_NOT_FOUND", f'the source has no column "{none[0]}"', hint="write the columns instead of *"
                )
            return {name: pairs.column(self._source.full(own)) for name, own in known.items() if own is not None}
        columns = self._info.schema.names if when.columns is None else _columns(self._info, self._select, when.columns)
        if len(columns) != len(when.values):
            raise self._select.error(
                "VALUES_MISMATCH",
                f"{counted(len(columns), 'column')} for {counted(len(when.values), 'value')}",
                hint="the columns are: " + ", ".join(columns),
            )
        nodes = [self._scope.resolve(self._nodes[number]) for number in when.values]
        return {name: self._compile(node).evaluate(pairs) for name, node in zip(columns, nodes, strict=True)}

    def _united(
        self, state: State, gone: list[Places], changed: list[tuple[Places, pa.Table]], came: list[pa.Table]
    ) -> Changes:
        info, nowhere = self._info, np.zeros(0, np.int64)
        touched = np.concatenate([nowhere, *gone, *(places for places, _ in changed)])
        codes = encode([pa.array(touched)], len(touched))
        again = first_repeated(codes.codes, codes.size)
        if again is not None:
            raise DataError(
                "MERGE_MATCHES_TWICE",
                f"two rows of the source meet the row {key_text(info, state.take(touched[[again]]), 0)} of table "
                f'"{info.name}"',
                hint="leave one of them out of the source",
            )
        parts = [deleted(np.concatenate([nowhere, *gone]))]
        if changed:
            after = pa.concat_tables([rows for _, rows in changed])
            parts.append(updated(info, state, np.concatenate([places for places, _ in changed]), after))
        if came:
            parts.append(inserted(info, state, pa.concat_tables(came).combine_chunks()))
        whole = united(*parts)
        new = [rows for rows in (whole.after, whole.came) if rows is not None]
        if new:
            check_rows(info, pa.concat_tables(new).combine_chunks())
        return whole

"""Tables, with the stream of the changes of each as a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from anabranch.catalog import STREAM, TABLE, ObjectName
from anabranch.errors import AnabranchError
from anabranch.objects.base import ObjectKind
from anabranch.objects.page import Page
from anabranch.result import Result
from anabranch.schema import TIME_TYPE, sql_type
from anabranch.sql.changing import of_delete, of_merge, of_update
from anabranch.sql.reading import objects as said
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.reading.names import quoted
from anabranch.sql.reading.values import counted
from anabranch.sql.statements import CreateTable, DeleteFrom, MergeInto, UpdateTable
from anabranch.tables.changes import Changes
from anabranch.tables.copying import Copied
from anabranch.tables.declaration import TableInfo

if TYPE_CHECKING:
    from anabranch.database import Database

_SHOWN = pa.schema(
    [
        ("table", pa.string()),
        ("key", pa.string()),
        ("rows", pa.int64()),
        ("version", pa.int64()),
        ("bytes", pa.int64()),
        ("changed", TIME_TYPE),
        ("note", pa.string()),
    ]
)


def create_table(db: Database, statement: CreateTable) -> Result:
    name = statement.name
    if statement.if_not_exists and db.catalog.has_table(name):
        return Result(message=f'table "{name}" exists already')
    if statement.origin is not None:
        rows = db.create_copy(
            name,
            statement.origin,
            statement.key,
            columns=statement.columns,
            required=statement.required,
            retain_us=statement.retain_us,
        )
        return Result(message=f'table "{name}" created with {counted(rows, "row")} of {statement.origin.path}')
    db.catalog.create_table(
        TableInfo.declare(name, statement.columns, statement.key, statement.required, statement.retain_us)
    )
    return Result(message=f'table "{name}" created')


def update(db: Database, statement: UpdateTable) -> Result:
    table = db.table_writer(statement.table)
    return told(table.change(of_update(statement, table.info, db.ask_once)), "updated")


def delete(db: Database, statement: DeleteFrom) -> Result:
    table = db.table_writer(statement.table)
    return told(table.change(of_delete(statement, table.info, db.ask_once)), "deleted")


def merge(db: Database, statement: MergeInto) -> Result:
    table = db.table_writer(statement.table)
    return told(table.change(of_merge(statement, table.info, db.ask_once)), "merged")


def told(changes: Changes, what: str) -> Result:
    """What became of rows, in words; of those that there are none of nothing is said, save if there are none at all."""
    done = zip(changes.counts, ("inserted", "updated", "deleted"), strict=True)
    words = [(count, did) for count, did in done if count] or [(0, what)]
    (first, did), *others = words
    return Result(message=", ".join([f"{counted(first, 'row')} {did}", *(f"{n} {did}" for n, did in others)]))


def declaring(info: TableInfo) -> str:
    """The statement that declares a table.

    >>> schema = pa.schema([("k", pa.int32()), ("a b", pa.string())])
    >>> declaring(TableInfo("t", schema, ("k",), ("k", "a b"), 5_000_000))
    'CREATE TABLE t (k INT, `a b` STRING NOT NULL, PRIMARY KEY (k)) RETAIN INTERVAL 5 SECONDS'
    """
    columns = [
        f"{quoted(field.name)} {sql_type(field.type)}{' NOT NULL' * (field.name in set(info.required) - set(info.key))}"
        for field in info.schema
    ]
    key = ", ".join(map(quoted, info.key))
    retain = "" if info.retain_us is None else f" RETAIN INTERVAL {format_us(info.retain_us)}"
    if info.origin is None:
        return f"CREATE TABLE {quoted(info.name)} ({', '.join(columns)}, PRIMARY KEY ({key})){retain}"
    path = info.origin.path.replace("\\", "\\\\").replace("'", "\\'")
    every = "" if info.origin.refresh_us is None else f" REFRESH EVERY INTERVAL {format_us(info.origin.refresh_us)}"
    file = f"FROM {info.origin.format} '{path}'{every}"
    return f"CREATE TABLE {quoted(info.name)} ({', '.join(columns)}) PRIMARY KEY ({key}) {file}{retain}"


class Tables(ObjectKind):
    """CREATE TABLE, and what there is to it."""

    saying = said.TABLE
    statements: ClassVar = {
        CreateTable: create_table,
        UpdateTable: update,
        DeleteFrom: delete,
        MergeInto: merge,
    }
    absent = frozenset({"TABLE_NOT_FOUND", "VIEW_IS_COMPUTED"})

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        return ObjectName(TABLE, db.catalog.table(name or "").name)

    def all(self, db: Database) -> Iterator[ObjectName]:
        return (ObjectName(TABLE, info.name) for info in db.catalog.tables())

    def show(self, db: Database, page: Page) -> pa.Table:
        return pa.Table.from_pylist(
            [_shown(db, info) for info in page.of(db.catalog.tables(), lambda info: info.name)], schema=_SHOWN
        )

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        info = db.catalog.table(which.name)
        return pa.table(
            {
                "column": info.schema.names,
                "type": [sql_type(field.type) for field in info.schema],
                "note": [_note(info, name) for name in info.schema.names],
            }
        )

    def declared(self, db: Database, name: str) -> str:
        return declaring(db.catalog.table(name))

    def parts(self, db: Database, which: ObjectName) -> Iterator[ObjectName]:
        yield ObjectName(STREAM, db.catalog.table(which.name).changes)

    def claim(self, db: Database, which: ObjectName) -> None:
        db.table_writer(which.name).claim()

    def remove(self, db: Database, which: ObjectName) -> None:
        """It went with the stream of its changes."""
        db.forget_table(which.name)


def _note(info: TableInfo, name: str) -> str:
    if name in info.key:
        return "key" if len(info.key) == 1 else f"key, part {info.key.index(name) + 1}"
    return "NOT NULL" if name in info.required else ""


def _shown(db: Database, info: TableInfo) -> dict[str, object]:
    reader = db.reader(info.changes)
    known = {"table": info.name, "key": ", ".join(info.key), "bytes": reader.size()}
    try:
        state = db.table_writer(info.name).state()
    except AnabranchError as problem:  # one that is damaged hides no other
        return {**known, "note": problem.message}
    changed = reader.end().time if state.row else None
    return {
        **known,
        "rows": len(state),
        "version": state.version,
        "changed": changed,
        "note": "; ".join(_noted(db, info)),
    }


def _noted(db: Database, info: TableInfo) -> Iterator[str]:
    """What is worth telling of a table at a glance."""
    if info.origin is not None:
        every = (
            "" if info.origin.refresh_us is None else f", refreshed every {format_us(info.origin.refresh_us).lower()}"
        )
        yield f"a copy of {info.origin.path}{every}"
        copied = Copied.of(db.catalog.stream_storage(info.changes))
        if copied is not None and copied.problem is not None:
            yield f"not refreshed: {copied.problem}"
    if info.retain_us is not None:
        yield f"changes kept {format_us(info.retain_us).lower()}"

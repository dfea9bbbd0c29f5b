"""Views, each with the query that keeps it as a part of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from anabranch.catalog import QUERY, VIEW, ObjectName
from anabranch.errors import AnabranchError
from anabranch.log.offset import MIN_TIME
from anabranch.log.stream import changes_name
from anabranch.objects.base import ObjectKind
from anabranch.objects.page import Page
from anabranch.result import Result
from anabranch.schema import TIME_TYPE, sql_type
from anabranch.sql.reading import objects as said
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.reading.names import quoted
from anabranch.sql.statements import CreateView
from anabranch.tables.declaration import CHANGES_US, NUMBER, TableInfo

if TYPE_CHECKING:
    from anabranch.database import Database

_SHOWN = pa.schema(
    [
        ("view", pa.string()),
        ("status", pa.string()),
        ("key", pa.string()),
        ("rows", pa.int64()),
        ("version", pa.int64()),
        ("behind", pa.int64()),
        ("changed", TIME_TYPE),
        ("sql", pa.string()),
        ("note", pa.string()),
    ]
)


def create_view(db: Database, statement: CreateView) -> Result:
    if statement.if_not_exists and db.catalog.has_view(statement.name):
        return Result(message=f'view "{statement.name}" exists already')
    db.create_view(statement.name, statement.select, statement.retain_us)
    return Result(message=f'view "{statement.name}" created, and kept up to date')


class Views(ObjectKind):
    """CREATE MATERIALIZED VIEW, and what there is to it."""

    saying = said.VIEW
    statements: ClassVar = {CreateView: create_view}
    absent = frozenset({"VIEW_NOT_FOUND"})

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        name = name or ""
        if not db.catalog.has_view(name) and db.catalog.keeps_view(name):
            return ObjectName(VIEW, name)  # damaged: it can be dropped
        return ObjectName(VIEW, db.catalog.view(name).name)

    def all(self, db: Database) -> Iterator[ObjectName]:
        return (ObjectName(VIEW, info.name) for info in db.catalog.views())

    def show(self, db: Database, page: Page) -> pa.Table:
        rows = [_shown(db, info) for info in page.of(db.catalog.views(), lambda info: info.name)]
        return pa.Table.from_pylist(rows, schema=_SHOWN)

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        info = db.catalog.view(which.name)
        return pa.table(
            {
                "column": info.shown.names,
                "type": [sql_type(field.type) for field in info.shown],
                "note": ["key" if name in info.key and NUMBER not in info.key else "" for name in info.shown.names],
            }
        )

    def declared(self, db: Database, name: str) -> str:
        """The statement that makes one."""
        info = db.catalog.view(name)
        query = db.catalog.query(info.changes)
        retain = "" if info.retain_us in (None, CHANGES_US) else f" RETAIN INTERVAL {format_us(info.retain_us)}"
        return f"CREATE MATERIALIZED VIEW {quoted(info.name)}{retain} AS {query.sql}"

    def parts(self, db: Database, which: ObjectName) -> Iterator[ObjectName]:
        yield ObjectName(QUERY, changes_name(which.name))

    def read_as(self, db: Database, which: ObjectName) -> ObjectName | None:
        """Others read the changes, which are those of its query."""
        return None

    def remove(self, db: Database, which: ObjectName) -> None:
        """It went with its query."""
        db.forget_table(which.name)


def _shown(db: Database, info: TableInfo) -> dict[str, object]:
    query = db.get_query(info.changes)
    known = {
        "view": info.name,
        "key": ", ".join(info.key) if NUMBER not in info.key else "all columns",
        "status": query.status,
        "behind": query.stats()["behind_rows"],
        "sql": query.sql,
        "note": None if query.failure is None else query.failure.message,
    }
    try:
        state = db.view_state(info.name)
    except AnabranchError as problem:  # one that is damaged hides no other
        return {**known, "note": problem.message}
    time = db.reader(info.changes).end().time
    return {**known, "rows": len(state), "version": state.version, "changed": None if time == MIN_TIME else time}

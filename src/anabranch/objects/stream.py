"""Streams, with the rejects of each as a part of it. Those that hold answers are parts of their queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from anabranch.archive.declaration import archives_of
from anabranch.catalog import ARCHIVE, QUERY, STREAM, TABLE, VIEW, ObjectName
from anabranch.connectors import CONNECTORS, Declared, connector_of
from anabranch.log import lost
from anabranch.log.stamps import length_of_time
from anabranch.log.stream import ANSWERS, APPENDED, StreamInfo, rejects_name, rejects_owner
from anabranch.log.stream import TABLE as OF_TABLE
from anabranch.log.stream import VIEW as OF_VIEW
from anabranch.objects.base import ObjectKind
from anabranch.objects.page import Page
from anabranch.objects.query import create_query
from anabranch.result import Result
from anabranch.schema import sql_type
from anabranch.sql.reading import objects as said
from anabranch.sql.statements import AddColumn, CreateStream, CreateStreamAs

if TYPE_CHECKING:
    from anabranch.database import Database

_SHOWN = pa.schema(
    [
        ("stream", pa.string()),
        ("filled_by", pa.string()),
        ("rows", pa.int64()),
        ("bytes", pa.int64()),
        ("newest", pa.timestamp("us", tz="UTC")),
        ("rejects", pa.int64()),
        ("note", pa.string()),
    ]
)


def create_stream(db: Database, statement: CreateStream) -> Result:
    name = statement.name
    if statement.if_not_exists and db.catalog.has_stream(name):
        return Result(message=f'stream "{name}" exists already')
    connector = CONNECTORS[statement.kind or APPENDED]
    declared = Declared(
        name,
        statement.columns,
        statement.time,
        statement.skew_us,
        statement.retain_us,
        statement.idle_us,
        statement.options,
        statement.changes_by,
        statement.key,
    )
    info = connector.declare(declared, db.catalog.access)
    db.catalog.create_stream(info)
    origin = f": {connector.filled_by(info)}" if connector.said else ""
    return Result(message=f'stream "{name}" created{origin}')


def add_column(db: Database, statement: AddColumn) -> Result:
    db.add_column(statement.stream, statement.column, statement.type)
    return Result(message=f'column "{statement.column}" added to stream "{statement.stream}"')


_OWNERS = {ANSWERS: QUERY, OF_TABLE: TABLE, OF_VIEW: VIEW}
"""What kind of object owns a stream, by where its rows come from; else another stream does."""


class Streams(ObjectKind):
    """CREATE STREAM, and what there is to it."""

    saying = said.STREAM
    statements: ClassVar = {CreateStream: create_stream, CreateStreamAs: create_query, AddColumn: add_column}
    absent = frozenset({"STREAM_NOT_FOUND", "TABLE_CHANGES"})
    as_part = "STREAM_IS_AN_ANSWER"

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        return ObjectName(STREAM, db.catalog.stream(name or "").name)

    def all(self, db: Database) -> Iterator[ObjectName]:
        return (ObjectName(STREAM, info.name) for info in db.catalog.streams())

    def show(self, db: Database, page: Page) -> pa.Table:
        rows = [
            {
                "stream": about["name"],
                "filled_by": about["origin"],
                "rows": about["rows"],
                "bytes": about["bytes"],
                "newest": about["newest_us"],
                "rejects": about["rejects"],
                "note": ", ".join(_noted(about)),
            }
            for about in page.of(_listed(db, page), lambda about: str(about["name"]))
        ]
        return pa.Table.from_pylist(rows, schema=_SHOWN)

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        info = db.catalog.stream(which.name)
        schema = info.schema
        return pa.table(
            {
                "column": schema.names,
                "type": [sql_type(field.type) for field in schema.arrow],
                "note": [", ".join(_notes_of_column(db, info, name)) for name in schema.names],
            }
        )

    def owner(self, db: Database, which: ObjectName) -> ObjectName | None:
        info = db.catalog.stream(which.name)
        if info.owner is None:
            return None
        return ObjectName(_OWNERS.get(info.origin, STREAM), info.owner)

    def stands_for(self, owner: ObjectName) -> bool:
        return owner.kind == QUERY

    def parts(self, db: Database, which: ObjectName) -> Iterator[ObjectName]:
        if rejects_owner(which.name) is None:
            yield ObjectName(STREAM, rejects_name(which.name))
        for _, archive in archives_of(db.catalog.stream_storage(which.name)):
            yield ObjectName(ARCHIVE, archive.name, archive.stream)

    def claim(self, db: Database, which: ObjectName) -> None:
        if rejects_owner(which.name) is None and connector_of(db.catalog.stream(which.name)).appendable:
            db.writer(which.name)

    def remove(self, db: Database, which: ObjectName) -> None:
        if rejects_owner(which.name) is None:  # rejects lie in the directory of their stream
            db.let_go(which.name)
            db.catalog.drop_stream(which.name)


def _listed(db: Database, page: Page) -> Iterator[dict[str, Any]]:
    """Logs and lists of hosts are how their members are run: they are shown to who asks for them by name."""
    return (about for about in db.overview_streams() if page.like is not None or not about["of_host"])


def _noted(about: dict[str, Any]) -> Iterator[str]:
    """What is worth telling of a stream at a glance."""
    if about["ahead_us"]:
        yield f"{length_of_time(about['ahead_us'])} ahead of the clock"
    if about["retain_us"]:
        yield _kept(about["retain_us"])


def _kept(retain_us: int) -> str:
    return f"kept {retain_us / 1e6:g} s"


def _notes_of_column(db: Database, info: StreamInfo, name: str) -> Iterator[str]:
    """What is to be said of a column."""
    feed = info.feed
    if feed is not None and name == feed.change:
        yield "says what became of a row"
    if feed is not None and name in feed.key:
        yield "key" if len(feed.key) == 1 else f"key, part {feed.key.index(name) + 1}"
    if name == info.schema.time:
        yield from _notes(db, info)


def _notes(db: Database, info: StreamInfo) -> Iterator[str]:
    """What is to be said of a stream's time, and so of the stream."""
    connector = connector_of(info)
    yield "time"
    if info.schema.stamped_on_arrival and connector.appendable:
        yield "stamped on arrival"
    if ahead := db.catalog.ahead_of_clock(info):
        yield f"{length_of_time(ahead)} ahead of the clock"
    if info.skew_us:
        yield f"skew {info.skew_us / 1e6:g} s allowed"
    if info.idle_us is not None:
        yield f"goes on after {info.idle_us / 1e6:g} s of silence"
    if info.retain_us:
        yield _kept(info.retain_us)
    if note := connector.note(info):
        yield note
    yield from (f"{rows} were lost" for rows in lost.losses(db.catalog.stream_storage(info.name)))

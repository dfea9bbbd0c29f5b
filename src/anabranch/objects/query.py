"""Standing queries, with the streams of their answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from anabranch.archive.declaration import archives_of
from anabranch.catalog import ARCHIVE, QUERY, STREAM, ObjectName
from anabranch.catalog.readers import reads
from anabranch.objects.base import ObjectKind, flat, properties
from anabranch.objects.page import Page
from anabranch.operators.tree.accounts import KIND as STEPS
from anabranch.operators.tree.accounts import in_a_line
from anabranch.result import Result
from anabranch.sql.reading import objects as said
from anabranch.sql.statements import AlterQuery, CreateQuery, CreateStreamAs, MoveQuery, StartQuery, StopQuery

if TYPE_CHECKING:
    from anabranch.database import Database

_PARTS = ("stream", "store", "scratch", "throw")
_SHOWN = pa.schema(
    [("query", pa.string()), ("status", pa.string()), ("host", pa.string())]
    + [(name, pa.int64()) for name in ("rows_in", *_PARTS)]
    + [("share", pa.float64()), ("behind", pa.int64()), ("waits_for", pa.string()), ("sql", pa.string())]
)


def create_query(db: Database, statement: CreateQuery | CreateStreamAs) -> Result:
    kind = QUERY if isinstance(statement, CreateQuery) else STREAM
    if statement.if_not_exists and db.catalog.has_stream(statement.name):
        return Result(message=f'"{statement.name}" exists already')
    host = statement.host if isinstance(statement, CreateQuery) else None
    if host is not None:
        db.create_member(statement.name, statement.select, host, retain_us=statement.retain_us)
        return Result(message=f'query "{statement.name}" created, a member of host "{host}"')
    alone = isinstance(statement, CreateQuery) and statement.alone
    query = db.create_query(statement.name, statement.select, kind, alone=alone, retain_us=statement.retain_us)
    if query.host is not None:
        message = f'query "{query.name}" created, a member of host "{query.host}": many stand alone already'
        return Result(message=message)
    return Result(message=f'{kind} "{statement.name}" created and running')


def stop_query(db: Database, statement: StopQuery) -> Result:
    db.get_query(statement.name).stop()
    return Result(message=f'query "{statement.name}" stopped')


def start_query(db: Database, statement: StartQuery) -> Result:
    db.get_query(statement.name).start()
    return Result(message=f'query "{statement.name}" running')


def alter_query(db: Database, statement: AlterQuery) -> Result:
    db.get_query(statement.name).reevaluate(statement.every, statement.at_most)
    least = f", at most every {statement.at_most}-th" if statement.at_most > statement.every else ""
    return Result(message=f'query "{statement.name}" answers every {statement.every}-th window{least}')


def move_query(db: Database, statement: MoveQuery) -> Result:
    db.move_query(statement.name, statement.host)
    where = "stands alone" if statement.host is None else f'is a member of host "{statement.host}"'
    return Result(message=f'query "{statement.name}" {where}')


class Queries(ObjectKind):
    """CREATE CONTINUOUS QUERY, and what there is to it."""

    saying = said.QUERY
    statements: ClassVar = {
        CreateQuery: create_query,
        StopQuery: stop_query,
        StartQuery: start_query,
        AlterQuery: alter_query,
        MoveQuery: move_query,
    }
    absent = frozenset({"QUERY_NOT_FOUND"})

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        return ObjectName(QUERY, db.catalog.query(name or "").name)

    def all(self, db: Database) -> Iterable[ObjectName]:
        return [ObjectName(QUERY, info.name) for info in db.catalog.queries()]

    def show(self, db: Database, page: Page) -> pa.Table:
        rows = []
        for query in page.of(db.queries(), lambda query: query.name):
            stats = query.stats()
            rows.append(
                {
                    "query": query.name,
                    "status": query.status,
                    "host": query.host,
                    "rows_in": stats["rows_in"],
                    **{part: stats[part]["rows"] for part in _PARTS},
                    "share": stats.get("share"),
                    "behind": stats["behind_rows"],
                    "waits_for": stats["waits_for"] and stats["waits_for"]["stream"],
                    "sql": query.sql,
                }
            )
        return pa.Table.from_pylist(rows, schema=_SHOWN)

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        query = db.get_query(which.name)
        retain_us = db.catalog.stream(which.name).retain_us
        retain = [] if retain_us is None else [("retain", f"{retain_us / 1e6:g} s")]
        stats = query.stats()
        steps = [(f"step {number}", in_a_line(step)) for number, step in stats.pop(STEPS, {}).items()]
        return properties([("sql", query.sql), *retain, *flat(stats), *steps])

    def owner(self, db: Database, which: ObjectName) -> ObjectName | None:
        return db.catalog.query(which.name).owner

    def parts(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        """The archives of its answers; the answers themselves come and go with it under one lock of the catalog."""
        answers = db.catalog.stream_storage(which.name)
        return [ObjectName(ARCHIVE, archive.name, archive.stream) for _, archive in archives_of(answers)]

    def reads(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        known = db.catalog.query(which.name).reads
        if known is not None:
            return known
        query = db.get_query(which.name)
        return reads(query.inputs, history=query.reads_history)

    def read_as(self, db: Database, which: ObjectName) -> ObjectName | None:
        return ObjectName(STREAM, which.name)

    def remove(self, db: Database, which: ObjectName) -> None:
        db.remove_query(which.name)

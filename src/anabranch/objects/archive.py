"""Archives of streams; one of summaries has a standing query that fills it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from anabranch.archive.declaration import WINDOWED
from anabranch.catalog import ARCHIVE, QUERY, ObjectName
from anabranch.catalog.readers import history_of
from anabranch.objects.base import ObjectKind, flat, properties
from anabranch.objects.page import Page
from anabranch.queries.asking import summaries_name
from anabranch.result import Result
from anabranch.schema import TIME_TYPE
from anabranch.sql.reading import objects as said
from anabranch.sql.reading.intervals import format_us
from anabranch.sql.statements import AlterArchive, CreateArchive, VacuumArchive

if TYPE_CHECKING:
    from anabranch.database import Database

_DEFAULT_RETAIN_HOURS = 168.0
_SHOWN = pa.schema(
    [(name, pa.string()) for name in ("stream", "archive", "layout")]
    + [(name, pa.int64()) for name in ("rows", "bytes")]
    + [(name, pa.timestamp("us", tz="UTC")) for name in ("oldest", "newest")]
)


def create_archive(db: Database, statement: CreateArchive) -> Result:
    name = statement.name or statement.layout.lower()
    known = {info.name.lower() for info in db.archives.infos(statement.stream)}
    if statement.if_not_exists and name.lower() in known:
        return Result(message=f'archive "{name}" of "{statement.stream}" exists already')
    info = db.create_archive(
        statement.stream,
        statement.layout,
        statement.name,
        by=statement.by,
        keep_us=statement.keep_us,
        every=statement.every_us,
        group_by=statement.group_by,
        options=statement.options,
    )
    return Result(message=f'archive "{info.name}" of "{info.stream}" created')


def alter_archive(db: Database, statement: AlterArchive) -> Result:
    info = db.archives.alter(
        statement.stream,
        statement.name,
        add_level=statement.add_level,
        drop_level=statement.drop_level,
        keep_us=statement.keep_us,
    )
    return Result(message=f'archive "{info.name}" of "{info.stream}" changed')


def vacuum_archive(db: Database, statement: VacuumArchive) -> Result:
    hours = _DEFAULT_RETAIN_HOURS if statement.retain_us is None else statement.retain_us / 3.6e9
    done = db.archives.archiver(statement.stream, statement.name).vacuum(hours)
    return Result(message=", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in done.items()))


class ArchivesOfStreams(ObjectKind):
    """CREATE ARCHIVE, and what there is to it."""

    saying = said.ARCHIVE
    statements: ClassVar = {CreateArchive: create_archive, AlterArchive: alter_archive, VacuumArchive: vacuum_archive}
    absent = frozenset({"ARCHIVE_NOT_FOUND", "STREAM_NOT_FOUND"})

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        info = db.archives.find(on, name)
        return ObjectName(ARCHIVE, info.name, info.stream)

    def all(self, db: Database) -> Iterable[ObjectName]:
        return [ObjectName(ARCHIVE, info.name, info.stream) for info in db.archives.infos()]

    def show(self, db: Database, page: Page) -> pa.Table:
        rows = []
        for info in page.of(db.archives.infos(), lambda info: info.stream):
            about = db.describe_archive(info.stream, info.name)
            row = {name: about.get(name) for name in ("stream", "archive", "layout", "rows", "bytes")}
            rows.append({**row, "oldest": about.get("oldest_us"), "newest": about.get("newest_us")})
        return pa.Table.from_pylist(rows, schema=_SHOWN)

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        about = flat(db.describe_archive(which.on, which.name))
        return properties(_for_people(name, value) for name, value in about)

    def told(self, which: ObjectName) -> str:
        return f'archive "{which.name}" of "{which.on}"'

    def parts(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        info = db.archives.find(which.on, which.name)
        query = summaries_name(info)
        return [ObjectName(QUERY, query)] if info.layout == WINDOWED and db.catalog.has_query(query) else []

    def read_as(self, db: Database, which: ObjectName) -> ObjectName | None:
        """Who needs history needs one archive with rows, whichever: only the last of them is missed."""
        left = {info.name for info in db.archives.infos(which.on) if info.layout != WINDOWED}
        return history_of(which.on) if left == {which.name} else None

    def remove(self, db: Database, which: ObjectName) -> None:
        db.archives.drop(which.on, which.name)


def _for_people(name: str, value: Any) -> tuple[str, str]:
    """A property as people read it: microseconds as what they are, a time or a length of time."""
    if not name.endswith("_us") or value is None:
        return name.removesuffix("_us"), "" if value is None else str(value)
    shown = str(pa.scalar(value, TIME_TYPE).as_py()) if name in ("oldest_us", "newest_us") else format_us(value)
    return name.removesuffix("_us"), str(timedelta(seconds=value // 1_000_000)) if name == "age_us" else shown

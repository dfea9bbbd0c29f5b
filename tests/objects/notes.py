"""A kind of object that is only here, a note about a stream: this file and a row of the table are all of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from anabranch.catalog import STREAM, ObjectName
from anabranch.database import Database
from anabranch.errors import CatalogError
from anabranch.log.storage import Storage, encoded_name
from anabranch.objects.base import ObjectKind, properties
from anabranch.objects.page import Page
from anabranch.result import Result
from anabranch.sql.reading.cursor import Cursor
from anabranch.sql.reading.objects import Saying
from anabranch.sql.statements import Statement

NOTE = "note"


@dataclass(frozen=True)
class CreateNote(Statement):
    name: str
    about: str
    text: str


def take_create_note(cursor: Cursor) -> Statement:
    name = cursor.name("the note's name")
    cursor.expect("ABOUT")
    about = cursor.name("the stream's name")
    cursor.expect("AS")
    return CreateNote(name, about, cursor.advance().text)


def _place(db: Database) -> Storage:
    return db.catalog.root.child("notes")


def create_note(db: Database, statement: CreateNote) -> Result:
    about = db.catalog.stream(statement.about).name
    with db.catalog.lock():
        db.catalog.readers.note(ObjectName(NOTE, statement.name), [ObjectName(STREAM, about)])
        _place(db).make()
        _place(db).write_json(
            encoded_name(statement.name), {"name": statement.name, "about": about, "text": statement.text}
        )
    return Result(message=f'note "{statement.name}" created')


class Notes(ObjectKind):
    saying = Saying(NOTE, (("NOTE",),), "NOTES", ("NOTE",), take_create_note)
    statements: ClassVar = {CreateNote: create_note}
    absent = frozenset({"NOTE_NOT_FOUND"})

    def _known(self, db: Database, name: str) -> dict[str, str]:
        known: dict[str, str] | None = _place(db).read_json(encoded_name(name))
        if known is None:
            raise CatalogError("NOTE_NOT_FOUND", f'note "{name}" does not exist')
        return known

    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        return ObjectName(NOTE, self._known(db, name or "")["name"])

    def all(self, db: Database) -> Iterable[ObjectName]:
        return [ObjectName(NOTE, _place(db).read_json(file)["name"]) for file in sorted(_place(db).names())]

    def show(self, db: Database, page: Page) -> pa.Table:
        return pa.table({"note": [which.name for which in page.of(self.all(db), lambda which: which.name)]})

    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        return properties(self._known(db, which.name).items())

    def reads(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        return [ObjectName(STREAM, self._known(db, which.name)["about"])]

    def remove(self, db: Database, which: ObjectName) -> None:
        db.catalog.readers.forget(which, self.reads(db, which))
        _place(db).delete(encoded_name(which.name))

"""The graph of dependences: who reads what and what belongs to what, and so what may be dropped.

Its edges are what `OBJECTS` says: an object reads others, has an owner, and has parts that go with it. The readers of
a thing are found in the catalog's index and asked whether it is so; nobody else is looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from anabranch.catalog import QUERY, TABLE, VIEW, ObjectName, QueryInfo
from anabranch.errors import CatalogError
from anabranch.objects import OBJECTS

if TYPE_CHECKING:
    from anabranch.database import Database

_NAMED = 3
"""Readers that an error names."""


def readers_of(db: Database, thing: ObjectName) -> Iterator[ObjectName]:
    """The objects that read a thing."""
    if not db.catalog.readers.exist():
        _index(db)
    for reader in db.catalog.readers.of(thing):
        kind = OBJECTS[reader.kind]
        if kind.exists(db, reader.name, reader.on) and thing.key in (read.key for read in kind.reads(db, reader)):
            yield next(_members_that_read(db, reader, thing), reader)


def _members_that_read(db: Database, host: ObjectName, thing: ObjectName) -> Iterator[ObjectName]:
    """The queries for which a host reads a thing; none if it is no host."""
    if host.kind == QUERY and db.catalog.hosted.is_host(host.name):
        for entry in list(db.catalog.hosted.roster(host.name).by_name.values()):
            info = QueryInfo.from_json(entry.data["query"])
            if thing.key in (read.key for read in info.reads or ()):
                yield ObjectName(QUERY, info.name)


def _index(db: Database) -> None:
    """For a database of before, where nobody has written down what is read."""
    every = [(which, list(kind.reads(db, which))) for kind in OBJECTS.values() for which in kind.all(db)]
    with db.catalog.lock():
        if not db.catalog.readers.exist():
            db.catalog.readers.build(every)


def drop(db: Database, which: ObjectName, *, cascade: bool = False) -> list[ObjectName]:
    """Remove an object and all that goes with it, unless others need any of that; gives what was dropped.

    With `cascade` those that need it are dropped before it.
    """
    kind = OBJECTS[which.kind]
    owner = kind.owner(db, which)
    if owner is not None:
        if kind.stands_for(owner):
            return drop(db, owner, cascade=cascade)
        raise _refused(kind.as_part, which, f"belongs to {_told(owner)}", owner)
    whole = list(_whole(db, which))
    dropped: list[ObjectName] = []
    if cascade:
        while needing := next(_needing(db, whole), None):
            dropped += drop(db, _outermost(db, needing[1]), cascade=True)
    _refuse_if_read(db, whole)
    for part in whole:
        OBJECTS[part.kind].claim(db, part)
    for part in reversed(whole):
        OBJECTS[part.kind].remove(db, part)
    return [*dropped, which]


def _outermost(db: Database, which: ObjectName) -> ObjectName:
    """What an object is a part of, and that in turn; itself, if it is no part."""
    owner = OBJECTS[which.kind].owner(db, which)
    return which if owner is None else _outermost(db, owner)


def _whole(db: Database, which: ObjectName) -> Iterator[ObjectName]:
    """An object and all that goes with it, each before its own parts."""
    yield which
    for part in OBJECTS[which.kind].parts(db, which):
        yield from _whole(db, part)


def _refuse_if_read(db: Database, whole: list[ObjectName]) -> None:
    """An error that names who reads something that is to go; of thousands, the first."""
    needing = list(itertools.islice(_needing(db, whole), _NAMED + 1))
    if needing:
        part = needing[0][0]
        what = whole[0] if whole[0].kind in (TABLE, VIEW) else part  # people know a table, not the log of its changes
        readers = list(dict.fromkeys(_outermost(db, reader) for _, reader in needing[:_NAMED]))
        names = [*map(_told, readers), *(["others"] if len(needing) > _NAMED else [])]
        instead = "" if len(names) == 1 else ", or write CASCADE, which drops them all"
        raise _refused("STREAM_IS_USED", what, f"is read by {_listed(names)}", readers[0], f" first{instead}")


def _needing(db: Database, whole: list[ObjectName]) -> Iterator[tuple[ObjectName, ObjectName]]:
    """What is to go and is read, and by whom who stays."""
    going = {part.key for part in whole}
    for part in whole:
        thing = OBJECTS[part.kind].read_as(db, part)
        for reader in readers_of(db, thing) if thing is not None else ():
            if reader.key not in going:
                yield part, reader


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _refused(error: str, which: ObjectName, why: str, instead: ObjectName, when: str = "") -> CatalogError:
    words = " ".join(OBJECTS[instead.kind].saying.words[0])
    return CatalogError(error, f"{_told(which)} {why}", hint=f"DROP {words} {instead}{when}")


def _told(which: ObjectName) -> str:
    return OBJECTS[which.kind].told(which)

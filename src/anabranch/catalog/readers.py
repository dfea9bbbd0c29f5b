"""Who reads what: an index beside the catalog, so that nobody who drops a thing has to look at everything there is.

    <root>/readers/<kind>/<name>/<reader>   that a reader has said to read a thing

What it says is where to look, not yet true: a reader may have died before it was made, or after it was dropped.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from anabranch.log.storage import Storage, encoded_name

STREAM, QUERY, ARCHIVE, TABLE, VIEW = "stream", "query", "archive", "table", "view"
_PLACE = "readers"


class ObjectName(NamedTuple):
    """An object of the catalog by its kind and name; one that lies on another, as an archive does, also by that."""

    kind: str
    name: str
    on: str = ""

    def __str__(self) -> str:
        return f"{self.name} ON {self.on}" if self.on else self.name

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for two spellings of one name."""
        return self.kind, self.name.lower(), self.on.lower()


def history_of(stream: str) -> ObjectName:
    """What is read by who needs some archive of a stream, whichever."""
    return ObjectName(ARCHIVE, "", stream)


def reads(streams: Iterable[str], *, history: bool) -> tuple[ObjectName, ...]:
    """What a query reads: streams, and with `history` their archives."""
    names = tuple(streams)
    past = tuple(history_of(name) for name in names) if history else ()
    return (*(ObjectName(STREAM, name) for name in names), *past)


class Readers:
    """The index. Whoever changes it holds `Catalog.lock`."""

    def __init__(self, root: Storage) -> None:
        self._root = root

    def exist(self) -> bool:
        """Whether there is an index; databases of before have none until it is wanted."""
        return self._root.exists(_PLACE)

    def begin(self) -> None:
        """An index of nothing, for a new database."""
        self._root.child(_PLACE).make()

    def build(self, known: Iterable[tuple[ObjectName, Iterable[ObjectName]]]) -> None:
        """An index of all readers there are and what they read: all of it, or none if the process dies meanwhile."""
        begun = f"{_PLACE}-{secrets.token_hex(8)}"
        self._root.child(begun).make()
        for reader, things in known:
            _note(self._root.child(begun), reader, things)
        self._root.filesystem.move(self._root.full(begun), self._root.full(_PLACE))

    def note(self, reader: ObjectName, things: Iterable[ObjectName]) -> None:
        """Say what a new reader reads. Without an index, it will be asked when one is built."""
        if self.exist():
            _note(self._root.child(_PLACE), reader, things)

    def forget(self, reader: ObjectName, things: Iterable[ObjectName]) -> None:
        for thing in things:
            _folder(self._root.child(_PLACE), thing).delete(_file(reader))

    def of(self, thing: ObjectName) -> Iterator[ObjectName]:
        """Those who may read a thing."""
        folder = _folder(self._root.child(_PLACE), thing)
        for file in sorted(folder.names()):
            said = folder.read_json(file)
            if isinstance(said, dict):
                yield ObjectName(**said)


def _note(index: Storage, reader: ObjectName, things: Iterable[ObjectName]) -> None:
    for thing in things:
        folder = _folder(index, thing)
        if not folder.exists():
            folder.make()
        folder.write_json(_file(reader), reader._asdict())


def _folder(index: Storage, thing: ObjectName) -> Storage:
    return index.child(thing.kind, encoded_name(str(thing)))


def _file(reader: ObjectName) -> str:
    return encoded_name(f"{reader.kind} {reader}")

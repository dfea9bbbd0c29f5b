"""What a stream is: its name, its columns, how much disorder it allows, how long it is kept."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.log.feed import Feed
from anabranch.log.storage import Storage
from anabranch.schema import TIME_TYPE, StreamSchema

INFO = "stream.json"
_SEGMENTS = "segments"
APPENDED = "append"
"""The origin of a stream whose rows programs append."""
ANSWERS = "query"
"""The origin of a stream that holds the answers of a query, which owns it."""
REJECTS = "rejects"
"""The origin of a stream of rows that another one refused, which owns it."""
TABLE = "table"
"""The origin of a stream that holds the changes of a table, which owns it."""
VIEW = "view"
"""The origin of a stream that holds the changes of a view, which owns it: the answers of the query that keeps it."""
KEY, REQUIRED = "key", "required"
"""Options of a stream of changes: the columns of the table's key, and those that hold no NULL, as JSON."""
FILE = "file"
"""Option of a stream of changes: the file of which the table is a copy, as JSON."""
CHANGES_BY = "changes_by"
"""Option of a change feed, beside its KEY: the column that says what became of a row."""
HOST, MEMBER, SINCE, FIRST = "host", "member", "since", "first"
"""Options of a stream that is part of a log of many: the directory beside its own, which part, since which row, and how
many rows of the stream there are elsewhere that come before."""
_REJECTS_END = f".{REJECTS}"
CHANGES = "changes"
_CHANGES_END = f".{CHANGES}"
STORE = "store"
_STORE_END = f".{STORE}"
_NO_SETTINGS = (HOST, MEMBER, SINCE, FIRST, KEY, REQUIRED, FILE, CHANGES_BY)


@dataclass(frozen=True)
class StreamInfo:
    """The declaration of a stream, kept beside its segments."""

    name: str
    schema: StreamSchema
    skew_us: int = 0
    retain_us: int | None = None
    origin: str = APPENDED
    """Where its rows come from: one of `connectors.CONNECTORS`."""
    owner: str | None = None
    """What it belongs to and comes and goes with: the query of answers, the stream of rejects."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    idle_us: int | None = None
    """Silent this long, a stream with a time of its own goes on with the clock, where it is waited for."""
    id: str = field(default_factory=lambda: secrets.token_hex(6), compare=False, repr=False)
    """Differs from that of a dropped stream of the same name."""

    @property
    def goes_with_the_clock(self) -> bool:
        """True if its rows are stamped by us as they come: then its time is the clock's."""
        stamped = self.origin in (APPENDED, TABLE) and self.schema.stamped_on_arrival and not self.skew_us
        return stamped or self.origin == REJECTS

    @property
    def changes_an_answer(self) -> bool:
        """Whether its rows say what changes in the answer of a query: of a view, or with EMIT CHANGES."""
        return self.origin == VIEW or (self.origin == ANSWERS and KEY in self.options)

    @property
    def feed(self) -> Feed | None:
        """What its rows are changes of, if it is a change feed."""
        change = self.options.get(CHANGES_BY)
        return None if change is None else Feed(change, tuple(json.loads(self.options[KEY])))

    @property
    def own_settings(self) -> dict[str, str]:
        """How it is written otherwise than other streams."""
        return {name: said for name, said in self.options.items() if name not in _NO_SETTINGS}

    def create(self, storage: Storage, *, logged: bool = True, private: bool = False) -> None:
        """Make the stream; `logged`: with a place for rows, `private`: for its owner's eyes only."""
        storage.make()
        if logged:
            storage.child(_SEGMENTS).make()
        if private and storage.is_local:
            os.chmod(storage.path, 0o700)
        self.save(storage, private=private)

    def save(self, storage: Storage, *, private: bool = False) -> None:
        """Write the declaration."""
        storage.write_json(
            INFO,
            {
                "name": self.name,
                "schema": self.schema.to_json(),
                "skew_us": self.skew_us,
                "retain_us": self.retain_us,
                "origin": self.origin,
                "owner": self.owner,
                "options": self.options,
                "idle_us": self.idle_us,
                "id": self.id,
            },
        )
        if private and storage.is_local:
            os.chmod(storage.full(INFO), 0o600)

    @staticmethod
    def load(storage: Storage) -> StreamInfo:
        data: dict[str, Any] | None = storage.read_json(INFO)
        if data is None and not has_rows(storage) and not storage.exists(INFO):
            raise StreamError("STREAM_NOT_FOUND", f"there is no stream in {storage.path}")
        try:
            declared = _with_owner(data or {})
            return StreamInfo(**{"id": "", **declared, "schema": StreamSchema.from_json(declared["schema"])})
        except (TypeError, KeyError, ValueError, AttributeError):
            raise StreamError(
                "DECLARATION_IS_DAMAGED",
                f"what was declared of the stream in {storage.path} cannot be read",
                detail=f"{storage.full(INFO)} is lost or not what was written",
                hint="put the file back from a copy of the database",
            ) from None


def _with_owner(data: dict[str, Any]) -> dict[str, Any]:
    """A declaration as it is written now; before, the origin of answers was `query <name>`, and nobody was an owner."""
    if "owner" in data:
        return data
    kind, _, query = data.get("origin", APPENDED).partition(" ")
    if kind == ANSWERS and query:
        return {**data, "origin": ANSWERS, "owner": query}
    return {**data, "owner": rejects_owner(data["name"]) if kind == REJECTS else None}


def make_room(storage: Storage) -> None:
    """Give a stream a place for rows of its own."""
    storage.child(_SEGMENTS).make()


def has_log(storage: Storage) -> bool:
    """Whether the rows of a stream are kept here; else it is known here only by its declaration."""
    return storage.exists(_SEGMENTS)


def has_rows(storage: Storage) -> bool:
    """Whether there are files of a stream's rows, whatever became of its declaration."""
    return bool(storage.child(_SEGMENTS).files())


def rejects_name(stream: str) -> str:
    """What the rejects of a stream are called."""
    return stream + _REJECTS_END


def rejects_owner(name: str) -> str | None:
    """The stream whose rejects a name means; None for the name of anything else.

    >>> rejects_owner("cars.rejects"), rejects_owner("cars")
    ('cars', None)
    """
    return name[: -len(_REJECTS_END)] if name.lower().endswith(_REJECTS_END) else None


def changes_name(table: str) -> str:
    """What the stream of a table's changes is called."""
    return table + _CHANGES_END


def changes_owner(name: str) -> str | None:
    """The table whose changes a name would mean; None for the name of anything else."""
    return name[: -len(_CHANGES_END)] if name.lower().endswith(_CHANGES_END) else None


def store_name(query: str) -> str:
    """What the Store of a query is called, whose answer changes."""
    return query + _STORE_END


def store_owner(name: str) -> str | None:
    """The query whose Store a name would mean; None for the name of anything else."""
    return name[: -len(_STORE_END)] if name.lower().endswith(_STORE_END) else None


PARTS = {REJECTS: rejects_name, CHANGES: changes_name, STORE: store_name}
"""What may stand behind the name of a thing and a dot: the streams that belong to it."""


def feed_options(feed: Feed) -> dict[str, str]:
    """The options of a stream that is a change feed."""
    return {CHANGES_BY: feed.change, KEY: json.dumps(list(feed.key))}


def rejects_storage(stream: Storage) -> Storage:
    """Where the rejects of a stream lie."""
    return stream.child(REJECTS)


def rejects_info(info: StreamInfo) -> StreamInfo:
    """The stream that keeps what `info`'s stream refused: its columns, when, and why."""
    fields = [*info.schema.arrow, pa.field("_reason", pa.string()), pa.field("_rejected_at", TIME_TYPE)]
    schema = StreamSchema(pa.schema(fields), "_rejected_at")
    return StreamInfo(rejects_name(info.name), schema, origin=REJECTS, owner=info.name)

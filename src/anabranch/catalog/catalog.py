"""The catalog is the directory tree itself: a stream or query exists once its JSON file does.

    <root>/anabranch.json               that this is a database, and of which format
    <root>/streams/<name>/stream.json   a stream's declaration, beside its segments
    <root>/queries/<name>/query.json    a standing query: its text, and whether it should run
                          plan.json     how it is run, decided when it was made
    <root>/readers/                     who reads what; see `readers`

Names match without regard to case and may hold any character; on disk those that files cannot have are encoded.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from anabranch.archive.declaration import INFO as ARCHIVE_INFO
from anabranch.archive.declaration import ROW, archive_storage
from anabranch.catalog import reducers
from anabranch.catalog.hosted import HostedQueries
from anabranch.catalog.query_info import INFO as QUERY_INFO
from anabranch.catalog.query_info import QueryInfo
from anabranch.catalog.readers import ARCHIVE, QUERY, ObjectName, Readers
from anabranch.clock import Clock
from anabranch.connectors import connector_of
from anabranch.dataspace.access import Access
from anabranch.errors import CatalogError, StreamError, did_you_mean
from anabranch.log.lock import BEING_WRITTEN, WriterLock
from anabranch.log.offset import End
from anabranch.log.stamps import AHEAD_US
from anabranch.log.storage import Storage, decoded_name, encoded_name
from anabranch.log.stream import (
    ANSWERS,
    HOST,
    INFO,
    KEY,
    TABLE,
    VIEW,
    StreamInfo,
    changes_name,
    changes_owner,
    has_rows,
    rejects_info,
    rejects_owner,
    rejects_storage,
    store_owner,
)
from anabranch.operators.opening import end_of, open_stream
from anabranch.schema import StreamSchema, arrow_type
from anabranch.tables.declaration import NUMBER, RESERVED, TableInfo
from anabranch.tables.keeping import hold_all

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader
    from anabranch.operators.together.roster import Entry

FORMAT = 1
_MARKER = "anabranch.json"
_PLAN = "plan.json"
_DROPPED = "dropped"
PLAN_FORMAT = 1
"""Changes when plans that were written down would no longer be read as they were meant."""


class Catalog:
    """Creates, finds and drops streams and queries."""

    def __init__(self, root: Storage, clock: Clock, *, create: bool = True, access: Access | None = None) -> None:
        self.root = root
        self.access = access or Access()
        """What declarations of streams may reach outside of the database."""
        self.readers = Readers(root)
        """Who reads what."""
        self.hosted = HostedQueries(self)
        """Queries that are members of hosts."""
        self._clock = clock
        if root.is_file():
            raise CatalogError("NOT_A_DATABASE", f"{root.path} is a file", hint="give an empty or new directory")
        marker = root.read_json(_MARKER)
        if marker is None:
            if root.exists() and (root.files() or root.directories()) and not root.exists(_MARKER):
                raise CatalogError(
                    "NOT_A_DATABASE",
                    f"{root.path} holds other files and no database",
                    hint="give an empty or new directory",
                )
            if not create:
                raise CatalogError("DATABASE_NOT_FOUND", f"there is no database in {root.path}")
            root.make()
            for part in ("streams", "queries"):
                root.child(part).make()
            self.readers.begin()
            root.write_json(_MARKER, {"format": FORMAT})
        elif marker.get("format") != FORMAT:
            raise CatalogError(
                "FORMAT_NOT_KNOWN", f"{root.path} has format {marker.get('format')}, this version reads {FORMAT}"
            )

    # -- streams -----------------------------------------------------------------------------

    def stream_storage(self, name: str) -> Storage:
        owner = rejects_owner(name)
        if owner is not None:
            return rejects_storage(self.stream_storage(owner))
        return self.root.child("streams", _directory(name))

    def open_stream(self, name: str, *, history: bool = False) -> Reader:
        """A reader of a stream wherever its rows are; with `history` also those that only archives hold."""
        return open_stream(self.stream_storage(name), self.access, history=history)

    def ahead_of_clock(self, info: StreamInfo) -> int:
        """By how much (µs) a stream that should go with the clock is ahead of it, if that is worth telling; else 0."""
        if not info.goes_with_the_clock:
            return 0
        ahead = self.open_stream(info.name).end().time - self._clock.now_us()
        return ahead if ahead > AHEAD_US else 0

    def end_of(self, name: str) -> End | None:
        """How far a stream has come, for a look at it: None if its rows are on a server that is away."""
        return end_of(self.stream_storage(name), self.access)

    def has_stream(self, name: str) -> bool:
        """Whether there is a stream of a name, or one whose rejects it means; its declaration may be damaged."""
        return self._has_stream(rejects_owner(name) or name)

    def _has_stream(self, name: str) -> bool:
        storage = self.root.child("streams", _directory(name))
        return storage.exists(INFO) or has_rows(storage) or self.hosted.find(name) is not None

    def stream(self, name: str) -> StreamInfo:
        """The declaration of a stream, or of the rejects of one."""
        storage = self.root.child("streams", _directory(name))
        if storage.exists(INFO) or has_rows(storage):
            info = StreamInfo.load(storage)
            if HOST not in info.options:
                return info
        member = self.hosted.find(name)
        if member is not None:
            return self.hosted.declare(member, storage)
        owner = rejects_owner(name)
        if owner is not None and self._has_stream(owner):
            info = rejects_info(self.stream(owner))
            storage = self.stream_storage(name)
            if not storage.exists(INFO):
                info.create(storage)
            return info
        if self.has_rows_by_key(name):
            kind = "view" if self.has_view(name) else "table"
            raise CatalogError(
                "TABLE_CHANGES",
                f'"{name}" is a {kind}, whose rows change, and no stream',
                hint=f"read its changes from {changes_name(name)}, join a stream with it by "
                "JOIN … FOR SYSTEM_TIME AS OF, or ask once with SELECT",
            )
        if (query := store_owner(name)) is not None and self._has_stream(query):
            raise CatalogError(
                "TABLE_CHANGES",
                f'"{name}" is a Store, whose rows change, and no stream',
                hint=f"read the changes themselves from {query}, or ask once with SELECT",
            )
        raise CatalogError(
            "STREAM_NOT_FOUND",
            f'stream "{name}" does not exist',
            hint=did_you_mean(name, [*self.stream_names(), *self._owners_of_changes()], "SHOW STREAMS lists them"),
        )

    def stream_names(self) -> list[str]:
        """What the streams are called, in small letters: from their directories alone, none is opened."""
        declared = {decoded_name(directory) for directory in self.root.child("streams").directories()}
        return [*declared, *(name for name in self._hosted_names() if name not in declared)]

    def _hosted_names(self) -> list[str]:
        return [member.entry.name.lower() for member in self.hosted.all()]

    def streams_changed(self) -> int | None:
        """A number that differs once a stream or table was made or dropped; None where nobody can tell."""
        return self.root.child("streams").changed()

    def schema(self, name: str) -> StreamSchema:
        info = self.stream(name)
        if info.origin in (TABLE, VIEW):
            return replace(info.schema, key=TableInfo.of(info).key)
        feed = info.feed
        return info.schema if feed is None else replace(info.schema, key=feed.key, changes_by=feed.change)

    def streams(self) -> list[StreamInfo]:
        """Those whose declaration can be read."""
        declarations = (self._declared(directory) for directory in self.root.child("streams").directories())
        streams = {info.name.lower(): info for info in declarations if isinstance(info, StreamInfo)}
        for member in self.hosted.all():
            streams[member.entry.name.lower()] = self.hosted.answers(member)
        return [streams[name] for name in sorted(streams)]

    def damaged_streams(self) -> dict[str, StreamError]:
        """Those whose declaration cannot be read, and why."""
        directories = self.root.child("streams").directories()
        declarations = ((directory, self._declared(directory)) for directory in directories)
        return {
            decoded_name(directory): problem for directory, problem in declarations if isinstance(problem, StreamError)
        }

    def _declared(self, directory: str) -> StreamInfo | StreamError | None:
        """What is declared of the stream in a directory, or why that cannot be read; None if there is no stream."""
        try:
            return StreamInfo.load(self.root.child("streams", directory))
        except StreamError as problem:
            return problem if problem.name == "DECLARATION_IS_DAMAGED" else None

    def create_stream(self, info: StreamInfo) -> None:
        check_stream(info)
        with self.lock():
            self._create_stream(info)

    def _create_stream(self, info: StreamInfo) -> None:
        self.refuse_if_taken(info.name)
        storage = self.stream_storage(info.name)
        storage.delete_all()
        connector = connector_of(info)
        info.create(storage, logged=connector.logged, private=connector.is_private(info))

    def _was_a_member(self, storage: Storage, name: str) -> bool:
        """Whether a declaration is that of a member's answers, which is no member any more."""
        return self.hosted.find(name) is None and not has_rows(storage) and HOST in StreamInfo.load(storage).options

    def add_members(self, infos: list[QueryInfo], append: Callable[[], None]) -> None:
        """Members of a host, all or none: `append` writes them to its list."""
        with self.lock():
            for info in infos:
                self.refuse_if_taken(info.name)
            append()

    def add_moved(self, host: str, info: QueryInfo, append: Callable[[], None]) -> None:
        """A query that was elsewhere before as a member of a host; once, whoever tries."""
        with self.lock():
            if self.hosted.member_of(host, info.name, info.id) is None:
                append()

    # -- tables ------------------------------------------------------------------------------

    def has_table(self, name: str) -> bool:
        """Whether there is a table of a name: the stream of its changes is there."""
        return self._origin_of_changes(name) == TABLE

    def has_view(self, name: str) -> bool:
        return self._origin_of_changes(name) == VIEW

    def has_rows_by_key(self, name: str) -> bool:
        """Whether there is a table or view of a name: something with rows that change."""
        return self._origin_of_changes(name) in (TABLE, VIEW)

    def _origin_of_changes(self, name: str) -> str | None:
        data = self.stream_storage(changes_name(name)).read_json(INFO)
        return data.get("origin") if isinstance(data, dict) else None

    def table(self, name: str) -> TableInfo:
        if self.has_view(name):
            raise CatalogError(
                "VIEW_IS_COMPUTED",
                f'"{name}" is a view: its rows follow from what it reads',
                hint="change what it reads; DESCRIBE VIEW and DROP VIEW are about the view itself",
            )
        if not self.has_table(name):
            raise CatalogError(
                "TABLE_NOT_FOUND",
                f'table "{name}" does not exist',
                hint=did_you_mean(name, self.table_names(), "SHOW TABLES lists them"),
            )
        return TableInfo.of(self.stream(changes_name(name)))

    def view(self, name: str) -> TableInfo:
        """What rows a view has, and by which key."""
        if not self.has_view(name):
            if self.keeps_view(name):
                self.stream(changes_name(name))  # damaged, and says so
            raise CatalogError(
                "VIEW_NOT_FOUND",
                f'view "{name}" does not exist',
                hint=did_you_mean(name, self.view_names(), "SHOW VIEWS lists them"),
            )
        return TableInfo.of(self.stream(changes_name(name)))

    def keeps_view(self, name: str) -> bool:
        """Whether there is a query that keeps a view of a name, even where what is declared of that is damaged."""
        info = self.query_alone(changes_name(name))
        return info is not None and info.kind == VIEW

    def rows_by_key(self, name: str) -> TableInfo:
        """The same of a table or view."""
        return self.view(name) if self.has_view(name) else self.table(name)

    def table_names(self) -> list[str]:
        """What the tables are called, in small letters."""
        return [owner for owner in self._owners_of_changes() if self.has_table(owner)]

    def view_names(self) -> list[str]:
        return [owner for owner in self._owners_of_changes() if self.has_view(owner)]

    def _owners_of_changes(self) -> list[str]:
        """The names of tables and views, in small letters."""
        owners = (changes_owner(decoded_name(place)) for place in self.root.child("streams").directories())
        return [owner for owner in owners if owner is not None and self.has_rows_by_key(owner)]

    def tables(self) -> list[TableInfo]:
        return [self.table(name) for name in sorted(self.table_names())]

    def views(self) -> list[TableInfo]:
        return [self.view(name) for name in sorted(self.view_names())]

    def create_table(self, info: TableInfo, fill: Callable[[Storage], None] | None = None) -> None:
        """A new table. `fill` writes its first rows: it is there with them, or not at all."""
        if changes_owner(info.name) is not None:
            raise CatalogError("NAME_NOT_ALLOWED", f'"{info.name}" would be the name of the changes of another table')
        check_stream(info.stream())
        if fill is not None:
            self._create_filled(info, fill)
            return
        with self.lock():
            self._refuse_if_table(info)
            storage = self.stream_storage(info.changes)
            storage.delete_all()
            storage.make()
            hold_all(storage)
            info.stream().create(storage)

    def _create_filled(self, info: TableInfo, fill: Callable[[Storage], None]) -> None:
        """Made where what is dropped lies, and moved to its place: who dies in between leaves nothing to be found."""
        self._refuse_if_table(info)
        begun = self.root.child(_DROPPED, secrets.token_hex(8))
        begun.make()
        try:
            hold_all(begun)
            info.stream().create(begun)
            fill(begun)
            with self.lock():
                self._refuse_if_table(info)
                storage = self.stream_storage(info.changes)
                storage.delete_all()
                self.root.filesystem.move(begun.path, storage.path)
                self.root.child("streams").sync(_directory(info.changes))
        finally:
            begun.delete_all()

    def _refuse_if_table(self, info: TableInfo) -> None:
        self.refuse_if_taken(info.name)
        self.refuse_if_taken(info.changes)

    def table_schema(self, name: str) -> StreamSchema | None:
        """The columns of a table or view, as a SELECT that is asked once reads them; None if there is none."""
        if self.has_rows_by_key(name):
            info = self.rows_by_key(name)
            return StreamSchema(info.shown, info.shown.names[0])
        return self._store_schema(name)

    def _store_schema(self, name: str) -> StreamSchema | None:
        """The columns of the Store of a query whose answer changes, and its key; None if that is not what is meant."""
        query = store_owner(name)
        if query is None or self._has_stream(name) or not self._has_stream(query):
            return None
        answers = self.stream(query)
        if answers.origin != ANSWERS:
            return None
        if not answers.changes_an_answer:
            raise CatalogError(
                "QUERY_HAS_NO_STORE",
                f'the answers of "{query}" are final: its rows are those of the stream',
                hint=f"read {query} itself; a Store by name has a query without WINDOW that ends with EMIT CHANGES",
            )
        kept = [field for field in answers.schema.arrow if field.name not in (*RESERVED, NUMBER)]
        return StreamSchema(pa.schema(kept), kept[0].name, tuple(json.loads(answers.options[KEY])))

    def refuse_if_taken(self, name: str) -> None:
        taken = self.has_rows_by_key(name)
        if taken or (self._has_stream(name) and not self._was_a_member(self.stream_storage(name), name)):
            raise CatalogError(
                "NAME_EXISTS",
                f'"{name}" exists already',
                hint="choose another name, write IF NOT EXISTS, or DROP it first",
            )

    def add_column(self, name: str, column: str, sql: str) -> StreamInfo:
        """Give a stream one more column; rows that are there have NULL in it. Only for who may write the stream."""
        _refuse_row_column([column])
        info = self.stream(name)
        known = {existing.lower() for existing in info.schema.names}
        if column.lower() in known:
            raise CatalogError("COLUMN_EXISTS", f'stream "{info.name}" has a column "{column}" already')
        schema = StreamSchema(info.schema.arrow.append(pa.field(column, arrow_type(sql))), info.schema.time)
        changed = replace(info, schema=schema)
        changed.save(self.stream_storage(info.name))
        return changed

    def drop_stream(self, name: str) -> None:
        with self.lock():
            self._remove("streams", name)

    # -- queries -----------------------------------------------------------------------------

    def query_storage(self, name: str) -> Storage:
        return self.root.child("queries", _directory(name))

    def has_query(self, name: str) -> bool:
        return self._find_query(name) is not None

    def _find_query(self, name: str) -> QueryInfo | None:
        info = self._query(_directory(name))
        if info is not None and (info.bound_for is None or self._hosted(info) is None):
            return info
        member = self.hosted.find(name)
        return None if member is None else member.info

    def _hosted(self, info: QueryInfo) -> Entry | None:
        """A query that moves to a host, as its member, once it is there."""
        return None if info.bound_for is None else self.hosted.member_of(info.bound_for, info.name, info.id)

    def query_alone(self, name: str) -> QueryInfo | None:
        """What is kept of a query that no host runs, or not yet."""
        return self._query(_directory(name))

    def query_names(self) -> list[str]:
        """What the queries are called, in small letters: none is opened."""
        alone = [decoded_name(directory) for directory in self.root.child("queries").directories()]
        return [*alone, *self._hosted_names()]

    def query(self, name: str) -> QueryInfo:
        info = self._find_query(name)
        if info is None:
            raise CatalogError(
                "QUERY_NOT_FOUND",
                f'query "{name}" does not exist',
                hint=did_you_mean(name, self.query_names(), "SHOW QUERIES lists them"),
            )
        return info

    def queries(self) -> list[QueryInfo]:
        """All of them; one whose declaration cannot be read has no SQL (`QueryInfo.is_damaged`)."""
        infos = [*self.queries_alone(), *(member.info for member in self.hosted.all())]
        return sorted(infos, key=lambda info: info.name.lower())

    def queries_alone(self) -> list[QueryInfo]:
        """Those that are run by themselves: hosts among them, and not their members."""
        infos = [info for info in self._alone() if self._hosted(info) is None]
        return sorted(infos, key=lambda info: info.name.lower())

    def leaving_home(self) -> list[QueryInfo]:
        """Those that are about to be members of hosts, or are already."""
        return [info for info in self._alone() if info.bound_for is not None]

    def _alone(self) -> Iterator[QueryInfo]:
        infos = (self._query(directory) for directory in self.root.child("queries").directories())
        return (info for info in infos if info is not None)

    def count_alone(self) -> int:
        """How many stand alone; none is opened."""
        return len(self.root.child("queries").directories()) - len(self.hosted.hosts())

    def _query(self, directory: str) -> QueryInfo | None:
        storage = self.root.child("queries", directory)
        data = storage.read_json(QUERY_INFO)
        if data is None:
            name = decoded_name(directory)
            there = storage.exists(QUERY_INFO) or (storage.exists("checkpoint") and self._has_own_answers(name))
            return QueryInfo(name, "", id="") if there else None
        info = QueryInfo.from_json(data)
        return replace(info, owner=self._archive_filled_by(info.name)) if _has_lost_owner(info) else info

    def _archive_filled_by(self, query: str) -> ObjectName | None:
        """The archive that a query fills which does not say so, as those of before: it is called <stream>.<archive>."""
        for at in (at for at, character in enumerate(query) if character == "."):
            stream, archive = query[:at], query[at + 1 :]
            if archive and archive_storage(self.stream_storage(stream), archive).exists(ARCHIVE_INFO):
                return ObjectName(ARCHIVE, archive, stream)
        return None

    def create_query(
        self,
        info: QueryInfo,
        answers: StreamInfo,
        plan: dict[str, Any] | None = None,
        claim: Callable[[], None] = lambda: None,
    ) -> None:
        """A query with its plan and the stream its answers go to, all or none.

        Both come and go under one lock, so a stream of answers that has no query was left by a process that died
        in between: its name is free. The stream is there when `claim` is called, and nobody sees the query yet:
        a process that is opened at this moment would run it.
        """
        check_stream(answers)
        with self.lock():
            if not self.query_storage(info.name).exists(QUERY_INFO) and self._is_of_answers(info.name):
                self._remove("streams", info.name)
            if answers.origin == VIEW:
                self.refuse_if_taken(answers.owner or "")
            self._create_stream(answers)
            if answers.origin == VIEW:
                hold_all(self.stream_storage(answers.name))
            claim()
            if plan is not None:
                self.save_plan(info, plan)
            self.readers.note(ObjectName(QUERY, info.name), info.reads or ())
            self.save_query(info)

    def _is_of_answers(self, name: str) -> bool:
        return self._has_stream(name) and self.stream(name).origin in (ANSWERS, VIEW)

    def save_query(self, info: QueryInfo) -> None:
        storage = self.query_storage(info.name)
        if not storage.exists():
            storage.make()
        storage.write_json(QUERY_INFO, info.to_json())

    def plan_of(self, info: QueryInfo) -> dict[str, Any] | None:
        """How a query was planned when it was made; None if that cannot be read, or is of another version."""
        saved = self.query_storage(info.name).read_json(_PLAN)
        return saved["plan"] if isinstance(saved, dict) and saved.get("of") == [info.id, PLAN_FORMAT] else None

    def save_plan(self, info: QueryInfo, plan: dict[str, Any]) -> None:
        storage = self.query_storage(info.name)
        if not storage.exists():
            storage.make()
        storage.write_json(_PLAN, {"of": [info.id, PLAN_FORMAT], "plan": plan})

    def drop_query(self, name: str) -> None:
        """Remove a query and its answers."""
        with self.lock():
            info = self._query(_directory(name))
            self._remove("queries", name)
            self._remove("streams", name)
            if info is not None:
                self.readers.forget(ObjectName(QUERY, info.name), info.reads or ())

    def _has_own_answers(self, name: str) -> bool:
        """Whether there are answers of a query that no host runs."""
        storage = self.root.child("streams", _directory(name))
        if not storage.exists(INFO):
            return False
        info = StreamInfo.load(storage)
        return info.origin in (ANSWERS, VIEW) and HOST not in info.options

    def take_home(self, info: QueryInfo, plan: dict[str, Any]) -> None:
        """A query stands alone that a host has run; its answers are in its own log by now."""
        with self.lock():
            self.save_plan(info, plan)
            self.readers.note(ObjectName(QUERY, info.name), info.reads or ())
            self.save_query(info)

    def answers_are_home(self, info: QueryInfo) -> None:
        """All answers of a query are in its own log."""
        storage = self.stream_storage(info.name)
        declared = StreamInfo.load(storage)
        if HOST in declared.options:
            replace(declared, options={}).save(storage)

    def leave_home(self, info: QueryInfo) -> None:
        """A query stands alone no longer; its answers so far stay where they are."""
        with self.lock():
            self._remove("queries", info.name)
            self.readers.forget(ObjectName(QUERY, info.name), info.reads or ())

    def forget_member(self, name: str) -> None:
        """Remove what was declared of a member's answers for others, once it is no member any more."""
        with self.lock():
            if self.hosted.find(name) is None:
                self._remove("streams", name)

    def ingest_storage(self, name: str) -> Storage:
        return self.root.child("ingests", _directory(name))

    def frame_storage(self, of: str) -> Storage:
        """Where a DataFrame that a program reads keeps its state, by what it is."""
        return self.root.child("frames", hashlib.sha256(of.encode()).hexdigest()[:16])

    def register_reducer(self, name: str, path: str) -> None:
        """Give a class of the user's a name for REDUCE BY."""
        with self.lock():
            reducers.register(self.root, name, path)

    def reducers(self) -> dict[str, str]:
        """The user's reducers: where the class of each is, by name."""
        return reducers.registered(self.root)

    # -- how -----------------------------------------------------------------------------------

    def _remove(self, kind: str, name: str) -> None:
        """Rename first, so that a crash leaves either all of it or nothing that anyone would find."""
        trash = self.root.child(_DROPPED)
        trash.make()
        place = secrets.token_hex(8)
        with contextlib.suppress(FileNotFoundError):
            self.root.filesystem.move(self.root.child(kind).full(_directory(name)), trash.full(place))
            trash.child(place).delete_all()

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Held for a moment while objects are made or dropped."""
        lock = WriterLock(self.root, "the catalog", self._clock)
        deadline = time.monotonic() + 10
        while True:
            try:
                lock.take()
                break
            except StreamError as problem:
                if problem.name != BEING_WRITTEN or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
        try:
            yield
        finally:
            lock.release()


def _has_lost_owner(info: QueryInfo) -> bool:
    return info.kind == ARCHIVE and info.owner is None


def check_stream(info: StreamInfo) -> None:
    if rejects_owner(info.name) is not None:
        raise CatalogError("NAME_NOT_ALLOWED", f'"{info.name}" would be the name of the rejects of another stream')
    _refuse_row_column(info.schema.names)


def _refuse_row_column(names: Iterable[str]) -> None:
    if ROW in (name.lower() for name in names):
        raise CatalogError(
            "COLUMN_RESERVED", f'column "{ROW}" is kept for the numbers of archived rows', hint="give it another name"
        )


def _directory(name: str) -> str:
    """A name as a directory's name.

    >>> _directory("a.b/C")
    'a=2Eb=2Fc'
    """
    try:
        encoded = encoded_name(name)
    except UnicodeEncodeError:
        raise CatalogError("NAME_NOT_ALLOWED", f"{name!r} holds half a character") from None
    if not name or len(encoded) > 200:
        raise CatalogError("NAME_NOT_ALLOWED", f"a name has 1 to 200 characters, got {len(encoded)}")
    return encoded

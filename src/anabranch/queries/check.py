"""A look through a whole database, and what can be done about what is wrong.

Looking changes nothing and may be done while others write. Repairing takes the lock of each stream it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from anabranch.archive.archived import ArchiveReader
from anabranch.archive.check import check_archive
from anabranch.archive.declaration import INFO as ARCHIVE
from anabranch.archive.declaration import WINDOWED, archives_of, undeclared_archives
from anabranch.catalog import Catalog
from anabranch.clock import Clock, SystemClock
from anabranch.connectors import connector_of
from anabranch.errors import AnabranchError
from anabranch.log import Storage, lost
from anabranch.log.check import check_stream, left_over, set_aside
from anabranch.log.findings import Finding
from anabranch.log.lock import WriterLock, owner_of
from anabranch.log.reader import StreamReader
from anabranch.log.segment import Segment, chain, read_notes, write_segment
from anabranch.log.stream import ANSWERS, HOST, INFO, TABLE, VIEW, StreamInfo, rejects_name, rejects_storage
from anabranch.log.writer import times_of
from anabranch.operators.state import STATES, is_whole
from anabranch.queries.checkpoint import look_at
from anabranch.tables.check import check_snapshots, survives
from anabranch.tables.snapshots import PLACE as SNAPSHOTS

Watch = Callable[[str, int, int], None]
"""Is told what is looked at, and how many bytes of how many were."""


@dataclass(frozen=True)
class Report:
    """What a look has found, and what was done about it."""

    findings: tuple[Finding, ...]
    repaired: tuple[Finding, ...]
    failed: tuple[tuple[Finding, AnabranchError], ...]
    bytes: int

    @property
    def fine(self) -> bool:
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        return {
            "fine": self.fine,
            "bytes": self.bytes,
            "findings": [
                {**finding.as_dict(), "repaired": any(finding is done for done in self.repaired)}
                for finding in self.findings
            ],
        }


def check_database(
    root: Storage, *, repair: bool = False, clock: Clock | None = None, watch: Watch = lambda what, done, of: None
) -> Report:
    """Look through a database; with `repair` do what is safe, and go on without what is lost for good."""
    clock = clock or SystemClock()
    looking = _Look(Catalog(root, clock, create=False), clock, watch)
    findings, repaired = [], []
    failed: list[tuple[Finding, AnabranchError]] = []
    for finding in looking.findings():
        findings.append(finding)
        if repair and finding.mend is not None:
            try:
                finding.mend()
                repaired.append(finding)
            except AnabranchError as problem:
                failed.append((finding, problem))
    return Report(tuple(findings), tuple(repaired), tuple(failed), looking.done)


class _Look:
    def __init__(self, catalog: Catalog, clock: Clock, watch: Watch) -> None:
        self._catalog = catalog
        self._clock = clock
        self._watch = watch
        self._total = 0
        self.done = 0
        self._what = ""

    def _seen(self, size: int) -> None:
        self.done += size
        self._watch(self._what, self.done, self._total)

    def findings(self) -> Iterator[Finding]:
        logged = [info for info in self._catalog.streams() if connector_of(info).logged]
        known = [(info, self._catalog.stream_storage(info.name)) for info in logged]
        # The rows of a member of a host are in the log of the host.
        places = [(info, storage) for info, storage in known if HOST not in info.options]
        members = [(info, storage) for info, storage in known if HOST in info.options and storage.exists()]
        self._total = sum(_size(storage) for _, storage in (*places, *members))
        for name, problem in self._catalog.damaged_streams().items():
            yield Finding("file damaged", self._catalog.stream_storage(name).full(INFO), problem.message, name)
        for info, storage in places:
            yield from self._stream(info, storage)
            if (rejects := rejects_storage(storage)).exists(INFO):
                try:
                    yield from self._stream(StreamInfo.load(rejects), rejects, storage)
                except AnabranchError as problem:
                    yield Finding("file damaged", rejects.full(INFO), problem.message, rejects_name(info.name))
            if info.origin in (TABLE, VIEW):
                yield from check_snapshots(storage, info.owner or info.name, self._seen)
            yield from self._archives(info, storage)
        for info, storage in members:
            yield from self._archives(info, storage)
        for query in self._catalog.queries_alone():
            yield from self._query(query.name, query.damage() if query.is_damaged else None)

    # -- streams -----------------------------------------------------------------------------------

    def _stream(self, info: StreamInfo, storage: Storage, locked: Storage | None = None) -> Iterator[Finding]:
        self._what = info.name
        written = owner_of(locked or storage, self._clock) is not None
        mend = _Mending(self._catalog, info, storage)
        for finding in check_stream(storage, info, written, mend.choose, self._seen):
            yield replace(finding, mend=self._alone(locked or storage, info.name, finding.mend))

    def _alone(self, storage: Storage, name: str, mend: Callable[[], None] | None) -> Callable[[], None] | None:
        """The same, done by one who may write the stream."""
        if mend is None:
            return None

        def locked() -> None:
            lock = WriterLock(storage, name, self._clock)
            lock.take()
            try:
                mend()
            finally:
                lock.release()

        return locked

    def _archives(self, info: StreamInfo, storage: Storage) -> Iterator[Finding]:
        for place in undeclared_archives(storage):
            means = f'what was declared of an archive of stream "{info.name}" cannot be read'
            yield Finding("file damaged", place.full(ARCHIVE), means, info.name)
        for place, about in archives_of(storage):
            if about.layout != WINDOWED:
                self._what = f"{info.name}, archive {about.name}"
                yield from check_archive(place, about, info.schema.time, self._seen)

    # -- queries -----------------------------------------------------------------------------------

    def _query(self, name: str, damage: AnabranchError | None) -> Iterator[Finding]:
        storage = self._catalog.query_storage(name)
        self._what = f"query {name}"
        if damage is not None:
            yield Finding("file damaged", storage.full("query.json"), damage.message, name)
        runs = owner_of(self._catalog.stream_storage(name), self._clock) is not None
        problem = None if runs else look_at(storage.child("checkpoint")).problem
        if problem is not None:
            means = f'of no use to query "{name}": {problem}; when it runs it goes on from its answers'
            yield Finding("checkpoint", storage.child("checkpoint").path, means, name)
        if storage.exists("progress.json") and storage.read_json("progress.json") is None and not runs:
            means = f'what query "{name}" has counted cannot be read; it counts anew'
            yield Finding("file damaged", storage.full("progress.json"), means, name, None, "deletes it",
                          lambda: storage.delete("progress.json"))  # fmt: skip
        for scratch in _scratch_folders(storage.child("scratch")):
            yield from left_over(scratch, ("",), runs, name)
            for file in scratch.files():
                if not runs and is_whole(scratch.read_bytes(file), file) is False:
                    means = f'a state of query "{name}" is damaged, and counts as lost if it is asked for'
                    yield Finding("file damaged", scratch.full(file), means, name, None, "deletes it",
                                  lambda scratch=scratch, file=file: scratch.delete(file))  # type: ignore[misc]  # fmt: skip


def _scratch_folders(scratch: Storage) -> Iterator[Storage]:
    """Where operators keep files that are looked at; of a host also what its members keep as state."""
    for query in scratch.directories():
        yield scratch.child(query)
        states = scratch.child(query, STATES)
        yield from (states.child(member) for member in states.directories())


def _size(storage: Storage) -> int:
    parts = ("segments", "arrivals", "rejects/segments", SNAPSHOTS)
    size = sum(sum(storage.child(part).files().values()) for part in parts)
    for place, _ in archives_of(storage):
        size += sum(sum(place.child(table).files().values()) for table in place.directories())
    return size


class _Mending:
    """What can be done about rows of a stream that are lost."""

    def __init__(self, catalog: Catalog, info: StreamInfo, storage: Storage) -> None:
        self._catalog = catalog
        self._info = info
        self._storage = storage
        self._segments = storage.child("segments")

    def choose(self, damaged: list[Segment], rows: lost.Loss) -> tuple[str | None, Callable[[], None] | None]:
        archive = self._archive_of(rows)
        if archive is not None:
            return f'writes them again from archive "{archive.info.name}"', lambda: self._from(archive, damaged, rows)
        if self._info.origin == ANSWERS:
            what = "moves these answers and those after them to damaged/; the query computes them again when it runs"
            return what, lambda: self._compute_again(rows)
        if self._info.origin in (TABLE, VIEW) and not survives(self._storage, rows.end):
            return None, None  # what the rows of the table are depends on every one of its changes
        what = f"gives them up: the stream begins with row {rows.end}, older rows go to a stream of their own"
        return what, lambda: self._give_up(damaged, rows)

    def _archive_of(self, rows: lost.Loss) -> ArchiveReader | None:
        """An archive that holds all of them."""
        for place, info in archives_of(self._storage):
            if info.layout == WINDOWED:
                continue
            try:
                reader = ArchiveReader(place, info, self._info.schema.arrow, self._info.schema.time)
                if reader.first <= rows.first and rows.end <= reader.end and reader.runs:
                    reader.read(rows.first, rows.end, self._info.schema.names)
                    return reader
            except AnabranchError:
                continue
        return None

    def _chain(self) -> list[Segment]:
        return chain(s for n, size in self._segments.files().items() if (s := Segment.parse(n, size)))

    def _aside(self, damaged: list[Segment], rows: lost.Loss) -> None:
        """Files that name rows which are lost, whole or not."""
        for name in self._segments.files():
            segment = Segment.named(name)
            torn = segment is not None and Segment.parse(name, self._segments.files().get(name, -1)) is None
            if segment is not None and (
                segment in damaged or (torn and segment.first < rows.end and rows.first < segment.end)
            ):
                set_aside(self._storage, "segments", name)

    def _from(self, archive: ArchiveReader, damaged: list[Segment], rows: lost.Loss) -> None:
        table: pa.Table = archive.read(rows.first, rows.end, self._info.schema.names)
        table = table.cast(self._info.schema.arrow).combine_chunks()
        self._aside(damaged, rows)
        before = [segment for segment in self._chain() if segment.end <= rows.first]
        notes = read_notes(self._segments, before[-1], self._info.name) if before else {}
        times = times_of(table, self._info.schema.time)[0]
        write_segment(self._segments, table, rows.first, (int(times[0]), int(times[-1])), notes)

    def _compute_again(self, rows: lost.Loss) -> None:
        for name in self._segments.files():
            segment = Segment.named(name)
            if segment is not None and segment.end > rows.first:
                set_aside(self._storage, "segments", name)

    def _give_up(self, damaged: list[Segment], rows: lost.Loss) -> None:
        self._aside(damaged, rows)
        older = [segment for segment in self._chain() if segment.end <= rows.first]
        if older:
            self._part_off(older, rows.first)
        lost.agree_to(self._storage, [rows])
        lost.keep_from(self._storage, rows.end)

    def _part_off(self, segments: list[Segment], until: int) -> None:
        """Older rows, which are whole, become a stream of their own, under their numbers."""
        name = f"{self._info.name}_until_{until}"
        schema = StreamReader(self._storage).info.schema
        self._catalog.create_stream(StreamInfo(name, schema, options=self._info.options))
        place = self._catalog.stream_storage(name)
        lost.keep_from(place, segments[0].first)
        for segment in segments:
            self._segments.filesystem.move(
                self._segments.full(segment.name), place.child("segments").full(segment.name)
            )

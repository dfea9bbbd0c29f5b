"""The archives of a database: made, filled in the background, looked after, and dropped."""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import threading
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace

from anabranch.archive.declaration import (
    INFO,
    WINDOWED,
    ArchiveInfo,
    archive_storage,
    archives_of,
    declared,
)
from anabranch.archive.summaries.eager import eager_shape
from anabranch.catalog import Catalog
from anabranch.clock import Clock
from anabranch.connectors import connector_of
from anabranch.errors import AnabranchError, CatalogError, DataError, StreamError, did_you_mean
from anabranch.log import retention
from anabranch.operators.opening import open_history
from anabranch.queries.archiver import Archiver, RunJobs
from anabranch.settings import Settings

_LOOK_SECONDS = 0.5
_FIND_SECONDS = 2.0

_log = logging.getLogger("anabranch.archives")


class Archives:
    """All archives of a database, and the thread that fills them."""

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock, run: RunJobs, *, active: bool) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._run = run
        self._mutex = threading.RLock()
        self._archivers: dict[str, Archiver] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: dict[str, str] = {}
        if active:
            self._start()

    # -- which there are ---------------------------------------------------------------------------

    def infos(self, stream: str | None = None) -> list[ArchiveInfo]:
        """The declarations of all archives, or of those of a stream."""
        streams = self._catalog.streams() if stream is None else [self._catalog.stream(stream)]
        return [info for source in streams for _, info in archives_of(self._catalog.stream_storage(source.name))]

    def find(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """An archive of a stream: by its name, or the only one."""
        there = self.infos(stream)
        if name is None and len(there) == 1:
            return there[0]
        named = next((info for info in there if name is not None and info.name.lower() == name.lower()), None)
        if named is not None:
            return named
        names = [info.name for info in there]
        if not there:
            raise CatalogError(
                "ARCHIVE_NOT_FOUND",
                f'stream "{stream}" has no archive',
                hint=f"CREATE ARCHIVE ON {stream} USING randomize_then_sort",
            )
        if name is None:
            raise CatalogError(
                "ARCHIVE_WANTED",
                f'stream "{stream}" has several archives',
                hint=f"name one: ARCHIVE {names[0]} ON {stream}",
            )
        raise CatalogError(
            "ARCHIVE_NOT_FOUND", f'stream "{stream}" has no archive "{name}"', hint=did_you_mean(name, names)
        )

    def wanted(self, stream: str) -> None:
        """An error if a stream that is read from its archive has none."""
        if not self.infos(stream):
            self.find(stream)

    def archiver(self, stream: str, name: str | None = None) -> Archiver:
        """The writing side of an archive in this process."""
        info = self.find(stream, name)
        if info.layout == WINDOWED:
            raise CatalogError(
                "ARCHIVE_NOT_FOUND", f'"{info.name}" holds summaries that a standing query writes, not rows'
            )
        with self._mutex:
            known = self._archivers.get(info.id)
            if known is None:
                storage = self._catalog.stream_storage(info.stream)
                place = archive_storage(storage, info.name)
                known = self._archivers[info.id] = Archiver(storage, place, info, self._run, self._clock)
            known.info = info  # another process may have changed it when it had the right to
            return known

    # -- making and dropping -------------------------------------------------------------------------

    def create(
        self,
        stream: str,
        layout: str,
        name: str | None = None,
        *,
        by: str | None = None,
        keep_us: int | None = None,
        every: int | None = None,
        group_by: tuple[str, ...] = (),
        options: Mapping[str, str] | None = None,
    ) -> ArchiveInfo:
        """Declare an archive and begin to fill it."""
        about = self._catalog.stream(stream)
        connector = connector_of(about)
        if not connector.logged:
            raise CatalogError(
                "ARCHIVE_NOT_POSSIBLE",
                f'the rows of "{about.name}" are on {connector.place}',
                hint="make a stream of them with CREATE STREAM … AS SELECT … and archive that",
            )
        columns = {column.lower(): column for column in about.schema.names}
        for column in (*([by] if by else []), *group_by):
            if column.lower() not in columns:
                raise CatalogError(
                    "COLUMN_NOT_FOUND",
                    f'column "{column}" is not in stream "{about.name}"',
                    hint=did_you_mean(column, about.schema.names),
                )
        grouped = tuple(columns[column.lower()] for column in group_by)
        storage = self._catalog.stream_storage(about.name)
        reader = open_history(storage)
        reader.refresh()
        siblings = [info for _, info in archives_of(storage)]
        info = declared(
            name,
            about.name,
            layout,
            by=columns[by.lower()] if by else None,
            keep_us=keep_us,
            every=every,
            group_by=grouped,
            values=eager_shape(about.schema, every or 1, grouped).values if layout.lower() == WINDOWED else (),
            options=options,
            seed=siblings[0].seed if siblings else None,
            first_row=reader.first_row(),
        )
        if siblings and info.seed != siblings[0].seed:
            raise DataError(
                "ARCHIVE_OPTION_INVALID",
                f"all archives of a stream share one seed, {siblings[0].seed}",
                hint="leave the seed out",
            )
        if info.name.lower() in (sibling.name.lower() for sibling in siblings):
            raise CatalogError(
                "NAME_EXISTS",
                f'stream "{about.name}" has an archive "{info.name}" already',
                hint="give it a name: CREATE ARCHIVE name ON …, write IF NOT EXISTS, or DROP ARCHIVE it first",
            )
        place = archive_storage(storage, info.name)
        if info.layout != WINDOWED and "%" in place.path:
            raise CatalogError(
                "ARCHIVE_NOT_POSSIBLE",
                f"a Delta table cannot lie in {place.path}: there is a % in it",
                hint="move the database to a directory without %",
            )
        place.delete_all()  # what is left of one that was dropped when a process died
        if info.layout != WINDOWED:
            retention.hold(storage, f"archive {info.name}", info.first_row, None)
        info.save(place)
        if info.layout != WINDOWED:
            with contextlib.suppress(StreamError):  # another process may have seen it and begun
                self.archiver(info.stream, info.name).append(all_rows=False)
        return info

    def drop(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """End an archive and delete all its rows."""
        info = self.find(stream, name)
        if info.layout == WINDOWED:
            place = archive_storage(self._catalog.stream_storage(info.stream), info.name)
            place.delete(INFO)
            place.delete_all()
        else:
            self.archiver(stream, info.name).drop()
            with self._mutex:
                self._archivers.pop(info.id, None)
        return info

    def alter(
        self,
        stream: str,
        name: str | None = None,
        *,
        add_level: int | None = None,
        drop_level: int | None = None,
        keep_us: int | None = None,
    ) -> ArchiveInfo:
        """Add or take away a level of reduction, or change how long rows are kept."""
        archiver = self.archiver(stream, name)
        info = archiver.info
        level = add_level if add_level is not None else drop_level
        if level is None:
            archiver.save(replace(info, keep_us=keep_us))
            return archiver.info
        if info.layout != "on_write_replicate" or not 0 < level < 100:
            what = f"a level is from 1 to 99 percent, got {level}"
            layout = f'levels belong to the layout on_write_replicate, "{info.name}" is {info.layout}'
            raise DataError("ARCHIVE_OPTION_INVALID", layout if info.layout != "on_write_replicate" else what)
        if (level in info.levels) == (add_level is not None):
            said = "has a copy" if add_level is not None else "has no copy"
            raise DataError("ARCHIVE_OPTION_INVALID", f'"{info.name}" {said} that is reduced by {level} percent')
        if add_level is not None:
            archiver.add_level(replace(info, levels=tuple(sorted({*info.levels, level}))), level)
        else:
            archiver.drop_level(
                replace(info, levels=tuple(percent for percent in info.levels if percent != level)), level
            )
        return archiver.info

    # -- in the background -----------------------------------------------------------------------------

    def _start(self) -> None:
        """Fill archives from now on, in a thread of their own."""
        self._thread = threading.Thread(
            target=_work, args=(weakref.ref(self), self._stop), name="anabranch-archiver", daemon=True
        )
        self._thread.start()
        # Whoever ends without closing the database must not end in the middle of native code.
        self._at_exit = functools.partial(_end, weakref.ref(self))
        atexit.register(self._at_exit)

    def look_after_all(self, known: list[ArchiveInfo]) -> None:
        """What is due for each of some archives."""
        for info in known:
            if info.layout != WINDOWED and not self._stop.is_set():
                self._look_after(info)

    def _look_after(self, info: ArchiveInfo) -> None:
        """What is due for one archive; where another process does it, nothing."""
        try:
            archiver = self.archiver(info.stream, info.name)
            if archiver.due(self._settings["archive_age_seconds"]):
                archiver.append()
                archiver.join_runs()
                archiver.let_go()
            archiver.write_facts(most=1)
            self._told.pop(info.id, None)
        except Exception as problem:  # tried again soon; said once
            name = problem.name if isinstance(problem, AnabranchError) else type(problem).__name__
            if name not in ("ARCHIVE_IS_BEING_WRITTEN", "ARCHIVE_NOT_FOUND") and self._told.get(info.id) != name:
                self._told[info.id] = name
                _log.warning("archive %s of %s: %s", info.name, info.stream, problem)

    def close(self) -> None:
        """Stop filling; what waits is archived when the database is opened again."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            atexit.unregister(self._at_exit)
        for archiver in self._archivers.values():
            archiver.close()


def _work(reference: weakref.ref[Archives], stop: threading.Event) -> None:
    """The thread: looks for new archives now and then, and after those it knows often."""
    known: list[ArchiveInfo] = []
    looked = -_FIND_SECONDS
    while not stop.wait(_LOOK_SECONDS):
        archives = reference()
        if archives is None:
            return
        with contextlib.suppress(Exception):  # tried again soon
            if time.monotonic() - looked >= _FIND_SECONDS:
                known, looked = archives.infos(), time.monotonic()
            archives.look_after_all(known)
        del archives


def _end(reference: weakref.ref[Archives]) -> None:
    archives = reference()
    if archives is not None:
        archives.close()

"""The archives of a database: made, filled in the background, looked after, and dropped."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from anabranch.archive.declaration import (
    INFO,
    ROW,
    WINDOWED,
    ArchiveInfo,
    archive_storage,
    archives_of,
    declared,
)
from anabranch.archive.reader import HistoryReader
from anabranch.catalog import Catalog
from anabranch.clock import Clock
from anabranch.errors import AnabranchError, CatalogError, DataError, StreamError, did_you_mean
from anabranch.log import retention
from anabranch.log.stream import DATASPACE
from anabranch.queries.archiver import Archiver, RunJobs
from anabranch.settings import Settings

_LOOK_SECONDS = 0.5

_log = logging.getLogger("anabranch.archives")


class Archives:
    """All archives of a database, and the thread that fills them."""

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock, run: RunJobs) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._run = run
        self._mutex = threading.RLock()
        self._archivers: dict[str, Archiver] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: dict[str, str] = {}

    # -- which there are ---------------------------------------------------------------------------

    def infos(self, stream: str | None = None) -> list[ArchiveInfo]:
        """The declarations of all archives, or of those of a stream."""
        streams = self._catalog.streams() if stream is None else [self._catalog.stream(stream)]
        return [info for each in streams for _, info in archives_of(self._catalog.stream_storage(each.name))]

    def find(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """An archive of a stream: by its name, or the only one."""
        there = self.infos(stream)
        if name is None and len(there) == 1:
            return there[0]
        found = next((info for info in there if name is not None and info.name.lower() == name.lower()), None)
        if found is not None:
            return found
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
        if about.origin == DATASPACE:
            raise CatalogError(
                "ARCHIVE_NOT_POSSIBLE",
                f'the rows of "{about.name}" are on a data server',
                hint="make a stream of them with CREATE STREAM … AS SELECT … and archive that",
            )
        columns = {column.lower(): column for column in about.schema.names}
        if ROW in columns:
            raise DataError("COLUMN_RESERVED", f'column "{ROW}" is kept for the numbers of archived rows')
        for column in (*([by] if by else []), *group_by):
            if column.lower() not in columns:
                raise CatalogError(
                    "COLUMN_NOT_FOUND",
                    f'column "{column}" is not in stream "{about.name}"',
                    hint=did_you_mean(column, about.schema.names),
                )
        storage = self._catalog.stream_storage(about.name)
        reader = HistoryReader(storage)
        reader.refresh()
        siblings = [info for _, info in archives_of(storage)]
        info = declared(
            name,
            about.name,
            layout,
            by=columns[by.lower()] if by else None,
            keep_us=keep_us,
            every=every,
            group_by=tuple(columns[column.lower()] for column in group_by),
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
        if info.name.lower() in (each.name.lower() for each in siblings):
            raise CatalogError(
                "NAME_EXISTS",
                f'stream "{about.name}" has an archive "{info.name}" already',
                hint="give it a name: CREATE ARCHIVE name ON …, write IF NOT EXISTS, or DROP ARCHIVE it first",
            )
        place = archive_storage(storage, info.name)
        if info.layout != WINDOWED:
            retention.hold(storage, f"archive {info.name}", info.first_row, None)
        info.save(place)
        if info.layout != WINDOWED:
            with contextlib.suppress(StreamError):  # another process may have seen it and begun
                self.archiver(info.stream, info.name).append(all_rows=False)
            self.start()
        return info

    def drop(self, stream: str, name: str | None = None) -> ArchiveInfo:
        """End an archive and delete all its rows."""
        info = self.find(stream, name)
        storage = self._catalog.stream_storage(info.stream)
        if info.layout != WINDOWED:
            archiver = self.archiver(stream, info.name)
            archiver.take()
            archiver.close()
            with self._mutex:
                self._archivers.pop(info.id, None)
            retention.let_go(storage, archiver.holder)
        place = archive_storage(storage, info.name)
        place.delete(INFO)
        place.delete_all()
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
            archiver.drop_level(replace(info, levels=tuple(each for each in info.levels if each != level)), level)
        return archiver.info

    # -- in the background -----------------------------------------------------------------------------

    def start(self) -> None:
        """Fill archives from now on, in a thread of their own."""
        with self._mutex:
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._work, name="anabranch-archiver", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_SECONDS):
            for info in self._quietly(self.infos) or ():
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
            self._told.pop(info.id, None)
        except Exception as problem:  # tried again soon; said once
            name = problem.name if isinstance(problem, AnabranchError) else type(problem).__name__
            if name not in ("ARCHIVE_IS_BEING_WRITTEN", "ARCHIVE_NOT_FOUND") and self._told.get(info.id) != name:
                self._told[info.id] = name
                _log.warning("archive %s of %s: %s", info.name, info.stream, problem)

    @staticmethod
    def _quietly(action: Callable[[], Any]) -> Any:
        with contextlib.suppress(Exception):
            return action()

    def close(self) -> None:
        """Stop filling; what waits is archived when the database is opened again."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        for archiver in self._archivers.values():
            archiver.close()

"""The archiver of one archive: moves rows from the log into its tables, joins small runs, lets old ones go.

All it knows is in the tables: up to which row each holds the stream stands in its last commit. So it may be
killed between any two steps, and another goes on. One process at a time has the right to it, by a lock.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from anabranch.archive.archived import ArchiveReader
from anabranch.archive.declaration import DROPPED, INFO, ROW, ArchiveInfo
from anabranch.archive.files import RunFile, table_schema
from anabranch.archive.layouts import COPY, PRIMARY
from anabranch.archive.layouts.on_read_modify import OnReadModify
from anabranch.archive.layouts.on_write_replicate import copy_of
from anabranch.archive.marks import changing, load_marks, rate_of
from anabranch.archive.reader import HistoryReader
from anabranch.archive.runs import Run, parse_run
from anabranch.archive.table import RunTable, Written
from anabranch.archive.upkeep import Job, to_append, to_join, to_let_go
from anabranch.clock import Clock
from anabranch.errors import CatalogError, DataError, StreamError
from anabranch.log import retention
from anabranch.log.lock import BEING_WRITTEN, WriterLock, owner_of
from anabranch.log.storage import Storage
from anabranch.operators.archive.write import ArchiveWrite
from anabranch.operators.opening import open_history

JOINS_FROM = 8
"""Small runs beside each other before the archiver joins them by itself."""
_RUNS_AT_ONCE = 16
_LEAST_READS = 16
"""Reads before the copy of OnReadModify can count as missed too often."""

RunJobs = Callable[[ArchiveWrite], pa.Table]
"""Has the files of jobs written, by Spark's tasks or here; gives what `operators.archive.write.WRITTEN` says."""


class Archiver:
    """The writing side of one archive; see the module."""

    def __init__(self, stream: Storage, storage: Storage, info: ArchiveInfo, run: RunJobs, clock: Clock) -> None:
        self.info = info
        self._stream = stream
        self._storage = storage
        self._run = run
        self._clock = clock
        self._lock = WriterLock(storage, f"{info.stream}, archive {info.name}", clock)
        self._locked = False
        self._mutex = threading.RLock()
        self._waiting_since: float | None = None
        self._have_facts = False

    # -- the right to write ------------------------------------------------------------------------

    def take(self) -> None:
        """Become the one archiver, or say who is."""
        with self._mutex:
            if self._locked:
                self._lock.check()
                return
            self._check_there()
            try:
                self._lock.take()
            except StreamError as problem:
                if problem.name != BEING_WRITTEN:
                    raise
                owner = owner_of(self._storage, self._clock) or {}
                raise StreamError(
                    "ARCHIVE_IS_BEING_WRITTEN",
                    f'archive "{self.info.name}" of stream "{self.info.stream}" is being written by '
                    f"process {owner.get('pid', '?')} on {owner.get('host', '?')}",
                    hint="do it in that process, or stop it first",
                ) from None
            self._locked = True
            try:
                self._check_there()
            except CatalogError:
                self.close()
                raise

    def _check_there(self) -> None:
        """The archive may have been dropped meanwhile, and perhaps made anew by another."""
        declared = ArchiveInfo.load(self._storage)
        if declared is None or declared.id != self.info.id:
            raise CatalogError(
                "ARCHIVE_NOT_FOUND", f'the archive "{self.info.name}" of "{self.info.stream}" was dropped'
            )

    def close(self) -> None:
        with self._mutex:
            if self._locked:
                self._lock.release()
                self._locked = False

    # -- rows from the log -------------------------------------------------------------------------

    def due(self, age_seconds: float) -> bool:
        """Whether enough rows wait, or some for long enough."""
        reader = self._reader()
        waiting = reader.end().row - self._archive(reader).end
        now = time.monotonic()
        if waiting <= 0:
            self._waiting_since = None
            return False
        if self._waiting_since is None:
            self._waiting_since = now
        return waiting >= self.info.run_rows or now - self._waiting_since >= age_seconds

    def append(self, *, all_rows: bool = True) -> int:
        """Move waiting rows into the archive; gives up to which row it holds the stream now."""
        with self._mutex:
            self.take()
            self._make_tables()
            reader = self._reader()
            archive = self._archive(reader)
            begin = max(self.info.first_row, reader.first_row())  # retention may have been faster than our hold
            start, end = self._held_up_to(archive, begin), reader.end().row
            self._waiting_since = None
            runs = to_append(start, end, self.info.run_rows, all_rows=all_rows)
            try:
                for low in range(0, len(runs), _RUNS_AT_ONCE):
                    self._append_runs(archive, runs[low : low + _RUNS_AT_ONCE], begin)
            except Exception:
                self._delete_unfinished(archive, begin)
                raise
            archive.refresh()
            retention.hold(self._stream, self.holder, archive.end, None)
            return archive.end

    @property
    def holder(self) -> str:
        """The name under which it keeps rows in the log that are not archived yet."""
        return f"archive {self.info.name}"

    @staticmethod
    def _held_up_to(archive: ArchiveReader, begin: int) -> int:
        """The rows below it are in every table: a process may have died between two of their commits."""
        ends = [table.end for table in archive.tables().values()]
        return min((begin if end is None else end for end in ends), default=begin)

    @staticmethod
    def _delete_unfinished(archive: ArchiveReader, begin: int) -> None:
        """Files of rows that no commit tells of: a full disk must not get fuller with each attempt."""
        with contextlib.suppress(Exception):
            archive.refresh()
            for table in archive.tables().values():
                held = begin if table.end is None else table.end
                table.storage.sweep()
                for name in table.storage.files():
                    run = parse_run(name, 0, 0)
                    if run is not None and run.first >= held:
                        table.storage.delete(name)

    def _append_runs(self, archive: ArchiveReader, runs: Sequence[tuple[int, int]], begin: int) -> None:
        end = runs[-1][1]
        jobs: list[Job] = []
        for name, table in archive.tables().items():
            held = begin if table.end is None else table.end
            rate = archive.layout.rate(name)
            jobs += [Job(name, max(low, held), high, rate) for low, high in runs if high > held]
        written = self._write(jobs)
        # Copies first: whoever sees a row in the archive finds it in the copies, too.
        for name, table in reversed(archive.tables().items()):
            files = [file for job, file in zip(jobs, written, strict=True) if job.table == name]
            if files:
                self._lock.check()
                table.commit(files, end=end)

    def _write(self, jobs: Sequence[Job]) -> list[Written]:
        if not jobs:
            return []
        listed = tuple((job.table, job.start, job.end, job.rate) for job in jobs)
        answer = self._run(ArchiveWrite(self.info.stream, self.info.name, listed)).sort_by("job").to_pylist()
        if [row["job"] for row in answer] != list(range(len(jobs))):
            raise DataError("ARCHIVE_NOT_WRITTEN", f"{len(answer)} of {len(jobs)} runs were written")
        return [Written(row["path"], row["size"], row["records"], row["stats"]) for row in answer]

    def _make_tables(self) -> None:
        schema, known = self._columns()
        for name in self._archive(self._reader()).layout.tables():
            table = RunTable(self._storage.child(name))
            if table.exists():
                table.add_columns(schema)
            else:
                table.create(schema, known)

    def _columns(self) -> tuple[pa.Schema, tuple[str, str]]:
        """The columns of its tables, and those that the statistics of their files tell of."""
        reader = open_history(self._stream)
        return table_schema(reader.schema), (reader.time_column, ROW)

    # -- upkeep ------------------------------------------------------------------------------------

    def join_runs(self, least: int = JOINS_FROM) -> int:
        """Compaction: small runs that lie beside each other become one; gives how many were joined."""
        with self._mutex:
            self.take()
            archive = self._archive(self._reader())
            groups = to_join(archive.runs, self.info.run_rows, least)
            for group in groups:
                self._join(archive, group, list(archive.tables()))
            self._align(archive)
            return sum(len(group) for group in groups)

    def _align(self, archive: ArchiveReader) -> None:
        """Copies get the runs of the table of all rows, where a process died between two commits."""
        for name in [copy for copy in archive.tables() if copy != PRIMARY]:
            firsts = {run.first: run.rows for run in archive.tables()[name].runs}
            for run in archive.runs:
                if firsts.get(run.first, run.rows) < run.rows:
                    self._join(archive, [run], [name])

    def _join(self, archive: ArchiveReader, group: Sequence[Run], tables: Sequence[str]) -> None:
        start, end = group[0].first, group[-1].end
        old: dict[str, list[Run]] = {}
        jobs: list[Job] = []
        for name in tables:
            inside = [run for run in archive.tables()[name].runs if start <= run.first and run.end <= end]
            if sum(run.rows for run in inside) == end - start:  # a copy may lie behind
                old[name] = inside
                jobs.append(Job(name, start, end, min(run.rate for run in inside)))
        written = self._write(jobs)
        for job, file in zip(jobs, written, strict=True):
            self._lock.check()
            archive.tables()[job.table].commit([file], old[job.table], data_change=False)

    def let_go(self) -> int:
        """Take runs out that are older than KEEP says; gives how many."""
        with self._mutex:
            self.take()
            reader = self._reader()
            archive = self._archive(reader)
            newest = reader.end().time
            gone = to_let_go(archive.runs, newest, self.info.keep_us)
            if not gone:
                return 0
            for table in archive.tables().values():
                old = [run for run in table.runs if run.end <= gone[-1].end]
                if old:
                    self._lock.check()
                    table.commit([], old)
            return len(gone)

    def vacuum(self, retain_hours: float = 168.0) -> dict[str, int]:
        """Join what is small, remake the copy of OnReadModify, and delete files no recent version needs."""
        with self._mutex:
            self.take()
            self._have_facts = False  # whoever asks for it has everything looked through
            joined = self.join_runs(least=2)
            let_go = self.let_go()
            self.write_facts()
            copied = self._vacuum_copy() if self.info.layout == OnReadModify.name else 0
            tables = self._archive(self._reader()).tables().values()
            deleted = sum(table.sweep(retain_hours) for table in tables)
            return {"runs_joined": joined, "runs_let_go": let_go, "runs_copied": copied, "files_deleted": deleted}

    def write_facts(self, most: int | None = None) -> int:
        """Runs whose files do not say which rows lie far out, since they are of a version before, are written again.

        At most so many; gives how many.
        """
        with self._mutex:
            if self._have_facts:  # whatever is written from now on does
                return 0
            archive, table = self._archive(self._reader()), self._storage.child(PRIMARY)
            old = [run for run in archive.runs if not RunFile(table, run).has_facts]
            self._have_facts = not old
            if old:
                self.take()
            for run in old[:most]:
                self._join(archive, [run], list(archive.tables()))
            return len(old[:most])

    def _vacuum_copy(self) -> int:
        """The living rows go to the copy; where it has more than lives by now, it is purged in place (§4.1.2)."""
        archive = self._archive(self._reader())
        marks = load_marks(self._storage)
        reads = marks.from_copy + marks.from_original
        if COPY in archive.tables() and reads >= _LEAST_READS and marks.missed > self.info.threshold:
            with changing(self._storage) as fresh:
                fresh.living, fresh.from_copy, fresh.from_original = {}, 0, 0
            # Out of the way first: half a table is none.
            self._storage.child(f"{COPY}-old").delete_all()
            self._storage.filesystem.move(self._storage.full(COPY), self._storage.full(f"{COPY}-old"))
            self._storage.child(f"{COPY}-old").delete_all()
            return 0
        if not marks.living or not archive.runs:
            return 0
        table = archive.tables().get(COPY) or RunTable(self._storage.child(COPY))
        if not table.exists():
            # Under another name until it is whole: readers and the archiver take it for real once it is there.
            table = RunTable(self._storage.child(f"{COPY}-new"))
            table.storage.delete_all()
            table.create(*self._columns())
        table.refresh()
        known = {run.first: run for run in table.runs}
        jobs, old = [], []
        for run in archive.runs:
            copy = known.get(run.first)
            rate = min(rate_of(marks.of(run.first)), copy.rate if copy is not None and copy.rows == run.rows else 1.0)
            if copy is None or copy.rows != run.rows or copy.rate > rate:
                jobs.append(Job(table.storage.path.rpartition("/")[2], run.first, run.end, rate))
                old += [] if copy is None else [copy]
        covered = {job.start: job.end for job in jobs}
        old += [r for r in table.runs if r not in old and any(low <= r.first < high for low, high in covered.items())]
        for low in range(0, len(jobs), _RUNS_AT_ONCE):
            some = jobs[low : low + _RUNS_AT_ONCE]
            gone = [run for run in old if some[0].start <= run.first < some[-1].end]
            # One that was there goes as far as the archive, or further if a process died in between.
            table.commit(self._write(some), gone, end=None if table.end is not None else archive.end, data_change=False)
        if not self._storage.child(COPY).exists():
            self._storage.filesystem.move(self._storage.full(f"{COPY}-new"), self._storage.full(COPY))
        return len(jobs)

    # -- levels of OnWriteReplicate ------------------------------------------------------------------

    def add_level(self, info: ArchiveInfo, level: int) -> None:
        """Fill a new copy from the rows that are archived; `info` names it already."""
        with self._mutex:
            self.take()
            archive = self._archive(self._reader())
            table = RunTable(self._storage.child(copy_of(level)))
            table.storage.delete_all()
            table.create(*self._columns())
            jobs = [Job(copy_of(level), run.first, run.end, 1 - level / 100) for run in archive.runs]
            for low in range(0, len(jobs), _RUNS_AT_ONCE):
                table.commit(self._write(jobs[low : low + _RUNS_AT_ONCE]), end=jobs[low : low + _RUNS_AT_ONCE][-1].end)
            if not jobs and archive.end > self.info.first_row:
                table.commit([], end=archive.end)
            info.save(self._storage)
            self.info = info

    def drop_level(self, info: ArchiveInfo, level: int) -> None:
        """Take a copy away; `info` does not name it any more."""
        with self._mutex:
            self.take()
            info.save(self._storage)
            self.info = info
            self._storage.child(copy_of(level)).delete_all()

    def drop(self) -> None:
        """End the archive: first nobody finds it any more and the log need not wait, then its rows go."""
        with self._mutex:
            self.take()
            self._storage.write_json(DROPPED, {})
            self._storage.delete(INFO)
            retention.let_go(self._stream, self.holder)
            self.close()
            self._storage.delete_all()

    def save(self, info: ArchiveInfo) -> None:
        """A changed declaration."""
        with self._mutex:
            self.take()
            info.save(self._storage)
            self.info = info

    # -- looking at it -------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Rows, bytes, layout, fractions and age."""
        reader = self._reader()
        archive = self._archive(reader)
        marks = load_marks(self._storage)
        newest = reader.end().time
        tables = {
            name: {
                "runs": len(table.runs),
                "rows": sum(run.records for run in table.runs),
                "bytes": sum(run.size for run in table.runs),
                "version": table.version,
                "fraction": _part(table.runs),
            }
            for name, table in archive.tables().items()
        }
        runs = archive.runs
        return {
            "archive": self.info.name,
            "stream": self.info.stream,
            "layout": self.info.layout,
            "by": self.info.by,
            "blocks": self.info.blocks if self.info.layout == "randomize_then_sort" else None,
            "rows": sum(run.rows for run in runs),
            "bytes": sum(table["bytes"] for table in tables.values()),
            "rows_waiting": max(reader.end().row - archive.end, 0),
            "oldest_us": runs[0].time_first if runs else None,
            "newest_us": runs[-1].time_last if runs else None,
            "age_us": newest - runs[0].time_first if runs else None,
            "keep_us": self.info.keep_us,
            "marked": {"runs": len(marks.living), "missed": marks.missed} if marks.living else None,
            "tables": tables,
            "path": self._storage.child(PRIMARY).address,
        }

    def _reader(self) -> HistoryReader:
        reader = open_history(self._stream)
        reader.refresh()
        return reader

    def _archive(self, reader: HistoryReader) -> ArchiveReader:
        archive = next((a for a in reader.archives if a.info.name == self.info.name), None)
        if archive is None:
            raise CatalogError("ARCHIVE_NOT_FOUND", f'the archive "{self.info.name}" of "{self.info.stream}" is gone')
        return archive


def _part(runs: Sequence[Run]) -> float:
    rows = sum(run.rows for run in runs)
    return sum(run.records for run in runs) / rows if rows else 1.0

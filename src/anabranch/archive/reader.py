"""A stream's whole life as one log: what is archived, and what is still in its segments.

Rows have the same numbers in both, so there is neither a gap nor a row twice where the one ends and the
other begins, and whether a row comes from here or there makes no difference to anyone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from anabranch.archive.archived import ArchiveReader
from anabranch.archive.declaration import ARCHIVES, INFO, ROW, WINDOWED, archives_of, undeclared_archives
from anabranch.archive.estimation.strata import STRATUM
from anabranch.archive.facts import Aside, aside_of, united
from anabranch.errors import CatalogError, DataError, StreamError, did_you_mean
from anabranch.kernels.sampling import kept, key_lots, lots_between
from anabranch.log.brought_home import AnswersReader
from anabranch.log.followed import Followed
from anabranch.log.lost import Loss, losses
from anabranch.log.offset import End, Piece
from anabranch.log.reader import SETTLED_NS, StreamReader
from anabranch.log.storage import Storage

Found = TypeVar("Found")


class HistoryReader(Followed):
    """A reader of a stream's log that goes on in its archives where that begins.

    `archive`: only that one is read, by name. Without any archive it is the log alone. `log` reads what a host's log
    has of a stream; others have a log of their own.
    """

    def __init__(
        self, storage: Storage, archive: str | None = None, log: StreamReader | AnswersReader | None = None
    ) -> None:
        self._log = StreamReader(storage) if log is None else log
        super().__init__(storage, self._log.info)
        self._wanted = archive
        self._archives: list[ArchiveReader] = []
        self._children: dict[str, HistoryReader] = {}
        self._looked: tuple[int, ...] | None = None
        self._find_archives()

    def _find_archives(self) -> None:
        """Look which archives there are."""
        parent = self._storage.child(ARCHIVES)
        changed = parent.changed()
        looked = None if changed is None else (changed, *(archive.storage.made(INFO) for archive in self._archives))
        if looked is not None and looked == self._looked:
            return
        directories = len(parent.directories())
        declared = archives_of(self._storage)
        chosen = [(place, info) for place, info in declared if info.layout != WINDOWED]
        if self._wanted is not None:
            names = [info.name for _, info in chosen]
            chosen = [declaration for declaration in chosen if declaration[1].name.lower() == self._wanted.lower()]
            if not chosen:
                if any(info.name.lower() == self._wanted.lower() for _, info in declared):
                    raise CatalogError(
                        "ARCHIVE_NOT_FOUND",
                        f'"{self._wanted}" holds summaries of windows, not rows',
                        hint=f"ask it with REDUCE BY every(INTERVAL …), or leave {self._wanted} ON out",
                    )
                raise CatalogError(
                    "ARCHIVE_NOT_FOUND",
                    f'stream "{self.info.name}" has no archive "{self._wanted}"',
                    hint=did_you_mean(self._wanted, names, "SHOW ARCHIVES lists them"),
                )
        known = {reader.info: reader for reader in self._archives}
        self._archives = [
            known.get(info) or ArchiveReader(place, info, self.schema, self.time_column) for place, info in chosen
        ]
        # A directory whose declaration is still to come does not change again when that is written.
        settled = changed is not None and time.time_ns() - changed > SETTLED_NS and len(declared) == directories
        self._looked = (changed or 0, *(archive.storage.made(INFO) for archive in self._archives)) if settled else None

    def only(self, archive: str) -> HistoryReader:
        """The same stream with one of its archives."""
        if archive not in self._children:
            self._children[archive] = HistoryReader(self._storage, archive, self._log)
        self._children[archive].refresh()
        return self._children[archive]

    @property
    def log(self) -> StreamReader | AnswersReader:
        """What reads the rows that are in no archive."""
        return self._log

    @property
    def archives(self) -> list[ArchiveReader]:
        return self._archives

    @property
    def has_archives(self) -> bool:
        return bool(self._archives)

    @property
    def skew_us(self) -> int:
        return self._log.skew_us

    @property
    def identity(self) -> str:
        """The same for readers of the same rows only."""
        return self._log.identity

    @property
    def bytes_read(self) -> int:
        """Bytes that were read of the log."""
        return self._log.bytes_read

    def end(self) -> End:
        end = self._log.end()
        self._refresh_archives()
        return end

    def arrived(self) -> int | None:
        return self._log.arrived()

    def gaps(self) -> list[Loss]:
        return self._log.gaps()

    def missing(self, rows: Loss) -> StreamError:
        return self._log.missing(rows)

    def size(self) -> int:
        """Bytes of the log."""
        return self._log.size()

    def refresh(self) -> None:
        self._log.refresh()
        self._refresh_archives()

    def _refresh_archives(self) -> None:
        """After the log, which lets go of nothing that is not in them."""
        self._find_archives()
        for archive in self._archives:
            archive.refresh()

    @property
    def seed(self) -> int:
        return self._archives[0].info.seed if self._archives else 0

    @property
    def block(self) -> float:
        """The smallest part of the rows that is worth reading."""
        return min((archive.block for archive in self._archives), default=0.01)

    @property
    def archive_bytes_read(self) -> int:
        """Bytes that were read of archives."""
        return sum(archive.bytes_read for archive in self._archives)

    # -- which rows there are ----------------------------------------------------------------------

    def first_logged_row(self) -> int:
        return self._log.first_row()

    def first_row(self) -> int:
        logged = self._log.first_row()
        oldest = self._oldest(logged)
        if oldest is None and logged > 0:
            self._refresh_archives()
            oldest = self._oldest(logged)
        if oldest is None and logged > 0 and not losses(self._storage):
            # What is archived is let go of in the log, never the other way round.
            if ends := [archive.end for archive in self._archives if archive.runs]:
                raise self.missing(Loss(max(ends), logged))
            if self._wanted is None and (damaged := undeclared_archives(self._storage)):
                raise DataError(
                    "ARCHIVE_IS_DAMAGED",
                    f'an archive of stream "{self.info.name}" cannot be read, nor its rows before {logged}',
                    detail=f"{damaged[0].full(INFO)} is lost or not what was written",
                    hint="put the file back from a copy of the database",
                )
        return min(oldest.first, logged) if oldest is not None else logged

    def _oldest(self, logged: int) -> ArchiveReader | None:
        """The archive that goes back furthest, of those that reach up to the log."""
        there = [archive for archive in self._archives if archive.end >= logged and archive.runs]
        return min(there, key=lambda archive: archive.first, default=None)

    @property
    def archived_end(self) -> int:
        """Up to which row some archive holds the stream."""
        return max((archive.end for archive in self._archives), default=0)

    def row_at_time(self, time: int, end: int) -> int:
        return self._though_retention_moves_on(lambda: self._row_at_time(time, end))

    def _row_at_time(self, time: int, end: int) -> int:
        logged = self._log.first_row()
        oldest = self._oldest(logged)
        if oldest is None and logged > 0:  # the archives were looked at before the log let go of these rows
            self._refresh_archives()
            oldest = self._oldest(logged)
        if oldest is not None and oldest.first < logged:
            row = oldest.row_at_time(time)
            if row < logged:
                return min(row, end)
        return self._log.row_at_time(time, end)

    def pieces(self, start: int, end: int) -> list[Piece]:
        self._log.look_up_to(end if start < end else 0)
        for attempt in range(8):
            pieces = self._pieces(start, end)
            missing = _between(pieces, max(start, self.first_row()), min(end, self._log.end().row))
            if missing is None:
                return pieces
            time.sleep(0.004 * 2**attempt - 0.004)
            self._log.look_again()  # it let go of what was archived between two looks
            self.refresh()
        assert missing is not None
        raise self.missing(missing)

    def _pieces(self, start: int, end: int) -> list[Piece]:
        archive = self._cheapest(start, end, (), 0.01, None)
        archived = archive.pieces(start, end) if archive is not None else []
        if not archived:
            return self._log.pieces(start, end)
        # The log may still have rows that an archive has let go.
        return [*self._log.pieces(start, archived[0].first), *archived, *self._log.pieces(archived[-1].end, end)]

    def files(self, since: int | None, until: int | None) -> tuple[list[str], int] | None:
        """Files with all rows of some time that come before a row, and that row; None if they are not all in files."""
        oldest = self._oldest(self._log.first_row())
        if oldest is None or oldest.first > self.first_row() or not oldest.storage.is_local:
            return None
        return oldest.files(since, until), oldest.end

    # -- rows --------------------------------------------------------------------------------------

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        return self._though_retention_moves_on(lambda: self._read(start, end, columns))

    def _read(self, start: int, end: int, columns: list[str] | None) -> pa.Table:
        logged = self._log.first_row()
        oldest = self._oldest(logged) if start < logged else None
        if oldest is None or start < oldest.first or start >= end:
            return self._log.read(start, end, columns)
        names = self.schema.names if columns is None else columns
        old = oldest.read(start, min(end, logged), names)
        return old if end <= logged else pa.concat_tables([old, self._log.read(logged, end, columns)])

    def _though_retention_moves_on(self, look: Callable[[], Found]) -> Found:
        """It may do so between a look at the log and one at the archives: what it took is archived."""
        for attempt in range(4):
            try:
                return look()
            except StreamError as problem:
                if problem.name != "ROWS_ARE_GONE" or attempt == 3:
                    raise
                self._log.look_again()
                self.refresh()
        raise AssertionError("unreachable")

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        """Those of the rows start ≤ n < end that a reduced read keeps, with their numbers in a first column.

        `again`: rows of the same files will be wanted soon.
        """
        archive = self._cheapest(start, end, columns, keep, by)
        if archive is None:
            return self._sample_of_log(start, end, columns, keep, by)
        middle = min(max(start, archive.end), end)
        before = archive.first if start < archive.first else start
        parts = [archive.read_sample(before, middle, columns, keep, by, again)]
        if start < before:  # older rows, in another archive or gone
            parts.insert(0, self._sample_of_log(start, before, columns, keep, by))
        if middle < end:
            parts.append(self._sample_of_log(middle, end, columns, keep, by))
        return pa.concat_tables(parts)

    def aside(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> Aside:
        """Of the rows start ≤ n < end those that lie far out, and the ranges of the others; for reads of estimates."""
        archive = self._cheapest(start, end, columns, keep, by)
        if archive is None:
            return self._aside_of_log(start, end, self.first_row(), columns)
        middle, before = min(max(start, archive.end), end), max(start, archive.first)
        parts = [archive.aside(before, middle, columns, keep, by)] if before < middle else []
        if start < before:
            parts.insert(0, self._aside_of_log(start, min(before, end), self.first_row(), columns))
        if middle < end:
            parts.append(self._aside_of_log(middle, end, archive.end, columns))
        ranges = united(columns, [part.ranges for part in parts])
        return Aside(pa.concat_tables([part.rows for part in parts]), ranges, all(part.told for part in parts))

    def _aside_of_log(self, start: int, end: int, first: int, columns: list[str]) -> Aside:
        """Facts of rows that are in no run are those of strata: whichever rows of one are read, they are the same."""
        low = max(start // STRATUM * STRATUM, first)
        high = min(-(-end // STRATUM) * STRATUM, max(self.end().row, end))
        rows = self.read(low, high, columns or [self.time_column])
        return aside_of(rows, low, start, end, columns, STRATUM)

    def _cheapest(
        self, start: int, end: int, columns: Sequence[str], keep: float, by: str | None
    ) -> ArchiveReader | None:
        """The archive that a reduced read goes to: of those that hold the most of it, the one with least to read."""
        there = [archive for archive in self._archives if archive.first < end and archive.end > start and archive.runs]
        if len(there) == 1:
            return there[0]
        return min(
            there,
            key=lambda archive: (max(archive.first - start, 0), archive.sample_bytes(start, end, columns, keep, by)),
            default=None,
        )

    def _sample_of_log(self, start: int, end: int, columns: list[str], keep: float, by: str | None) -> pa.Table:
        wanted = list(dict.fromkeys([*columns, *([by] if by is not None else [])])) or [self.time_column]
        rows = self.read(start, end, wanted)
        numbers = np.arange(start, start + rows.num_rows)
        sample = rows.select(columns).add_column(0, ROW, pa.array(numbers))
        if keep >= 1:
            return sample
        drawn = (
            lots_between(start, start + rows.num_rows, self.seed)
            if by is None
            else key_lots(rows.column(by), self.seed)
        )
        return sample.filter(pa.array(kept(drawn, keep)))

    def sample_bytes(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> int:
        """About how many bytes of files a reduced read touches."""
        archive = self._cheapest(start, end, columns, keep, by)
        total, low = 0, start
        if archive is not None:
            total, low = archive.sample_bytes(start, end, columns, keep, by), max(start, archive.end)
        if low < end:
            self._log.look_up_to(end)
            total += int(self._log.bytes_of(low, end) * len(columns) / max(len(self.schema), 1))
        return total


def _between(pieces: Sequence[Piece], start: int, end: int) -> Loss | None:
    """The first rows between two that no piece has."""
    for piece in pieces:
        if piece.first > start:
            return Loss(start, piece.first)
        start = max(start, piece.end)
    return Loss(start, end) if start < end else None

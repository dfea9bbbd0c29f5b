"""The Delta table that holds the runs of an archive, or of one of its copies.

Files are written by whoever computes them; here they become part of the table, in one commit that
also says how many rows of the stream the table holds by now (a Delta application transaction). A
commit that is tried twice is found out by that number, and one that was never made leaves only
files that nobody sees.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from anabranch.archive.runs import Run, in_order, parse_run
from anabranch.errors import DataError
from anabranch.log.storage import Storage

if TYPE_CHECKING:
    from deltalake import DeltaTable

APPLICATION = "anabranch-archiver"
_CONFIGURATION = {"delta.logRetentionDuration": "interval 365 days"}
"""Commits stay readable long after; what takes space are files of rows, which VACUUM ARCHIVE removes."""
_FIRST_COMMIT = f"{0:020}.json"
_COMMIT = re.compile(r"\d{20}\.json")


class Written(NamedTuple):
    """A file that a task has written for a table: its run, its size in bytes, its rows, and their statistics."""

    path: str
    size: int
    records: int
    stats: str


class RunTable:
    """One Delta table of runs. Not for use by several threads at once."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._log = storage.child("_delta_log")
        self._delta: DeltaTable | None = None
        self._made = 0
        self._seen: int | None = None
        self._runs: list[Run] = []
        self._end: int | None = None

    def create(self, schema: pa.Schema, known: Sequence[str]) -> None:
        """Make the table if it is not there; the statistics of files tell of the columns `known`."""
        from deltalake import DeltaTable

        self.storage.make()
        named = ",".join("`" + name.replace("`", "``") + "`" for name in known)
        configuration = {**_CONFIGURATION, "delta.dataSkippingStatsColumns": named}
        DeltaTable.create(self.storage.address, schema, mode="ignore", configuration=configuration)
        self._log.sync(_FIRST_COMMIT)
        self._log.make()

    def exists(self) -> bool:
        # A process that died may have left a commit that was never made.
        return any(name.endswith(".json") for name in self._log.files())

    def refresh(self) -> None:
        """Look which runs there are now."""
        changed = self._log.changed()
        if changed is not None and changed == self._seen and self._delta is not None:
            return
        # A change within the clock's tick of the last look would not show: trust it only once it is older.
        settled = changed is not None and time.time_ns() - changed > 50_000_000
        self._load()
        self._seen = changed if settled else None

    def _load(self) -> DeltaTable:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        made = self._log.made(_FIRST_COMMIT)
        if made != self._made:  # another table by now: a copy may be dropped and made anew
            self._delta, self._made = None, made
        try:
            if self._delta is None:
                self._delta = DeltaTable(self.storage.address)
            else:
                self._delta.update_incremental()
            actions = pa.table(self._delta.get_add_actions(flatten=True))
            end = self._delta.transaction_version(APPLICATION)
        except DeltaError as problem:
            self._delta = None
            if made and self._log.made(_FIRST_COMMIT) == made:
                raise DataError(
                    "ARCHIVE_IS_DAMAGED",
                    f"the log of the Delta table in {self.storage.path} cannot be read",
                    detail=str(problem).partition("\n")[0],
                    hint="anabranch check says what is wrong with it",
                ) from None
            # It is not there, or was dropped during the look.
            raise DataError(
                "ARCHIVE_NOT_FOUND", f"there is no Delta table in {self.storage.path}", hint="DROP ARCHIVE it"
            ) from None
        self._refuse_torn_log()
        columns = [actions.column(name).to_pylist() for name in ("path", "size_bytes", "num_records")]
        parsed = (parse_run(unquote(path), size, records or 0) for path, size, records in zip(*columns, strict=True))
        self._runs = in_order(run for run in parsed if run is not None)
        self._end = end
        return self._delta

    def _refuse_torn_log(self) -> None:
        """A commit that is empty counts for none with deltalake, and its rows would be left out in silence."""
        commits = {int(name[:-5]): size for name, size in self._log.files().items() if _COMMIT.fullmatch(name)}
        torn = [
            version for version in range(min(commits, default=0), max(commits, default=-1)) if not commits.get(version)
        ]
        if torn and self._log.made(_FIRST_COMMIT) == self._made:
            self._delta = None
            raise DataError(
                "ARCHIVE_IS_DAMAGED",
                f"the log of the Delta table in {self.storage.path} cannot be read",
                detail=f"commit {torn[0]} is lost or empty",
                hint="put the file back from a copy of the database",
            )

    @property
    def runs(self) -> list[Run]:
        """Its runs as they were at the last `refresh`, by row number."""
        return self._runs

    @property
    def end(self) -> int | None:
        """Up to which row of the stream it holds all; None before the first commit."""
        return self._end

    @property
    def version(self) -> int:
        return self._load().version()

    def commit(
        self,
        add: Sequence[Written],
        remove: Sequence[Run] = (),
        *,
        end: int | None = None,
        data_change: bool = True,
    ) -> None:
        """Make files part of the table and take others out, at once; `end`: the rows below it are there now."""
        from deltalake import CommitProperties, Transaction
        from deltalake.transaction import AddAction, RemoveAction

        table = self._load()
        now = int(time.time() * 1000)
        actions: list[Any] = [RemoveAction(run.path, data_change, now, run.size) for run in remove]
        actions += [AddAction(file.path, file.size, {}, now, data_change, file.stats) for file in add]
        marks = [Transaction(APPLICATION, end, now)] if end is not None else None
        table.create_write_transaction(
            actions, "append", table.schema(), commit_properties=CommitProperties(app_transactions=marks)
        )
        self._seen = None
        # Rows may leave the log once this holds, so it must outlast a loss of power as they would have.
        self._log.sync(f"{self._load().version():020}.json")

    def add_columns(self, schema: pa.Schema) -> None:
        """Give the table the columns that `schema` has and it has not."""
        from deltalake import Schema

        table = self._load()
        known = {field.name for field in table.schema().fields}
        new = [field for field in Schema.from_arrow(schema).fields if field.name not in known]
        if new:
            table.alter.add_columns(new)
            self._delta = None
            self._load()

    def sweep(self, retain_hours: float) -> int:
        """Delete files that no version of the last `retain_hours` hours needs; gives how many."""
        table = self._load()
        removed: list[str] = table.vacuum(
            retention_hours=math.ceil(retain_hours), dry_run=False, enforce_retention_duration=False, full=True
        )
        return len(removed)


def statistics(records: int, least: dict[str, Any], most: dict[str, Any], nulls: dict[str, int]) -> str:
    """The statistics of a file as Delta wants them."""
    return json.dumps({"numRecords": records, "minValues": least, "maxValues": most, "nullCount": nulls})

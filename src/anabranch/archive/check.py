"""A look through an archive: its Delta logs, and every page of its files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.archive.declaration import ArchiveInfo
from anabranch.archive.layouts import layout_of
from anabranch.archive.runs import Run
from anabranch.archive.table import RunTable
from anabranch.errors import AnabranchError
from anabranch.log.findings import Finding, Seen
from anabranch.log.lost import Loss
from anabranch.log.storage import Storage


def check_archive(storage: Storage, info: ArchiveInfo, time_column: str, seen: Seen) -> Iterator[Finding]:
    """What is wrong with an archive. Files that an archiver joins or lets go meanwhile are no fault."""
    for name in layout_of(info, time_column, storage).tables():
        table = RunTable(storage.child(name))
        try:
            if not table.exists():
                continue
            table.refresh()
        except AnabranchError as problem:
            yield Finding("file damaged", table.storage.path, f"{problem.message}: {problem.detail}", info.stream)
            continue
        for run in table.runs:
            what = _wrong_with(table.storage, run)
            if what is not None and _is_still_there(table, run):
                rows = Loss(run.first, run.end)
                means = f'{rows} of archive "{info.name}" of stream "{info.stream}" cannot be read: {what}'
                yield Finding("file damaged", table.storage.full(run.path), means, info.stream, rows)
            seen(run.size)
        for before, after in itertools.pairwise(table.runs):
            if before.end != after.first:
                rows = Loss(before.end, after.first)
                means = f'{rows} of stream "{info.stream}" are missing from its archive "{info.name}"'
                yield Finding("rows missing", table.storage.path, means, info.stream, rows)


def _wrong_with(storage: Storage, run: Run) -> str | None:
    try:
        file = pq.ParquetFile(storage.open_file(run.path), page_checksum_verification=True)
        rows = sum(file.read_row_group(group).num_rows for group in range(file.num_row_groups))
    except FileNotFoundError:
        return "the file is not there"
    except (pa.ArrowException, OSError, SystemError) as problem:
        return str(problem)
    return None if rows == run.records else f"it holds {rows} of {run.records} rows"


def _is_still_there(table: RunTable, run: Run) -> bool:
    """Whether the table still wants a run: its file may have been joined with others."""
    fresh = RunTable(table.storage)
    fresh.refresh()
    return run.path in {kept.path for kept in fresh.runs}

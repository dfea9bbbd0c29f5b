"""Files of archives that Spark reads by itself, where an answer does not depend on the order of rows.

Rows that are read in full and only counted and added up need no operator of ours. In Spark's own reader they
stay where they are added up, where otherwise each of them would be carried from a worker to the JVM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.archive.reader import HistoryReader
from anabranch.engine.options import ArchivedFiles
from anabranch.sql.history.archives import ArchiveUse
from anabranch.sql.once import OncePlan

_PATTERNS = frozenset("*?[]{}\\")
"""Spark takes paths with these for patterns."""


def archived_files(plan: OncePlan, history: Callable[[str], Any]) -> dict[str, ArchivedFiles]:
    """By the view of a stream, the files that hold its rows; `history` gives the reader of a stream."""
    files: dict[str, ArchivedFiles] = {}
    for use in plan.streams if plan.in_any_order else ():
        if use.is_table:
            continue
        past, reader = use.archive or ArchiveUse(), history(use.stream)
        if past.reducer is not None or not isinstance(reader, HistoryReader):
            continue
        reader = reader if past.name is None else reader.only(past.name)
        paths, end = reader.files(past.since, past.until) or ([], 0)
        if paths and not _PATTERNS.intersection(paths[0]):
            files[use.view] = ArchivedFiles(use.stream, use.schema.time, paths, end, past.since, past.until)
    return files

"""What a file was like when it was looked at: told without reading it, and different once it was changed."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

from anabranch.dataspace.access import Access
from anabranch.errors import SetupError
from anabranch.tables.origin import DELTA, Origin

_SETTLED_NS = 2_000_000_000
"""A file may be changed again within what its file system takes for the same moment; two seconds are the longest."""


class Seen(NamedTuple):
    """See the module. `settled`: whether a later change is sure to show; else the file is read again all the same."""

    mark: str
    settled: bool


def look(origin: Origin, access: Access) -> tuple[str, Seen]:
    """Where the file of a table lies, and what it is like now."""
    place = access.place_of_table(origin.path)
    try:
        return place, of_delta(open_delta(place)) if origin.format == DELTA else of_file(os.stat(place))
    except OSError as problem:
        raise not_found(origin, problem.strerror) from None


def not_found(origin: Origin, why: str | None) -> SetupError:
    return SetupError("FILE_NOT_FOUND", f'"{origin.path}", of which a table is a copy, cannot be read', detail=why)


def of_file(status: os.stat_result) -> Seen:
    """A file by its size and the time of its last change; and which file it is, for one that was put in its place."""
    age = time.time_ns() - status.st_mtime_ns
    return Seen(f"{status.st_size} bytes {status.st_mtime_ns} ns {status.st_ino}", age > _SETTLED_NS)


def of_delta(table: Any) -> Seen:
    """A Delta table by its version; and which table it is, for one that was made anew."""
    return Seen(f"version {table.version()} of {table.metadata().id}", True)


def open_delta(place: str) -> Any:
    """A Delta table; OSError if there is none that can be read."""
    from deltalake import DeltaTable  # takes a while to load, and most tables do without

    log = os.path.join(place, "_delta_log")
    if os.path.realpath(log) != log or not os.path.isdir(log):
        raise FileNotFoundError(0, "it is no Delta table: there is no folder _delta_log in it")
    with os.scandir(log) as entries:
        if any(entry.is_symlink() for entry in entries):
            raise OSError(0, "a file of its log leads elsewhere")
    try:
        return DeltaTable(place)
    except Exception as problem:  # the package has errors of its own that share no base
        raise OSError(0, (str(problem) or type(problem).__name__).splitlines()[0]) from None

"""Versions of what changes: how many changes there were at one of them, or at a time.

A version is that of a statement, of a table, or how many rows were taken in, of a view. Between two that are there, the
earlier one holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import StreamError
from anabranch.tables.declaration import VERSION

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


def row_at_version(changes: Reader, name: str, version: int) -> int:
    """How many changes there were at a version, in the log of those of `name`."""
    end, oldest = changes.end().row, _oldest(changes)
    low, high = min(oldest, end), end
    while low < high:
        middle = (low + high) // 2
        if _version_of(changes, middle) <= version:
            low = middle + 1
        else:
            high = middle
    if low == end and version > (newest := newest_version(changes)):
        raise StreamError(
            "VERSION_NOT_REACHED",
            f'"{name}" has not come to version {version}',
            hint=f"the newest there is is {newest}",
        )
    if low == oldest > 0 and version < (first := _version_before(changes, oldest)):
        raise _gone(name, f"version {version}", first)
    return low


def row_at_time(changes: Reader, name: str, time: int, shown: str, now: int) -> int:
    """How many changes there were at a time; none may come to it, which by the clock is `now`."""
    end = changes.end()
    if time > max(end.time, now):
        raise StreamError(
            "VERSION_NOT_REACHED", f'"{name}" has not come to {shown}', hint="leave FOR SYSTEM_TIME AS OF out for now"
        )
    row, oldest = changes.row_at_time(time + 1, end.row), _oldest(changes)
    if row < oldest or 0 < row == changes.first_row():  # nobody knows since when it was like that
        raise _gone(name, f"what it was at {shown}", _version_before(changes, oldest))
    return row


def newest_version(changes: Reader) -> int:
    """The version there is now."""
    end = changes.end().row
    return _version_before(changes, end)


def _oldest(changes: Reader) -> int:
    """How many changes there were at the oldest state that is known."""
    log: Any = getattr(changes, "log", changes)
    oldest: int = log.oldest_state() if hasattr(log, "oldest_state") else log.first_row()
    return oldest


def _version_before(changes: Reader, row: int) -> int:
    """The version after so many changes; 0 before the first of them."""
    if row == 0:
        return 0
    if row > changes.first_row():
        return _version_of(changes, row - 1)
    log: Any = getattr(changes, "log", changes)
    return int(log.state_at(row).version) if hasattr(log, "state_at") else 0


def _version_of(changes: Reader, row: int) -> int:
    return int(changes.read(row, row + 1, [VERSION]).column(0)[0].as_py())


def _gone(name: str, what: str, oldest: int) -> StreamError:
    return StreamError(
        "VERSION_IS_GONE",
        f'{what} of "{name}" is gone',
        detail="RETAIN has let go of the changes since",
        hint=f"the oldest version there is is {oldest}",
    )

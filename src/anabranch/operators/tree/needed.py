"""What is needed of a stream by several who read it."""

from __future__ import annotations

from anabranch.operators.base import Floor


def needed_by_both(floor: Floor, other: Floor) -> Floor:
    """What is needed by one or the other."""
    rows = [row for row in (floor.row, other.row) if row is not None]
    times = [time for time in (floor.time, other.time) if time is not None]
    return Floor(min(rows, default=None), min(times, default=None), max(floor.before, other.before))

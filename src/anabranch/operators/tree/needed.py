"""What several who read streams need and keep together."""

from __future__ import annotations

from anabranch.operators.base import Floor, Keeps
from anabranch.operators.tree.entering import parts_of


def needed_by_both(floor: Floor, other: Floor) -> Floor:
    """What is needed by one or the other."""
    rows = [row for row in (floor.row, other.row) if row is not None]
    times = [time for time in (floor.time, other.time) if time is not None]
    return Floor(min(rows, default=None), min(times, default=None), max(floor.before, other.before))


def kept_with_parts(own: Keeps | None, nodes: str) -> Keeps | None:
    """What a tree keeps, and what its parts do."""
    kept = [own, *(part.keeps() for part in parts_of(nodes).values())]
    known = list(dict.fromkeys(keeps for keeps in kept if keeps is not None))
    return Keeps("; ".join(keeps.what for keeps in known), "; ".join(keeps.bound for keeps in known)) if known else None

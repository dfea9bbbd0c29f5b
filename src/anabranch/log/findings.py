"""What a look through a database finds wrong, and what can be done about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anabranch.log.lost import Loss


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was written."""

    what: str
    """Its kind, one word or two: `rows missing`, `file damaged`, …"""
    place: str
    """The file or directory."""
    means: str
    """A sentence for people."""
    stream: str | None = None
    rows: Loss | None = None
    remedy: str | None = None
    """What `--repair` does; None if it can do nothing."""
    mend: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        rows = None if self.rows is None else {"first": self.rows.first, "end": self.rows.end}
        about = {"what": self.what, "place": self.place, "stream": self.stream, "rows": rows, "means": self.means}
        return {**about, "remedy": self.remedy}


Seen = Callable[[int], None]
"""Is told how many bytes were looked at."""

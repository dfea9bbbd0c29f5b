"""Rows of a stream that are known to be lost, and where what is left of it begins.

`kept.json` is written by retention before it deletes: rows below it went because the stream does not promise them
any longer. `lost.json` is written by `anabranch check --repair` alone: rows that nobody can bring back, on which
someone has agreed to go on without them. All others that are not there are missing, which is an error.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from anabranch.log.storage import Storage

KEPT, LOST = "kept.json", "lost.json"


class Loss(NamedTuple):
    """Rows first ≤ n < end."""

    first: int
    end: int

    def __str__(self) -> str:
        return f"row {self.first}" if self.end == self.first + 1 else f"rows {self.first} to {self.end - 1}"


def kept_from(stream: Storage) -> int | None:
    """The first row that retention has left; None if it has never deleted any."""
    kept = stream.read_json(KEPT)
    return int(kept["row"]) if isinstance(kept, dict) and "row" in kept else None


def keep_from(stream: Storage, row: int) -> None:
    """Say, durably, that rows below `row` go."""
    stream.write_json(KEPT, {"row": row})


def losses(stream: Storage) -> list[Loss]:
    """The losses that were agreed to, in order."""
    agreed = stream.read_json(LOST)
    return sorted(Loss(*record["rows"]) for record in agreed["losses"]) if isinstance(agreed, dict) else []


def lost_arrivals(stream: Storage) -> list[dict[str, Any]]:
    """Arrivals (ALLOW SKEW) whose loss was agreed to."""
    agreed = stream.read_json(LOST)
    return list(agreed.get("arrivals", [])) if isinstance(agreed, dict) else []


def agree_to(stream: Storage, rows: list[Loss], arrivals: list[dict[str, Any]] | None = None) -> None:
    """Record losses, so that reads go on without those rows."""
    agreed = stream.read_json(LOST)
    said: dict[str, Any] = agreed if isinstance(agreed, dict) else {"losses": [], "arrivals": []}
    now = time.time()
    said["losses"] = [*said["losses"], *({"rows": list(loss), "at": now} for loss in rows)]
    said["arrivals"] = [*said.get("arrivals", []), *(arrivals or [])]
    stream.write_json(LOST, said)

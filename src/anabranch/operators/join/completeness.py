"""How complete an approximate join or merge is: results found, and how many there would have been, as estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

KIND = "completeness"


def counted(found: float, expected: float) -> dict[str, float]:
    """What one task has to say."""
    return {"found": found, "expected": expected}


def estimated(completeness: NDArray[np.float64]) -> dict[str, float]:
    """The same of results with the estimated completeness around each."""
    return counted(len(completeness), float((1 / np.maximum(completeness, 1e-9)).sum()))


def together(counts: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    return counted(counts["found"] + other["found"], counts["expected"] + other["expected"])


def after(kept: dict[str, float] | None, said: dict[str, float]) -> dict[str, float]:
    """Totals over the life of a query, and `last`, the ratio in the last micro-batch that had any."""
    last = said["found"] / said["expected"] if said["expected"] else (kept or {}).get("last", 1.0)
    return {**together(kept or counted(0.0, 0.0), said), "last": last}


def told(kept: dict[str, float] | None) -> dict[str, Any]:
    """What people read of it.

    >>> told(after(None, counted(3, 4)))
    {'completeness': {'last_batch': 0.75, 'all': 0.75}}
    """
    kept = kept or {"found": 0.0, "expected": 0.0, "last": 1.0}
    whole = kept["found"] / kept["expected"] if kept["expected"] else 1.0
    return {KIND: {"last_batch": kept["last"], "all": whole}}

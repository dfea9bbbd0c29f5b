"""Reducers a user might write, good and bad ones, imported by name."""

from __future__ import annotations

import datetime
import math
from typing import Any, ClassVar

from anabranch.archive.reducers import Reducer, Seen


class Growing(Reducer):
    """Drops more with each piece."""

    needs_rows: ClassVar[bool] = True

    def __init__(self, step: float, column: str | None = None) -> None:
        if step > 1:
            raise ValueError("step must be at most 1")
        self.step, self.by, self.pieces = step, column, 0

    def reduce(self, seen: Seen) -> float:
        self.pieces += 1
        return min(self.step * (self.pieces - 1), 1)


class Gives(Reducer):
    """Gives something, by name."""

    THINGS: ClassVar[dict[str, Any]] = {
        "nan": math.nan,
        "two": 2,
        "minus": -0.1,
        "text": "0.5",
        "true": True,
        "none": None,
        "nothing": datetime.timedelta(0),
        "one": 1,
        "hour": datetime.timedelta(hours=1),
    }

    def __init__(self, thing: str) -> None:
        self.thing = thing

    def reduce(self, seen: Seen) -> Any:
        return self.THINGS[self.thing]


class Careless(Reducer):
    """Fails in its own code."""

    def reduce(self, seen: Seen) -> float:
        return 1 / (seen.rows_read - seen.rows_read)


class FailsToBegin(Reducer):
    """Fails before it has begun."""

    def __init__(self) -> None:
        raise OSError("no such socket")


class ByNumber(Reducer):
    """Takes a number for a column."""

    by = 7  # type: ignore[assignment]


class NoReducer:
    """Looks like one."""

    def reduce(self, seen: Seen) -> float:
        return 0.5


NOT_A_CLASS = 3

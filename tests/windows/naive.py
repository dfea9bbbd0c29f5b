"""A sliding window by keeping every tuple and going through all of them for each question."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


def order(value: Any) -> Any:
    """NaN is the largest."""
    return (math.isnan(value), 0.0 if math.isnan(value) else value) if isinstance(value, float) else value


def same(value: Any) -> Any:
    """NaN equals NaN, and -0.0 is 0.0."""
    return ("nan" if math.isnan(value) else value + 0.0) if isinstance(value, float) else value


@dataclass(frozen=True)
class Tuple:
    value: Any
    basic_window: int
    row: int
    group: int = 0


@dataclass
class NaiveWindow:
    size: int
    basic_windows: int
    unit: str
    delay: int = 0
    tuples: list[Tuple] = field(default_factory=list)
    rows: int = 0
    late: int = 0
    latest: int | None = None
    began: int | None = None

    @property
    def length(self) -> int:
        return self.size // self.basic_windows

    @property
    def complete(self) -> int:
        if self.unit == "rows":
            return self.rows // self.length
        return 0 if self.latest is None else (self.latest - self.delay) // self.length

    def append(self, value: Any, time: int, group: int = 0) -> None:
        basic_window = self.rows // self.length if self.unit == "rows" else time // self.length
        if self.unit == "time":
            self.advance(time)
            if basic_window < self.complete:
                self.late += 1
                self.rows += 1
                return
        if value is not None:
            self.tuples.append(Tuple(value, basic_window, self.rows, group))
        self.rows += 1

    def advance(self, time: int) -> None:
        self.latest = time if self.latest is None else max(self.latest, time)
        if self.began is None:
            self.began = self.complete

    @property
    def went(self) -> int:
        """Basic windows the window has gone on by so far."""
        return self.complete - ((self.began or 0) if self.unit == "time" else 0)

    def visible(self, group: int = 0) -> list[Tuple]:
        """Smallest value first, then oldest basic window, then as they came."""
        first = self.complete - self.basic_windows
        inside = [t for t in self.tuples if first <= t.basic_window < self.complete and t.group == group]
        return sorted(inside, key=lambda t: (order(t.value), t.basic_window, t.row))

    def values(self, group: int = 0) -> list[Any]:
        return [same(t.value) for t in self.visible(group)]

    def histogram(self, group: int = 0) -> list[tuple[Any, int]]:
        return list(Counter(self.values(group)).items())

    def top(self, k: int, group: int = 0) -> list[tuple[Any, int]]:
        return sorted(self.histogram(group), key=lambda item: -item[1])[:k]

    def quantile(self, p: float) -> float | None:
        values = [float(t.value) for t in self.visible()]
        if not values:
            return None
        position = p * (len(values) - 1)
        low, high = math.floor(position), math.ceil(position)
        if low == high or values[low] == values[high]:
            return values[low] + 0.0
        return (high - position) * values[low] + (position - low) * values[high]

    def discrete_quantile(self, p: float) -> Any:
        values = self.values()
        return next((v for i, v in enumerate(values) if (i + 1) / len(values) >= p), None)

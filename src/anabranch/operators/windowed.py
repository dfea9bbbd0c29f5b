"""What operators over the windows of one stream have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from anabranch.errors import QueryError
from anabranch.operators.base import MIN_TIME, Offsets, Operator
from anabranch.windows.panes import Panes


@dataclass(frozen=True)
class WindowedOperator(Operator):
    """An operator with a window of `size` that goes on by `slide`, in time (µs) or rows of `stream`."""

    if TYPE_CHECKING:
        # Fields of the operators themselves, which say in which order.
        stream: str
        unit: Literal["time", "rows"]
        size: int
        slide: int

    def __post_init__(self) -> None:
        if self.size <= 0 or self.slide <= 0:
            raise QueryError(
                "WINDOW_SIZE_INVALID",
                f"a window of size {self.size} and slide {self.slide} was asked for, both must be above 0",
            )

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

    @property
    def panes(self) -> Panes:
        return Panes(self.size, self.slide)

    def reached(self, end: Offsets) -> int:
        """For windows of time the end of the next window: no answer comes before that."""
        at = end[self.stream]
        if self.unit == "rows" or at.time == MIN_TIME:
            return at.time
        return self.panes.next_end(at.time)

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        """The newest window; for windows of time also when it holds nothing any more."""
        step = self.slide * every
        return newest if self.unit == "rows" else (reached - self.slide) // step * step

"""What operators over the windows of one stream have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from anabranch.errors import QueryError
from anabranch.operators.base import MIN_TIME, Inputs, Offsets, Operator, first_time_of_any
from anabranch.windows.panes.axis import Panes


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

    @property
    def answers_of_windows(self) -> tuple[int, int] | None:
        return (self.slide, self.size) if self.unit == "time" else None

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        return window_due(self, at, inputs, self.size)

    def current(self, reached: int, newest: int, every: int = 1) -> int:
        """The newest window; for windows of time also when it holds nothing any more."""
        step = self.slide * every
        return newest if self.unit == "rows" else (reached - self.slide) // step * step


class Windows(Protocol):
    """What is to be known of an operator to say which of its windows is answered next."""

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def unit(self) -> str: ...

    @property
    def panes(self) -> Panes: ...


def window_due(windows: Windows, at: Offsets, inputs: Inputs, length: int) -> dict[str, int]:
    """The end of the next window that has a row in the last `length` of time, for all inputs; empty if there is none.

    `length` is the window's size, and more where rows that have left it are told as well.
    """
    if windows.unit == "rows":
        return {}
    own = {name: at[name] for name in windows.inputs}
    axis = min(offset.time for offset in own.values())
    end = MIN_TIME if axis == MIN_TIME else windows.panes.next_end(axis)
    oldest = first_time_of_any(own, end if end == MIN_TIME else end - length, inputs)
    if oldest is None:
        return {}
    return dict.fromkeys(windows.inputs, max(end, windows.panes.next_end(oldest)))

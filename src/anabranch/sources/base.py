"""The stream data type: anything that can produce values is one class.

Hammad et al. (2002, §3.3) ask three functions of whoever connects a sensor: start up, give the
next value, close. A value may carry its own time; otherwise the stream manager stamps it on
arrival. Here a value may also be a whole Arrow batch, so that a fast source costs one call for
many rows.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self, TypeAlias

import pyarrow as pa

Values: TypeAlias = Mapping[str, Any] | pa.RecordBatch | pa.Table
"""One row as a dict, or many rows as Arrow."""


@dataclass(frozen=True)
class NewValue:
    """What a source produced, and when it happened (µs UTC) if the source overrides the arrival time."""

    values: Values
    time: int | None = None


class Signal(enum.Enum):
    """What a source says instead of a value."""

    NO_VALUE = "nothing now, ask again"
    END = "nothing any more"


NO_VALUE: Final = Signal.NO_VALUE
END: Final = Signal.END

Reading: TypeAlias = NewValue | Literal[Signal.NO_VALUE, Signal.END]


class Source(ABC):
    """One source of one stream; also a context manager that starts and closes it."""

    @abstractmethod
    def init_stream(self) -> None:
        """Acquire what is needed to read: open the file, connect, subscribe."""

    @abstractmethod
    def read_stream(self) -> Reading:
        """The next value, NO_VALUE if there is none right now, END if there will never be one."""

    @abstractmethod
    def close_stream(self) -> None:
        """Release everything; called once, also after an error."""

    def __enter__(self) -> Self:
        self.init_stream()
        return self

    def __exit__(self, *_: object) -> None:
        self.close_stream()


def values_of(source: Source) -> Iterator[NewValue]:
    """Every value a started source has now: until it says NO_VALUE or END."""
    while isinstance(reading := source.read_stream(), NewValue):
        yield reading

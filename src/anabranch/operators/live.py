"""What operators remember in the memory of a process from one batch to the next.

It follows from the log and may be lost at any time: an operator that does not find it, or finds
that of another batch, makes it again or takes in what is missing.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any, Generic, Protocol, TypeVar

from anabranch.windows.panes.table_files import memory

_MOST_BYTES = 1 << 30


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


_all: weakref.WeakSet[Live[Any]] = weakref.WeakSet()


Memories = dict[Any, OrderedDict[Any, Any]]


def exchange(other: Memories) -> Memories:
    """All that operators remember in this process, in exchange for what they do in another one."""
    places: list[Any] = [memory, *_all]
    return {place: place.exchange(other.get(place, OrderedDict())) for place in places}


def forget_all() -> None:
    """Lose whatever operators remember, as a process does that ends."""
    exchange({})


class Live(Generic[T]):
    """Things that wait for their query's next batch, those used last, up to a number of bytes.

    What is taken is gone until it is put back, so no two tasks have the same thing.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._sizes: dict[str, int] = {}
        """Their bytes, counted once: there may be thousands, and they stay as they are while they wait."""
        self._bytes = 0
        """All of them."""
        self._lock = threading.Lock()
        _all.add(self)

    def take(self, name: str) -> T | None:
        with self._lock:
            self._bytes -= self._sizes.pop(name, 0)
            return self._kept.pop(name, None)

    def put(self, name: str, thing: T) -> None:
        with self._lock:
            size = thing.nbytes
            self._bytes += size - self._sizes.get(name, 0)
            self._kept[name], self._sizes[name] = thing, size
            self._kept.move_to_end(name)
            while len(self._kept) > 1 and self._bytes > _MOST_BYTES:
                oldest, _ = self._kept.popitem(last=False)
                self._bytes -= self._sizes.pop(oldest)

    def exchange(self, kept: OrderedDict[str, T]) -> OrderedDict[str, T]:
        """Other things in place of those that are here."""
        with self._lock:
            self._kept, kept = kept, self._kept
            self._sizes = {name: thing.nbytes for name, thing in self._kept.items()}
            self._bytes = sum(self._sizes.values())
            return kept

    def clear(self) -> None:
        self.exchange(OrderedDict())

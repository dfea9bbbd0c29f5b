"""What operators remember in the memory of a process from one batch to the next.

It follows from the log and may be lost at any time: an operator that does not find it, or finds
that of another batch, makes it again or takes in what is missing.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any, Generic, Protocol, TypeVar

_MOST_BYTES = 1 << 30


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


_all: weakref.WeakSet[Live[Any]] = weakref.WeakSet()


def forget_all() -> None:
    """Lose whatever operators remember, as a process does that ends."""
    for each in list(_all):
        each.clear()


class Live(Generic[T]):
    """Things that wait for their query's next batch, those used last, up to a number of bytes.

    What is taken is gone until it is put back, so no two tasks have the same thing.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()
        _all.add(self)

    def take(self, name: str) -> T | None:
        with self._lock:
            return self._kept.pop(name, None)

    def put(self, name: str, thing: T) -> None:
        with self._lock:
            self._kept[name] = thing
            while len(self._kept) > 1 and sum(each.nbytes for each in self._kept.values()) > _MOST_BYTES:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()

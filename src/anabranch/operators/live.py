"""What operators remember in the memory of a process from one batch to the next.

It follows from the log and may be lost at any time: an operator that does not find it, or finds
that of another batch, makes it again or takes in what is missing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

_MOST_BYTES = 1 << 30


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class Live(Generic[T]):
    """Things that wait for their query's next batch, those used last, up to a number of bytes.

    What is taken is gone until it is put back, so no two tasks have the same thing.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

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

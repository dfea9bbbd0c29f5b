"""Dual buffering: what comes next is fetched while the consumer works, within a bound of bytes.

M. Mazzucco et al. (2002, §5, Figure 3) append what arrives to one buffer while another is merged, so
that the total time is near the larger of the two.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


class Prefetched(Generic[T]):
    """The values of an iterator, fetched ahead by a thread of its own; to be closed if not used up.

    Errors are handed over in their place. At most `most_bytes` wait, and one value more.
    """

    def __init__(self, values: Iterator[T], most_bytes: int) -> None:
        self._values = values
        self._most_bytes = most_bytes
        self._waiting: deque[T] = deque()
        self._bytes = 0
        self._ended = False
        self._closed = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._fetch, name="anabranch-prefetch", daemon=True)
        self._thread.start()

    def _fetch(self) -> None:
        try:
            for value in self._values:
                with self._changed:
                    self._waiting.append(value)
                    self._bytes += value.nbytes
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._closed or self._bytes < self._most_bytes)
                    if self._closed:
                        return
                del value
        except BaseException as problem:
            self._failure = problem
        finally:
            self._end_source()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _end_source(self) -> None:
        close = getattr(self._values, "close", None)
        if close is not None:
            # A generator that runs in the other thread cannot be closed from this one; it ends by itself.
            with contextlib.suppress(Exception):
                close()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ended or self._closed)
            if self._closed:
                raise StopIteration
            if self._waiting:
                value = self._waiting.popleft()
                self._bytes -= value.nbytes
                self._changed.notify_all()
                return value
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            raise StopIteration

    def close(self) -> None:
        """Stop fetching and forget what waits; the source is closed too."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        self._end_source()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=5)

    def __enter__(self) -> Prefetched[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def prefetch(values: Iterator[T], most_bytes: int = 64 << 20) -> Prefetched[T]:
    """The same values, fetched ahead while the consumer works."""
    return Prefetched(values, most_bytes)

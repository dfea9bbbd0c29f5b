"""Fetching ahead: the same values, within a bound, with errors and early ends handed over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from anabranch.dataspace.prefetch import prefetch

from .conftest import until


def blocks(count: int, size: int = 1000) -> Iterator[NDArray[np.int8]]:
    for i in range(count):
        yield np.full(size, i % 100, np.int8)


def test_values_come_in_order() -> None:
    assert [int(value[0]) for value in prefetch(blocks(50), 3000)] == list(range(50))
    assert list(prefetch(blocks(0))) == []


def test_no_more_is_fetched_than_fits() -> None:
    fetched: list[int] = []

    def counted() -> Iterator[NDArray[np.int8]]:
        for i, value in enumerate(blocks(100)):
            fetched.append(i)
            yield value

    ahead = prefetch(counted(), 5000)
    until(lambda: len(fetched) >= 5)
    time.sleep(0.05)
    assert len(fetched) == 5
    next(ahead)
    until(lambda: len(fetched) == 6)
    assert len(list(ahead)) == 99


def test_a_value_larger_than_the_bound_comes_through() -> None:
    assert len(list(prefetch(blocks(3, size=10_000), 10))) == 3


def test_fetching_and_working_overlap() -> None:
    def slow() -> Iterator[NDArray[np.int8]]:
        for value in blocks(10):
            time.sleep(0.03)
            yield value

    started = time.monotonic()
    for _ in prefetch(slow(), 1 << 20):
        time.sleep(0.03)
    assert time.monotonic() - started < 0.5, "one after the other it would take 0.6 s"


def test_an_error_comes_after_the_values_before_it() -> None:
    def failing() -> Iterator[NDArray[np.int8]]:
        yield from blocks(3)
        raise ValueError("it broke")

    ahead = prefetch(failing())
    assert [next(ahead)[0] for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="it broke"):
        next(ahead)
    assert list(ahead) == []


def test_closing_early_ends_the_thread_and_the_source() -> None:
    closed = threading.Event()

    def endless() -> Iterator[NDArray[np.int8]]:
        try:
            while True:
                yield np.zeros(100, np.int8)
        finally:
            closed.set()

    with prefetch(endless(), 1000) as ahead:
        next(ahead)
    assert closed.wait(5)
    assert not ahead._thread.is_alive()
    assert list(ahead) == []

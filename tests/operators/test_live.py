"""What waits in memory for a query's next batch: those used last, up to a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import pytest

from anabranch.operators import live
from anabranch.operators.live import Live


@dataclass
class Thing:
    nbytes: int
    asked: int = 0


def test_what_is_taken_is_gone_until_it_is_put_back() -> None:
    some: Live[Thing] = Live()
    thing = Thing(1)
    some.put("a", thing)
    assert some.take("a") is thing
    assert some.take("a") is None


def test_the_oldest_goes_when_there_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_BYTES", 10)
    some: Live[Thing] = Live()
    for name, size in (("a", 4), ("b", 4), ("c", 1), ("a", 5), ("d", 1)):
        some.put(name, Thing(size))
    assert [name for name in "abcd" if some.take(name)] == ["a", "c", "d"]
    some.put("large", Thing(11))
    assert some.take("large") is not None, "the only one stays"


def test_what_was_taken_or_replaced_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_BYTES", 10)
    some: Live[Thing] = Live()
    some.put("waits", Thing(5))
    for _ in range(5):
        some.put("often", Thing(5))
        taken = some.take("often")
        assert taken is not None
        some.put("often", taken)
    other = some.exchange(OrderedDict())
    assert list(other) == ["waits", "often"]
    some.put("new", Thing(9))
    some.exchange(other)
    some.put("more", Thing(1))
    assert some.take("waits") is None


class Sized:
    """Says its size, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def nbytes(self) -> int:
        self.asked += 1
        return 1


def test_things_that_wait_are_not_looked_at_when_others_come() -> None:
    some: Live[Sized] = Live()
    things = [Sized() for _ in range(50)]
    for number, thing in enumerate(things):
        some.put(str(number), thing)
    assert {thing.asked for thing in things} == {1}

"""How long live rows have been waiting, as a reducer is told."""

from __future__ import annotations

import pytest

from anabranch.engine import reducing
from anabranch.engine.reducing import Reducing
from anabranch.log.offset import End
from anabranch.operators.history.join import HistoryJoin


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(reducing, "time", clock)
    return clock


def operator() -> HistoryJoin:
    return HistoryJoin("now", "n", "cars", (("plate", "plate"),), 86_400, 7, 60, "each", (("plate", "plate"),), "ts")


def test_rows_that_are_there_at_first_wait_from_then_on(clock: Clock) -> None:
    waiting = Reducing(operator())
    assert waiting.lag(End()) == 0
    waiting.look(End(10))
    assert waiting.lag(End()) == 0
    clock.now += 3
    assert waiting.lag(End()) == 3
    assert waiting.lag(End(10)) == 0


def test_rows_that_came_while_nobody_looked_have_waited_for_longer(clock: Clock) -> None:
    waiting = Reducing(operator())
    waiting.look(End(10))
    clock.now += 4  # a micro-batch runs, and three rows come
    waiting.look(End(13))
    assert waiting.lag(End(10)) == 3
    assert waiting.lag(End(11)) == 2
    assert waiting.lag(End(12)) == 1
    assert waiting.lag(End(13)) == 0


def test_where_nothing_came_it_did_not_wait(clock: Clock) -> None:
    waiting = Reducing(operator())
    waiting.look(End(10))
    clock.now += 60
    waiting.look(End(10))
    clock.now += 1
    waiting.look(End(11))
    assert waiting.lag(End(10)) == 0.5


def test_rows_before_the_first_live_one_do_not_wait(clock: Clock) -> None:
    waiting = Reducing(operator())
    waiting._live_from = 12
    waiting.look(End(10))
    clock.now += 4
    waiting.look(End(13))
    assert waiting.lag(End(0)) == 1

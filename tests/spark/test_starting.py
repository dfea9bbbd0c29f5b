"""Queries that start together take turns, and whoever fails or ends passes the turn on."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from anabranch.spark import starting


class Query:
    """A query that is ready when it is told so."""

    def __init__(self) -> None:
        self.isActive = True
        self.ready = False

    @property
    def status(self) -> dict[str, str]:
        return {"message": "Waiting for data to arrive" if self.ready else "Initializing sources"}


@pytest.fixture
def one_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_turns", threading.BoundedSemaphore(1))


def begin() -> tuple[list[Query], threading.Thread]:
    """Start one more query, which may have to wait."""
    started: list[Query] = []

    def start() -> Any:
        started.append(Query())
        return started[-1]

    thread = threading.Thread(target=lambda: starting.start_in_turn(start), daemon=True)
    thread.start()
    return started, thread


@pytest.mark.parametrize("how", ["ready", "ended"])
def test_the_second_waits_until_the_first_is_ready_or_gone(one_at_once: None, how: str) -> None:
    first, thread = begin()
    thread.join(5)
    assert first, "who starts alone does not wait"
    second, thread = begin()
    time.sleep(0.2)
    assert not second
    if how == "ready":
        first[0].ready = True
    else:
        first[0].isActive = False
    thread.join(5)
    assert second
    second[0].ready = True


def test_one_that_cannot_be_started_passes_its_turn_on(one_at_once: None) -> None:
    def fails() -> Any:
        raise RuntimeError("no")

    for _ in range(3):
        with pytest.raises(RuntimeError, match="no"):
            starting.start_in_turn(fails)
    started, thread = begin()
    thread.join(5)
    assert started
    started[0].ready = True


def test_nobody_waits_for_ever(one_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "_TURN_SECONDS", 0.2)
    first, thread = begin()
    thread.join(5)
    second, thread = begin()
    thread.join(5)
    assert first
    assert second

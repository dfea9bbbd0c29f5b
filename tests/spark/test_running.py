"""A standing query is started again after what is no fault of its own, not for ever, and its end is always known."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, cast

import pytest

from anabranch.errors import AnabranchError, QueryError
from anabranch.spark import running as module
from anabranch.spark.failures import PLANNER_DIED
from anabranch.spark.life import ENGINE_LOST
from anabranch.spark.running import Running, Tries


class Life:
    """A life of Spark that is lost when told so."""

    def __init__(self, handed_in: bool = False) -> None:
        self.handed_in = handed_in
        self.lost = False

    def lost_by(self, problem: BaseException) -> bool:
        return self.lost

    def loss(self) -> AnabranchError:
        return QueryError(ENGINE_LOST, "Spark's JVM ended")


class Query:
    """A query inside Spark that ends when told so, well or with a problem."""

    isActive = True  # noqa: N815 - Spark's name
    status = {"message": "Waiting for data to arrive"}  # noqa: RUF012 - stands for one of Spark's

    def __init__(self) -> None:
        self._end = threading.Event()
        self.problem: Exception | None = None

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        self._end.wait()
        if self.problem is not None:
            raise self.problem

    def end(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self._end.set()

    def stop(self) -> None:
        self.end()


class Scene:
    """A running query with all that is around it."""

    def __init__(self, *, handed_in: bool = False, in_batch: bool = True, restarts: bool = True) -> None:
        self.life_now = Life(handed_in)
        self.queries: list[Query] = []
        self.told: list[str] = []
        self.tries = Tries()
        self.running = Running(
            cast(Any, self._begin),
            cast(Any, self),
            self.tries,
            restarts=restarts,
            in_batch=lambda: in_batch,
            tell=lambda name, text: self.told.append(name),
        )
        self.running.started(5)

    def life(self) -> Life:
        return self.life_now

    def _begin(self) -> Query:
        self.queries.append(Query())
        return self.queries[-1]

    def lose_spark(self) -> None:
        before, self.life_now.lost = self.life_now, True
        self.life_now = Life(before.handed_in)
        self.queries[-1].end(ConnectionResetError())

    def restarted(self, count: int) -> bool:
        return until(lambda: len(self.queries) == count + 1 and self.running.status == "running")


def until(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    return true()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSES", (0.0,) * 5)


def planner_died() -> Exception:
    return QueryError(PLANNER_DIED, "the Python process that plans the query ended")


def test_it_is_started_again_when_spark_was_lost() -> None:
    scene = Scene()
    scene.lose_spark()
    assert scene.restarted(1)
    assert scene.told == ["engine_lost"]
    scene.running.stop()
    assert scene.running.status == "stopped"


def test_whoever_loses_spark_in_every_batch_has_failed() -> None:
    scene = Scene()
    for count in range(1, 6):
        scene.lose_spark()
        assert scene.restarted(count)
    scene.lose_spark()
    assert until(lambda: scene.running.status == "failed")
    assert scene.running.failure is not None
    assert scene.running.failure.name == ENGINE_LOST
    assert "got no further" in str(scene.running.failure)


@pytest.mark.parametrize("how", ["idle", "works"])
def test_one_that_is_idle_or_goes_on_may_lose_spark_any_number_of_times(how: str) -> None:
    scene = Scene(in_batch=how == "works")
    for count in range(1, 12):
        scene.lose_spark()
        assert scene.restarted(count)
        if how == "works":
            scene.tries.worked()
    scene.running.stop()


def test_a_planner_that_keeps_dying_is_a_failure_in_the_end() -> None:
    scene = Scene(in_batch=False)
    for count in range(1, 6):
        scene.queries[-1].end(planner_died())
        assert scene.restarted(count)
    scene.queries[-1].end(planner_died())
    assert until(lambda: scene.running.status == "failed")


def test_what_is_its_own_fault_is_a_failure_at_once() -> None:
    scene = Scene()
    scene.queries[-1].end(QueryError("QUERY_FAILED", "no"))
    assert until(lambda: scene.running.status == "failed")
    with pytest.raises(AnabranchError, match="QUERY_FAILED no"):
        scene.running.run_to_end(1)
    assert scene.told == []


@pytest.mark.parametrize("kind", [{"handed_in": True}, {"restarts": False}])
def test_what_cannot_be_started_again_fails_with_its_spark(kind: dict[str, Any]) -> None:
    scene = Scene(**kind)
    scene.lose_spark()
    assert until(lambda: scene.running.status == "failed")
    assert len(scene.queries) == 1


def test_one_that_is_stopped_while_it_waits_for_its_turn_never_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = threading.Semaphore(0)
    monkeypatch.setattr("anabranch.spark.starting._turns", turn)
    begun: list[int] = []
    scene: Any = type("Scene", (), {"life": staticmethod(Life)})()

    def begin() -> Any:
        begun.append(1)

    running = Running(begin, scene, Tries())
    assert running.status == "starting"
    began = time.monotonic()
    running.stop()
    assert time.monotonic() - began < 2
    assert running.status == "stopped"
    assert not begun

"""The ways a file is played; the expected answers are the same for all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anabranch.database import Database
from anabranch.testing.clock import ManualClock
from anabranch.testing.slt.format import File
from anabranch.testing.slt.play import play
from anabranch.testing.slt.small_tasks import small_tasks
from anabranch.testing.slt.stage import InterruptedStage, Stage
from anabranch.testing.sparkless import SparklessDatabase, Unkindness


@dataclass(frozen=True)
class Way:
    """How a file is played: on Spark or without, and with what done to it on the way."""

    name: str
    spark: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    single_rows: bool = False
    """Every pushed row is an append of its own."""
    small_tasks: bool = False
    unkindness: Unkindness = field(default_factory=Unkindness)
    interrupted: bool = False
    """Before rows come the database is closed and opened again, with part of its queries' checkpoints lost."""

    def opener(self, path: Path) -> Callable[[ManualClock], Database]:
        """What opens the database of a file."""

        def on_spark(clock: ManualClock) -> Database:
            kind: type[Database] = Database
            if self.small_tasks:
                from anabranch.testing.slt.small_tasks_source import SmallTasksDatabase

                kind = SmallTasksDatabase
            return kind(path, settings={**_COMMON, **self.settings}, clock=clock)

        def without(clock: ManualClock) -> Database:
            settings = {**_COMMON, **self.settings}
            return SparklessDatabase(path, settings=settings, clock=clock, unkindness=self.unkindness)

        return on_spark if self.spark else without


_COMMON: dict[str, Any] = {"warm_up": 0}
_ONE_ROW = {"batch_rows": 1}
_THREE_TASKS = {"parallelism": 3}
_STRUCK = Unkindness(replay=True, faults=True)

SPARKLESS_WAYS: tuple[Way, ...] = (
    Way("straight", False),
    Way("single_rows", False, _ONE_ROW, single_rows=True),
    Way("forgetful", False, {"batch_rows": 2}, unkindness=Unkindness(forget=True)),
    Way("parallel", False, _THREE_TASKS, small_tasks=True),
    Way("replayed", False, {"batch_rows": 3}, unkindness=Unkindness(replay=True)),
    Way("interrupted", False, {"batch_rows": 4}, interrupted=True),
    Way("struck", False, {"batch_rows": 5, **_THREE_TASKS}, small_tasks=True, unkindness=_STRUCK),
)
SPARK_WAYS: tuple[Way, ...] = (
    Way("spark_straight", True),
    Way("spark_single_rows", True, _ONE_ROW, single_rows=True),
    Way("spark_parallel", True, _THREE_TASKS, small_tasks=True),
)


def play_file(file: File, way: Way, path: Path) -> None:
    """Play a file one way, with a database in the directory `path`."""
    with contextlib.ExitStack() as stack:
        if way.small_tasks and not way.spark:
            stack.enter_context(small_tasks())
        stage = InterruptedStage(way.opener(path), path) if way.interrupted else Stage(way.opener(path))
        stack.callback(stage.close)
        play(file, stage, single_rows=way.single_rows)

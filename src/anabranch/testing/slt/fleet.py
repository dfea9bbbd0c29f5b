"""Played with kills: the databases of several files in one process that is killed, or a part of it, at seeded moments.

The process is real, and so are the signal (SIGKILL), the log and Spark's checkpoints. Starting Spark
is what costs, so the files are played side by side, record by record in turns, and a kill hits them
all. A push that a kill interrupted is pushed again under the same number, as a producer would that
got no acknowledgement. Parts die between calls, while queries are at work: a statement that is cut off says so and
is not carried out, and no file expects that.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from anabranch.errors import AnabranchError
from anabranch.testing.processes import daemons, gone, jvm, kill, planners, workers
from anabranch.testing.slt.cells import Rows
from anabranch.testing.slt.format import File, Record, SltError
from anabranch.testing.slt.play import Mismatch, steps
from anabranch.testing.slt.stage import NOW, Stage
from anabranch.testing.slt.ways import Way

PARTS: dict[str, Callable[[int], list[int]]] = {
    "jvm": lambda pid: [jvm(pid)],
    "planner": planners,
    "worker": workers,
    "daemon": daemons,
}
"""What of a process can die alone; all there are of a kind at once."""
KILLED_WAYS: dict[str, tuple[str, ...]] = {"killed": ("push", "process"), "parts_killed": tuple(PARTS)}
"""What is killed, once each: the process within a push or after one, or a part of it after one."""

_START_SECONDS = 180.0
_ANSWER_SECONDS = 240.0
_PART_SECONDS = 60.0
_SIDE_BY_SIDE = 10


class Fleet:
    """The databases of several files, in a process that can be killed and started again."""

    def __init__(self, directory: Path, names: Sequence[str]) -> None:
        self._paths = {name: directory / str(i) for i, name in enumerate(names)}
        self.clocks = dict.fromkeys(names, NOW)
        self.kills = 0
        self._launch()

    def _launch(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._paths, self.clocks), daemon=False)
        self._process.start()
        theirs.close()
        self._receive(_START_SECONDS)

    def done(self, name: str) -> None:
        """One of the databases is not needed any more: its queries end, and nobody opens it again."""
        self.call(name, "close")
        del self._paths[name], self.clocks[name]

    def call(self, name: str, method: str, *arguments: Any) -> Any:
        """Ask one of the databases."""
        self._pipe.send((name, method, arguments))
        return self._receive(_ANSWER_SECONDS)

    def kill(self) -> None:
        """Kill the process with SIGKILL and start another one, which opens all databases again."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self.kills += 1
        self._launch()

    def kill_during(self, after_seconds: float, name: str, method: str, *arguments: Any) -> None:
        """Kill while a call runs; whether it was carried out is not known."""
        self._pipe.send((name, method, arguments))
        self._pipe.poll(after_seconds)
        self.kill()

    def kill_part(self, part: str) -> None:
        """Kill all there are of a part, as soon as there is one; the process lives on."""
        assert self._process.pid is not None
        deadline = time.monotonic() + _PART_SECONDS
        while not (victims := _found(part, self._process.pid)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"there is no {part} to kill")
            time.sleep(0.05)
        for victim in victims:
            with contextlib.suppress(ProcessLookupError):
                kill(victim)
        assert all(map(gone, victims))
        self.kills += 1

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _receive(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise TimeoutError(f"no answer in {seconds:g} s")
        outcome, value = self._pipe.recv()
        if outcome == "raised":
            raise value
        return value


def _found(part: str, pid: int) -> list[int]:
    with contextlib.suppress(StopIteration):  # the JVM is being started
        return PARTS[part](pid)
    return []


class FleetStage:
    """One database of a fleet, as records see it."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self._fleet, self._name = fleet, name
        self.kill_in_push: float | None = None
        """Kill so many seconds into the next push."""

    def sql(self, text: str) -> Rows:
        return self._rows("sql", text)

    def push(self, stream: str, lines: tuple[str, ...], batch: int) -> None:
        if self.kill_in_push is not None:
            after, self.kill_in_push = self.kill_in_push, None
            self._fleet.kill_during(after, self._name, "push", stream, lines, batch)
        self._fleet.call(self._name, "push", stream, lines, batch)

    def flush(self, stream: str) -> None:
        self._fleet.call(self._name, "flush", stream)

    def advance(self, stream: str, time: str) -> None:
        self._fleet.call(self._name, "advance", stream, time)

    def clock(self, time: str) -> None:
        self._fleet.clocks[self._name] = time
        self._fleet.call(self._name, "clock", time)

    def answers(self, query: str) -> Rows:
        return self._rows("answers", query)

    def store(self, query: str) -> Rows:
        return self._rows("store", query)

    def restart(self) -> None:
        """Nothing: the kills are its restarts."""

    def _rows(self, method: str, argument: str) -> Rows:
        rows: Rows = self._fleet.call(self._name, method, argument)
        return rows


def play_killed(
    files: Sequence[File], directory: Path, *, way: str, seed: int
) -> dict[str, Mismatch | SltError | AnabranchError | None]:
    """Play files, several side by side, in one of `KILLED_WAYS`, at seeded moments; per file, what went wrong."""
    chance = random.Random(seed)
    outcome: dict[str, Mismatch | SltError | AnabranchError | None] = {}
    for first in range(0, len(files), _SIDE_BY_SIDE):
        some = files[first : first + _SIDE_BY_SIDE]
        outcome |= _play_side_by_side(some, directory / str(first), victims=KILLED_WAYS[way], chance=chance)
    return outcome


def _play_side_by_side(
    files: Sequence[File], directory: Path, *, victims: Sequence[str], chance: random.Random
) -> dict[str, Mismatch | SltError | AnabranchError | None]:
    fleet = Fleet(directory, [file.name for file in files])
    stages = {file.name: FleetStage(fleet, file.name) for file in files}
    playing: dict[str, Iterator[Record]] = {file.name: steps(file, stages[file.name]) for file in files}
    outcome: dict[str, Mismatch | SltError | AnabranchError | None] = dict.fromkeys(playing)
    moments = _moments(files, victims, chance)
    try:
        turn = 0
        while playing:
            if turn in moments:
                pushing = [f.name for f in files if turn < len(f.records) and f.records[turn].kind == "push"]
                _arm(moments[turn], fleet, [stages[name] for name in pushing], chance)
            for name in list(playing):
                try:
                    next(playing[name])
                    continue
                except StopIteration:
                    pass
                except (Mismatch, SltError, AnabranchError) as problem:
                    outcome[name] = problem
                del playing[name]
                fleet.done(name)
            turn += 1
        return outcome
    finally:
        fleet.close()


def _moments(files: Sequence[File], victims: Sequence[str], chance: random.Random) -> dict[int, str]:
    """At which turns there is a kill, and of what: right after a turn with pushes, or inside a push."""
    pushes = dict.fromkeys(range(1, max(len(file.records) for file in files)), 0)
    for file in files:
        for i, record in enumerate(file.records):
            if record.kind == "push" and i in pushes:
                pushes[i] += 1
    turns = sorted(pushes, key=lambda i: (-pushes[i], i))[: 2 * len(victims)]
    chosen = sorted(chance.sample(turns, min(len(victims), len(turns))))
    return {turn + (victim != "push"): victim for turn, victim in zip(chosen, victims, strict=False)}


def _arm(victim: str, fleet: Fleet, stages: list[FleetStage], chance: random.Random) -> None:
    if victim == "push" and stages:
        chance.choice(stages).kill_in_push = chance.uniform(0.0, 0.02)
        return
    # Let the queries get into what was just pushed, or not quite.
    time.sleep(chance.uniform(0.0, 0.3))
    if victim in PARTS:
        fleet.kill_part(victim)
    else:
        fleet.kill()


def _serve(pipe: Connection, paths: dict[str, Path], clocks: dict[str, str]) -> None:
    """The process of a fleet: carry out calls until killed."""
    stages: dict[str, Stage] = {}
    try:
        for name, path in paths.items():
            stages[name] = Stage(Way("killed", True).opener(path), clocks[name])
        pipe.send(("did", None))
    except BaseException as problem:
        pipe.send(("raised", _portable(problem)))
        return
    while True:
        try:
            name, method, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(("did", getattr(stages[name], method)(*arguments)))
        except BaseException as problem:
            pipe.send(("raised", _portable(problem)))


def _portable(problem: BaseException) -> BaseException:
    """An error that can travel: ours as they are, others as their text."""
    known = (AnabranchError, ValueError, KeyError, AssertionError)
    return problem if isinstance(problem, known) else RuntimeError(f"{type(problem).__name__}: {problem}")

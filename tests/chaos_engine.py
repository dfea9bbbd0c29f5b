"""Parts of a living system under kill -9: its JVM, or a process that plans a query, while it goes on appending.

One process opens the database and lives through all rounds. In each it kills a part of itself at a
seeded moment, sometimes again while that part is being started, and appending never stops. In the end every
answer must be there exactly once, in order, equal to what a recomputation gives.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from anabranch.testing.processes import jvm, kill, planners
from tests import chaos

WHATS = ("jvm", "planner")


def live(path: str, rounds: int, seed: int, what: str) -> dict[str, Any]:
    """All rounds, in this process; gives what was counted, and the seconds from each kill to the first new answer."""
    import anabranch as ab

    source = random.Random(seed)
    with ab.open(path, settings=chaos.SETTINGS) as database:
        database.sql(chaos.PACKETS)
        queries = [database.query(sql, name=name) for name, sql in chaos.QUERIES.items()]
        appended = [0]
        done = threading.Event()

        def append() -> None:
            while not done.wait(0.1 if appended[0] < 600 else 1.0):  # what is to be checked stays small
                batch = appended[0]
                database.append("packets", chaos.packets(batch), producer="chaos", batch=batch)
                appended[0] += 1

        appender = threading.Thread(target=append, daemon=True)
        appender.start()
        seconds = []
        for _ in range(rounds):
            for query in queries:
                query.wait(400)
            time.sleep(source.uniform(0.0, 1.0))
            _kill_one(what, source)
            killed = time.monotonic()
            if source.random() < 0.25:
                time.sleep(source.uniform(0.0, 3.0))
                with contextlib.suppress(AssertionError):
                    _kill_one(what, source)
            queries[0].wait(400)  # for rows that came after the kill
            seconds.append(round(time.monotonic() - killed, 1))
        done.set()
        appender.join()
        for query in queries:
            query.wait(400)
        counted: dict[str, Any] = chaos.check_answers(database, appended[0] - 1)
        told = [event["event"] for query in queries for event in query.events()]
        return {**counted, "seconds": seconds, "events": len(told)}


def _kill_one(what: str, source: random.Random) -> None:
    """Kill a part, as soon as there is one."""
    deadline = time.monotonic() + (60 if what == "planner" else 2)
    while time.monotonic() < deadline:
        with contextlib.suppress(StopIteration, IndexError, ProcessLookupError):
            kill(jvm() if what == "jvm" else source.choice(planners()))
            return
        time.sleep(0.05)
    raise AssertionError(f"there is no {what} to kill")


def run(rounds: int, seed: int, place: Path, what: str) -> dict[str, Any]:
    """The rounds in a process of their own; gives what it counted."""
    command = [sys.executable, "-m", "tests.chaos_engine", str(place / "river"), str(rounds), str(seed), what]
    with open(place / "stderr", "w+") as stderr:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
        stderr.seek(0)
        said = stderr.read()
    assert done.returncode == 0, said
    assert said == "", "something was said on stderr"
    counted: dict[str, Any] = json.loads(done.stdout)
    return counted


if __name__ == "__main__":
    print(json.dumps(live(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))

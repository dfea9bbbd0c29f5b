"""A host under kill -9 while members come and go: every answer equals that of a run nobody disturbed.

A life opens the database, goes on, and draws what it does next (append; make, drop, stop, start and move queries) from
the number of the step, so that the next life does what this one did not get to. It is killed at a random moment. What
it has done for good can be read off the database: rows by their producer's batch, queries by their names. In the end
each query that is there must have answered what it answers alone.

Meanwhile members fail now and then, for no reason that comes back, and are started again; and some answer more than a
small budget, and are held back by themselves.

The engine runs in the process that is killed, without Spark: the log, the list of members, the answers and the
checkpoint are the real ones. `tests/spark/test_together.py` kills Spark's JVM.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.errors import CatalogError
from anabranch.operators.base import Inputs
from anabranch.operators.history.landmark import Landmark
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.together.families.merges import MergeFamily
from anabranch.operators.together.selections import Selections
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.queries import host_upkeep
from anabranch.testing.processes import kill
from anabranch.testing.sparkless import SparklessDatabase

BASE_US = 1_767_225_600_000_000
STREAM = "CREATE STREAM s (n BIGINT, k INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at"
SETTINGS = {"segment_bytes": 20_000, "segment_parts": 4, "batch_rows": 700, "member_rows": 1000}
MATCHES = (
    "within(A.x, B.x, 0.01) AND A.t = B.t WITH (window = 20, step = 5)",
    "within(A.n, B.n + 3, 1) WITH (policy = 'nearest', window = 50, step = 20, every = INTERVAL 700 MILLISECONDS)",
)
SINCE = "TIMESTAMP '2026-01-01 00:00:20'"
LAST = "LAST 2 INTERVAL 5 SECONDS WITHIN INTERVAL 1 SECOND"
STEPS = 40
MEMBERS = 12
"""How many a step makes at most."""


def rows(step: int) -> pa.Table:
    """What a step appends."""
    chance = random.Random(f"rows {step}")
    first, count = step * 200, 200
    return pa.table(
        {
            "n": list(range(first, first + count)),
            "k": pa.array([chance.randrange(8) for _ in range(count)], pa.int32()),
            "x": [chance.uniform(-1, 1) for _ in range(count)],
            "t": [f"t{chance.randrange(20)}" for _ in range(count)],
            "at": pa.array([BASE_US + i * 50_000 for i in range(first, first + count)]).cast(pa.timestamp("us", "UTC")),
        }
    )


def question(name: str) -> str:
    """What a query asks: a function of its name."""
    chance = random.Random(name)
    k, x = chance.randrange(8), round(chance.uniform(-1, 1), 2)
    return chance.choice(
        [
            f"SELECT n, x, at FROM s WHERE k = {k}",
            f"SELECT n, t, at FROM s WHERE x > {x} AND t LIKE 't1%'",
            f"SELECT n FROM s WHERE k IN ({k}, 3) AND x <= {x}",
            f"SELECT n, k FROM s WHERE t = 't{k}' OR x > 0.99",
            f"SELECT A.n AS a, B.n AS b, A.at AS at FROM s A, s B WINDOW(A, B) = INTERVAL 1 SECOND "
            f"WHERE A.k = B.k AND A.x > {x}",
            f"SELECT count(*) AS c, sum(x) AS total FROM s WHERE k = {k} WINDOW = INTERVAL 5 SECONDS",
            f"SELECT k, median(x) AS m FROM s WHERE x > {x} WINDOW = INTERVAL 4 SECONDS GROUP BY k",
            *(f"SELECT A.n AS a, B.n AS b FROM s A MERGE JOIN s B ON {on} WHERE A.k = {k}" for on in MATCHES),
            f"SELECT A.n AS a FROM s A LEFT ANTI MERGE JOIN s B ON {MATCHES[1]} WHERE A.x > {x}",
            f"SELECT k, count(*) AS n, sum(x) AS total FROM s SINCE {SINCE} GROUP BY k EMIT EVERY INTERVAL 3 SECONDS",
            f"SELECT count(*) AS n FROM s SINCE {SINCE} WHERE k = {k} EMIT EVERY INTERVAL 2 SECONDS",
            f"SELECT p.n AS n, p.at AS at FROM s p JOIN ARCHIVE s h {LAST} ON p.k = h.k AND p.t = h.t WHERE p.k = {k}",
        ]
    )


def retained_us(name: str) -> int | None:
    """How long the answers of a query are kept: a function of its name, too."""
    return random.Random(f"retained {name}").choice([None, None, 20_000_000, 60_000_000])


def changes(step: int) -> tuple[list[str], list[str]]:
    """Which queries a step makes, and which of those before it drops; a name comes again as another query."""
    chance = random.Random(f"changes {step}")
    made = [f"q{step}_{i}" for i in range(chance.randrange(MEMBERS))]
    dropped = [f"q{step - chance.randrange(1, 6)}_{chance.randrange(MEMBERS)}" for _ in range(3)]
    return made, dropped


def turns(step: int) -> tuple[list[str], list[str]]:
    """Which queries a step stops, and which it starts, if they are there."""
    chance = random.Random(f"turns {step}")
    names = [f"q{step - chance.randrange(6)}_{chance.randrange(MEMBERS)}" for _ in range(10)]
    return names[:5], names[5:]


def moves(step: int) -> list[tuple[str, str | None]]:
    """Which queries a step moves, if they are there, and where to: another host, or a place of their own."""
    chance = random.Random(f"moves {step}")
    names = [f"q{step - chance.randrange(6)}_{chance.randrange(MEMBERS)}" for _ in range(4)]
    return [(name, chance.choice([None, "host", "other"])) for name in names]


def wanted() -> set[str]:
    """The queries that are there after all steps."""
    names: set[str] = set()
    for step in range(STEPS):
        made, dropped = changes(step)
        names = (names | set(made)) - set(dropped)
    return names


def live(path: str) -> None:
    """Be the process that gets killed: all steps, those that were done before are passed over."""
    host_upkeep._FORGET_FROM = 8
    fail_now_and_then(random.SystemRandom())
    with SparklessDatabase(path, settings=SETTINGS) as db:
        for step in range(STEPS):
            db.append("s", rows(step), producer="chaos", batch=step)
            made, dropped = changes(step)
            done = _done(path)
            if step > done:
                new = {name: question(name) for name in made if not db.catalog.has_query(name)}
                for kept in sorted({retained_us(name) for name in new}, key=str):
                    some = {name: text for name, text in new.items() if retained_us(name) == kept}
                    db.create_queries(some, retain_us=kept)
                for name in dropped:
                    with contextlib.suppress(CatalogError):
                        db.drop_query(name)
                stopped, started = turns(step)
                for name in filter(db.catalog.has_query, stopped):
                    db.get_query(name).stop()
                for name in filter(db.catalog.has_query, started):
                    db.get_query(name).start()
                for name, to in moves(step):
                    if db.catalog.has_query(name) and not db._queries.moves.is_moving(name):
                        db._queries.moves.begin(name, to)
                if step % 4 == 0:
                    db.archive("s").append()
                (Path(path).parent / "done").write_text(str(step))
            print(step, flush=True)
            db.catch_up()
            db._queries.moves.go_on()
            db._queries.look_after()  # its thread does so once a second
            for query in db.queries():
                if query.status == "failed":
                    query.start()
    print("end", flush=True)


def fail_now_and_then(chance: random.Random) -> None:
    """Have members of hosts raise in this process, one in a hundred times."""

    def failing(run: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def ran(*given: Any) -> Iterator[Any]:
            alone = any(isinstance(each, Inputs) and "/queries/q" in str(each.scratch) for each in given)
            for part in run(*given):
                if not alone and chance.random() < 0.01:
                    raise MemoryError
                yield part

        return ran

    for kind in (Selections, WindowAggregate, WindowJoin, MergeFamily, Landmark):
        kind.run = failing(kind.run)  # type: ignore[method-assign]


def _done(path: str) -> int:
    with contextlib.suppress(FileNotFoundError, ValueError):
        return int((Path(path).parent / "done").read_text())
    return -1


def run(rounds: int, seed: int, place: Path) -> dict[str, int]:
    """Kill and resume, then check everything; gives what was counted."""
    path = str(place / "river")
    with SparklessDatabase(path, settings=SETTINGS) as db:
        db.sql(STREAM)
        db.sql("CREATE ARCHIVE ON s USING plain")
    chance = random.Random(seed)
    kills = 0
    for _ in range(rounds):
        kills += _one_life(path, chance.uniform(0.1, 3.0))
    while _one_life(path, 600):
        pass
    return {"kills": kills, **_check(path, place)}


def _one_life(path: str, delay: float) -> bool:
    """Whether the process was killed; else it came to the end."""
    command = [sys.executable, "-m", "tests.chaos_members", "--live", path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    timer: threading.Timer | None = None
    ended = False
    for line in process.stdout:
        if timer is None:
            timer = threading.Timer(delay, kill, (process.pid,))
            timer.start()
        ended = ended or line.strip() == "end"
    code = process.wait()
    assert timer is not None, f"the process died by itself with {code}"
    timer.cancel()
    assert ended or code == -9, f"the process ended with {code}"
    return not ended


def _check(path: str, place: Path) -> dict[str, int]:
    names = wanted()
    with SparklessDatabase(path, settings=SETTINGS) as db:
        for _ in range(4):
            db.catch_up()
            db._queries.moves.go_on()
        assert not list(db.catalog.hosted.leaving())
        assert not db.catalog.leaving_home()
        assert {query.name for query in db.queries()} == names
        assert {query.status for query in db.queries()} <= {"running", "stopped", "failed"}
        for query in db.queries():
            query.start()
        db.catch_up()
        assert {query.status for query in db.queries()} == {"running"}
        for _ in range(100):
            db._queries.look_after()
        answers = {name: db.get_query(name).table().to_pylist() for name in names}
        # Not the first row there is now: what RETAIN lets go of may have gone since they were read.
        firsts = {name: db.reader(name).end().row - len(answers[name]) for name in names}
        assert db.check().fine
        said = Counter(event["event"] for query in db.queries() for event in query.events())
    with SparklessDatabase(place / "alone") as db:
        db.sql(STREAM)
        db.sql("CREATE ARCHIVE ON s USING plain")
        for step in range(STEPS):
            db.append("s", rows(step))
        asked: dict[str, list[dict[str, Any]]] = {}
        for name in names:
            if question(name) not in asked:
                query = db.query(question(name))
                db.catch_up()
                asked[question(name)] = query.table().to_pylist()
                db.drop_query(query.name)
    for name in sorted(names):
        assert answers[name] == asked[question(name)][firsts[name] :], f"{name}: {question(name)}"
        assert not firsts[name] or retained_us(name)
    assert {"member_failed", "member_held_back", "member_released"} <= said.keys()
    gone = sum(firsts.values())
    return {"queries": len(names), "answers": sum(map(len, answers.values())), "let go": gone, **said}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", required=True)
    began = time.monotonic()
    live(parser.parse_args().live)

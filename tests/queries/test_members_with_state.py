"""Merges, and queries over history, as members of hosts: they answer what each answers by itself, wherever it is run."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.operators.together.families.merges import MergeFamily
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import SEED, sampled

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
STREAMS = tuple(
    f"CREATE STREAM {name} (k INT, c INT, x DOUBLE, t STRING, at TIMESTAMP) TIMESTAMP BY at" for name in ("a", "b")
)
UNKIND = {
    "kind": Unkindness(),
    "repeated": Unkindness(replay=True),
    "forgetful": Unkindness(forget=True),
    "faulty": Unkindness(faults=True),
}
PLACES = (None, "host", "other")
Rows = list[dict[str, Any]]


def a_row(chance: random.Random, second: float) -> dict[str, Any]:
    row = {
        "k": chance.randrange(4),
        "c": chance.randrange(5),
        "x": chance.choice([0.0, 0.1, 0.2, 1.5, float("nan")]),
        "t": chance.choice(["a", "ab", "b", "ä"]),
    }
    return {name: None if chance.random() < 0.1 else value for name, value in row.items()} | {
        "at": BASE + dt.timedelta(seconds=second)
    }


def a_merge(chance: random.Random) -> str:
    p, f = chance.choice([("p", "f"), ("f", "p"), ("A", "B")])
    left, right = chance.choice([("a", "b"), ("a", "b"), ("b", "a")])
    within = chance.choice([f"within({p}.k, {f}.k, 1)", f"within({p}.x, {f}.x, 0.1) AND {p}.k = {f}.k"])
    options = chance.choice(
        [
            "",
            " WITH (window = 5, step = 2)",
            " WITH (policy = 'nearest', window = 7, step = 3, delta = 0.1)",
            " WITH (pace = 'rows', window = 6, step = 2, wait = INTERVAL 9 SECONDS)",
        ]
    )
    kind = chance.choice(["", "", "LEFT ", "LEFT ANTI "])
    own = [
        f"{p}.c = {chance.randrange(5)}",
        f"{p}.t LIKE 'a%'",
        f"{p}.c IN (1, {chance.randrange(5)})",
        f"{p}.x IS NOT NULL",
        f"{p}.c <> 0",
        f"10 / {p}.c > 3",
        f"{p}.c + {p}.k > 2",
    ]
    own += [] if "ANTI" in kind else [f"{f}.c = {chance.randrange(5)}", f"{p}.c < {f}.c"]
    wanted = [own[4], own[5]] if chance.random() < 0.2 else [w for w in chance.sample(own, 2) if "/" not in w]
    where = f" WHERE {' AND '.join(wanted)}" if wanted and chance.random() < 0.8 else ""
    columns = chance.choice([f"{p}.k, {p}.c AS c", f"{p}.t", f"{p}.c + 1 AS d, {p}.x AS x"])
    return f"SELECT {columns} FROM {left} {p} {kind}MERGE JOIN {right} {f} ON {within}{options}{where}"


def a_query(chance: random.Random) -> str:
    if chance.random() < 0.6:
        return a_merge(chance)
    c, second = chance.randrange(5), chance.randrange(0, 40)
    since = f"SINCE TIMESTAMP '2026-01-01 00:00:{second:02}'"
    last = "LAST 2 INTERVAL 10 SECONDS WITHIN INTERVAL 3 SECONDS"
    return chance.choice(
        [
            f"SELECT k, count(*) AS n, sum(x) AS total FROM a {since} WHERE c <> {c} GROUP BY k EMIT EVERY INTERVAL 7 SECONDS",
            f"SELECT count(*) AS n FROM a {since} WHERE c = {c} EMIT EVERY INTERVAL 10 SECONDS",
            f"SELECT p.k AS k, p.at AS at FROM b p JOIN ARCHIVE a h {last} ON p.k = h.k WHERE p.c = {c}",
            f"SELECT p.k AS k, p.at AS at FROM a p JOIN ARCHIVE a h {last} ON p.k = h.k AND p.c = h.c",
            f"SELECT count(*) AS n, max(x) AS m FROM a WHERE c = {c} WINDOW = INTERVAL 5 SECONDS",
            f"SELECT k, at FROM b WHERE c = {c}",
        ]
    )


def told(db: SparklessDatabase, name: str) -> list[Any]:
    return [tuple(map(repr, row.values())) for row in db.get_query(name).table().to_pylist()]


def alone(path: Path, texts: dict[str, str], rows: list[tuple[str, Rows]]) -> dict[str, list[Any]]:
    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        open_streams(db)
        for stream, part in rows:
            db.append(stream, part)
        for name, text in texts.items():
            db.query(text, name=name)
        db.catch_up()
        return {name: told(db, name) for name in texts}


def open_streams(db: SparklessDatabase) -> None:
    for text in STREAMS:
        db.sql(text)
    db.sql("CREATE ARCHIVE ON a USING plain")


@pytest.mark.slow
@pytest.mark.parametrize("how", UNKIND)
@pytest.mark.parametrize("round_", sampled(range(6), 1, "members with state"))
def test_members_that_come_and_go_and_move_answer_what_each_does_alone(tmp_path: Path, how: str, round_: int) -> None:
    chance, names, second = random.Random(f"{SEED} {how} {round_}"), itertools.count(), {"a": 0.0, "b": 0.0}
    asked: dict[str, str] = {}
    rows: list[tuple[str, Rows]] = []
    stopped: set[str] = set()
    settings = {"batch_rows": 37, "segment_bytes": 4000, "alone_queries": 0}
    for process in range(3):
        with SparklessDatabase(tmp_path / "river", settings=settings, unkindness=UNKIND[how]) as db:
            if not process:
                open_streams(db)
                for host in filter(None, PLACES):  # which reads both streams
                    db.sql(f"CREATE CONTINUOUS QUERY of_{host} ON HOST {host} AS {a_merge(random.Random(1))}")
            moves = db._queries.moves
            for _ in range(3):
                for stream in second:
                    part = []
                    for _ in range(chance.randrange(0, 40)):
                        second[stream] += chance.choice([0, 0, 0.5, 1])
                        part.append(a_row(chance, second[stream]))
                    if part:
                        db.append(stream, part)
                        rows.append((stream, part))
                second = {stream: max(own, max(second.values()) - 10) for stream, own in second.items()}
                if chance.random() < 0.4:
                    db.archive("a").append()
                new = {f"q{next(names)}": a_query(chance) for _ in range(chance.randrange(1, 7))}
                host = chance.choice(["host", "host", "other"])
                db.create_queries(new, host=host)
                asked |= new
                if chance.random() < 0.6:
                    db.catch_up()
                for name in chance.sample(sorted(asked), min(3, len(asked))):
                    if moves.is_moving(name):
                        continue
                    what = chance.randrange(4)
                    if what == 0:
                        (db.get_query(name).start if name in stopped else db.get_query(name).stop)()
                        stopped ^= {name}
                    elif what == 1 and len(asked) > 3:
                        db.drop_query(name)
                        del asked[name]
                        stopped.discard(name)
                    elif what == 2:
                        move(db, name, chance.choice(PLACES), at_once=chance.random() < 0.5)
                db._queries.look_after()
            if process == 2:
                for _ in range(6):
                    db.catch_up()
                    moves.go_on()
                for name in stopped:
                    db.get_query(name).start()
                db.catch_up()
                assert {db.get_query(name).status for name in asked} == {"running"}
                answers = {name: told(db, name) for name in asked}
    expected = alone(tmp_path / "alone", asked, rows)
    assert any(expected.values())
    for name, text in asked.items():
        assert answers[name] == expected[name], text


def move(db: SparklessDatabase, name: str, to: str | None, *, at_once: bool) -> None:
    if at_once:
        db.move_query(name, to)
    else:
        db._queries.moves.begin(name, to)

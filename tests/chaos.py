"""The whole system under kill -9: append and query, die at a seeded moment, open again, and compare.

`make chaos ROUNDS=50` runs it for as long as you like; the test suite runs a few rounds. Each round
starts a process that opens the database, goes on with its standing queries and appends numbered
rows, saying after each append that it was acknowledged. It is killed at a random moment: alone, or
with its JVM and all workers. After the last round every acknowledged row must be there exactly once,
and every answer must be there exactly once, in order, equal to what a recomputation gives. Archives
have rounds of their own, see `tests.archive_chaos`, and so has the death of single parts, see
`tests.chaos_engine`.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.database import Database
from anabranch.testing.processes import descendants, kill
from tests import archive_chaos

ROWS = 500
STEP_US = 2_000  # time between two rows
BASE_US = 1_767_225_600_000_000
WINDOW_US, SLIDE_US = 10_000_000, 2_000_000
SETTINGS = {"segment_bytes": 200_000, "segment_parts": 8, "batch_rows": 20_000}

PACKETS = "CREATE STREAM packets (id BIGINT, key STRING, length INT, speed DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts"
QUERIES = {
    "big": "SELECT id, length * 2 AS twice, ts FROM packets WHERE length > 900",
    "load": "SELECT key, count(*) AS n, sum(length) AS total, avg(speed) AS speed FROM packets "
    "WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 2 SECONDS GROUP BY key",
    "spark_side": "SELECT id, regexp_replace(key, 'k', 'K') AS name, ts FROM packets WHERE id % 100 = 0",
    "again": "SELECT count(*) AS n, max(id) AS newest FROM big WINDOW = INTERVAL 4 SECONDS",
}


def packets(batch: int) -> pa.Table:
    """The rows of a batch, a function of its number."""
    source = random.Random(batch)
    first = batch * ROWS
    return pa.table(
        {
            "id": list(range(first, first + ROWS)),
            "key": [f"k{source.randrange(7)}" for _ in range(ROWS)],
            "length": pa.array([source.randrange(1000) for _ in range(ROWS)], pa.int32()),
            "speed": [source.uniform(-1, 1) for _ in range(ROWS)],
            "ts": pa.array([BASE_US + i * STEP_US for i in range(first, first + ROWS)]).cast(pa.timestamp("us", "UTC")),
        }
    )


def live(path: str, first: int, early: bool) -> None:
    """Be the process that gets killed: append from batch `first` on, and say what was acknowledged.

    The clock of its death starts when its queries have answered something, or, if `early`, as soon
    as they are started.
    """
    import anabranch as ab

    database = ab.open(path, settings=SETTINGS)
    queries = [database.query(sql, name=name) for name, sql in QUERIES.items()]
    if not early:
        database.append("packets", packets(first), producer="chaos", batch=first)
        print(first, flush=True)
        first += 1
        for query in queries:
            query.wait(120)
    print("ready", flush=True)
    for batch in range(first, first + 1_000_000):
        database.append("packets", packets(batch), producer="chaos", batch=batch)
        print(batch, flush=True)
        time.sleep(0.02)


def run(rounds: int, seed: int, place: Path, say: bool = False) -> dict[str, int]:
    """Kill and resume, then check everything; gives what was counted."""
    import anabranch as ab

    path = str(place / "river")
    with ab.open(path, queries=False) as database:
        database.sql(PACKETS)
    source = random.Random(seed)
    acknowledged, seen = -1, dict.fromkeys(QUERIES, 0)
    for number in range(rounds):
        alone, early = source.random() < 0.5, source.random() < 0.25
        delay = source.uniform(0.0, 4.0)
        acknowledged = max(acknowledged, _one_life(path, acknowledged + 1, delay, alone, early))
        with ab.open(path, queries=False) as database:
            for name in QUERIES:
                with contextlib.suppress(ab.AnabranchError):
                    count = database.reader(name).end().row
                    assert count >= seen[name], f"{name}: answers were lost"
                    seen[name] = count
        if say:
            how = f"{'alone' if alone else 'with its JVM'}, {'early, ' if early else ''}after {delay:.1f} s"
            rows = (acknowledged + 1) * ROWS
            print(f"round {number + 1}/{rounds}: killed {how}; {rows} rows acknowledged, answers {seen}", flush=True)
    return _check(path, acknowledged)


def _one_life(path: str, first: int, delay: float, alone: bool, early: bool) -> int:
    """Start the process, let it live for a while after it is ready, kill it; the last acknowledged batch."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", "--live", path, "--first", str(first), *(["--early"] if early else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    timer = None
    last = first - 1
    try:
        for line in process.stdout:
            word = line.strip()
            if word == "ready":
                timer = threading.Timer(delay, _kill, (process.pid, alone))
                timer.start()
            elif word.isdigit():
                assert int(word) == last + 1
                last = int(word)
        process.wait()
        assert timer is not None, f"the process died by itself, see {path}/spark.log"
    finally:
        if timer is not None:
            timer.join()
        _kill(process.pid, alone=False)
        process.wait()
    return last


def _kill(pid: int, alone: bool) -> None:
    # The JVM and its workers have process groups of their own.
    victims = [pid] if alone else [pid, *descendants(pid)]
    for victim in victims:
        with contextlib.suppress(ProcessLookupError):
            kill(victim)


def _check(path: str, acknowledged: int) -> dict[str, int]:
    import anabranch as ab

    with ab.open(path, settings=SETTINGS) as database:
        for name in QUERIES:
            database.get_query(name).wait(120)
        return check_answers(database, acknowledged)


def check_answers(database: Database, acknowledged: int) -> dict[str, int]:
    """Every row and every answer, exactly once, as a recomputation gives them."""
    reader = database.reader("packets")
    rows = reader.read(0, reader.end().row)
    answers = {name: database.get_query(name).table() for name in QUERIES}
    ids = rows.column("id").to_pylist()
    assert ids == list(range(len(ids))), "a row is missing or came twice"
    assert len(ids) >= (acknowledged + 1) * ROWS, "an acknowledged row is missing"
    whole = pa.concat_tables([packets(b) for b in range(len(ids) // ROWS)])
    assert rows.equals(whole.cast(rows.schema)), "a row has changed"
    big = rows.filter(pc.greater(rows["length"], 900))
    assert answers["big"]["id"].to_pylist() == big["id"].to_pylist()
    assert answers["big"]["twice"].to_pylist() == [2 * x for x in big["length"].to_pylist()]
    names = [(i, "K" + k[1:]) for i, k in zip(ids, rows["key"].to_pylist(), strict=True) if i % 100 == 0]
    found = list(zip(answers["spark_side"]["id"].to_pylist(), answers["spark_side"]["name"].to_pylist(), strict=True))
    assert found == names
    _check_load(rows, answers["load"])
    _check_again(big, answers["again"])
    return {"rows": len(ids), **{name: table.num_rows for name, table in answers.items()}}


def _check_load(rows: pa.Table, answer: pa.Table) -> None:
    """Every complete window, each group once, in order of window and key."""
    times = rows["ts"].cast(pa.int64()).to_pylist()
    keys, lengths, speeds = (rows[c].to_pylist() for c in ("key", "length", "speed"))
    counts: Counter[tuple[int, str]] = Counter()
    totals: Counter[tuple[int, str]] = Counter()
    speed: dict[tuple[int, str], float] = {}
    for t, key, length, fast in zip(times, keys, lengths, speeds, strict=True):
        end = (t // SLIDE_US + 1) * SLIDE_US
        while end <= min(t + WINDOW_US, times[-1]):
            counts[end, key] += 1
            totals[end, key] += length
            speed[end, key] = speed.get((end, key), 0.0) + fast
            end += SLIDE_US
    expected = sorted(counts)
    got = list(zip(answer["_time"].cast(pa.int64()).to_pylist(), answer["key"].to_pylist(), strict=True))
    assert got == expected
    assert answer["n"].to_pylist() == [counts[k] for k in expected]
    assert answer["total"].to_pylist() == [totals[k] for k in expected]
    for k, value in zip(expected, answer["speed"].to_pylist(), strict=True):
        assert abs(value - speed[k] / counts[k]) < 1e-9


def _check_again(big: pa.Table, answer: pa.Table) -> None:
    """The chained query: tumbling windows of 4 s over the answers of `big`."""
    windows: dict[int, list[int]] = {}
    for t, i in zip(big["ts"].cast(pa.int64()).to_pylist(), big["id"].to_pylist(), strict=True):
        windows.setdefault((t // 4_000_000 + 1) * 4_000_000, []).append(i)
    got = answer.to_pylist()
    for row, end in zip(got, sorted(windows), strict=False):
        assert (row["n"], row["newest"]) == (len(windows[end]), windows[end][-1])
    assert len(windows) - 2 <= len(got) <= len(windows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--live", help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--early", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.live:
        live(options.live, options.first, options.early)
        return 0
    with tempfile.TemporaryDirectory(prefix="anabranch-chaos-") as place:
        counted = run(options.rounds, options.seed, Path(place), say=True)
    print(f"all right after {options.rounds} kills: {counted}")
    with tempfile.TemporaryDirectory(prefix="anabranch-archive-chaos-") as place:
        counted = archive_chaos.run(options.rounds, options.seed, Path(place), say=True)
    print(f"archives are all right after {options.rounds} kills: {counted}")
    from tests import chaos_engine, chaos_members, chaos_views

    with tempfile.TemporaryDirectory(prefix="anabranch-members-chaos-") as place:
        members = chaos_members.run(options.rounds, options.seed, Path(place))
    print(f"members of a host are all right after {options.rounds} kills: {members}")
    with tempfile.TemporaryDirectory(prefix="anabranch-views-chaos-") as place:
        views = chaos_views.run(options.rounds, options.seed, Path(place))
    print(f"views are all right after {options.rounds} kills: {views}")
    for what in chaos_engine.WHATS:
        with tempfile.TemporaryDirectory(prefix="anabranch-engine-chaos-") as place:
            told = chaos_engine.run(options.rounds, options.seed, Path(place), what)
        print(f"all right after {options.rounds} kills of a {what} alone: {told}")
    from tests import chaos_damage

    for kind in chaos_damage.HARM:
        with tempfile.TemporaryDirectory(prefix="anabranch-damage-chaos-") as place:
            met = chaos_damage.run(kind, options.rounds, options.seed, Path(place), say=True)
        print(f"{kind}: right, or told by name, {options.rounds} times: {dict(met)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

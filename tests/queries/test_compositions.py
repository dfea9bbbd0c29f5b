"""Standing queries that are put together of several questions, against their definition in DuckDB.

However rows come, are cut into micro-batches, repeated and forgotten: the whole answer of each window, rows that stay
in the order of their time, and what has changed by the end of each period.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.sampling import SEED, sampled
from tests.sql.trees.evaluated import connect

MINUTE = 60_000_000
START = 1_767_225_600_000_000  # 2026-01-01, in µs
Rows = dict[str, list[dict[str, Any]]]
WAYS = {
    "plain": Unkindness(),
    "forgetful": Unkindness(forget=True),
    "repeated": Unkindness(replay=True),
    "faulty": Unkindness(faults=True),
}


def some_rows(seed: int, count: int = 60) -> Rows:
    """Rows of two streams, with silences, of which some are NULL."""
    draw = random.Random(f"{SEED} {seed}")

    def of_stream(value: str, time: str) -> list[dict[str, Any]]:
        at, rows = START, []
        for _ in range(count):
            at += draw.choice([0, 0, 7, 20, 61, 200]) * 1_000_000
            k, v = (None if draw.random() < 0.1 else draw.randrange(n) for n in (4, 9))
            rows.append({"k": k, value: v, time: at})
        return rows

    return {"s": of_stream("v", "ts"), "r": of_stream("w", "at_")}


SCHEMAS = {
    "s": pa.schema([("k", pa.int32()), ("v", pa.int32()), ("ts", pa.timestamp("us", "UTC"))]),
    "r": pa.schema([("k", pa.int32()), ("w", pa.int32()), ("at_", pa.timestamp("us", "UTC"))]),
}
TIMES = {"s": "ts", "r": "at_"}
DUCK = connect({})


def made(path: Path, query: str, rows: Rows, seed: int, way: str) -> Iterator[SparklessDatabase]:
    """A database that runs the query as `q`, after each of some pieces of the rows."""
    draw = random.Random(f"{SEED} {seed} {way}")
    with SparklessDatabase(path, unkindness=WAYS[way]) as db:
        db.sql("CREATE STREAM s (k INT, v INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.sql("CREATE STREAM r (k INT, w INT, at_ TIMESTAMP) TIMESTAMP BY at_")
        left = {name: pa.Table.from_pylist(of_stream, SCHEMAS[name]) for name, of_stream in rows.items()}
        if draw.random() < 0.5:
            db.append("s", left["s"].slice(0, 20))
            left["s"] = left["s"].slice(20)
        db.sql(f"CREATE CONTINUOUS QUERY q AS {query}")
        while any(table.num_rows for table in left.values()):
            for name in draw.sample(list(left), draw.randint(1, 2)):
                count = draw.choice([1, 3, 10, 60])
                db.append(name, left[name].slice(0, count))
                left[name] = left[name].slice(count)
            db.catch_up()
            yield db


def asked(query: str, rows: Rows) -> Counter[tuple[Any, ...]]:
    """What a SELECT without windows gives over some rows."""
    for name, of_stream in rows.items():
        DUCK.register(name, pa.Table.from_pylist(of_stream, SCHEMAS[name]))
    return bag(DUCK.sql(query).to_arrow_table())


def bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def reached(rows: Rows) -> int:
    return min(int(of_stream[-1][TIMES[name]]) for name, of_stream in rows.items())


def read_by(query: str, rows: Rows) -> Rows:
    """The rows of the streams that a query reads."""
    return {name: some for name, some in rows.items() if re.search(rf"(FROM|JOIN) {name}\b", query)}


def before(rows: Rows, end: int, since: int = 0) -> Rows:
    return {name: [row for row in of_stream if since <= row[TIMES[name]] < end] for name, of_stream in rows.items()}


# -- windows ---------------------------------------------------------------------------------------

WINDOW = "WINDOW = INTERVAL {size} SECONDS SLIDE INTERVAL {slide} SECONDS"
LOADS = ("SELECT k, count(*) AS n, sum(v) AS total FROM s {w} GROUP BY k",
         "SELECT k, count(*) AS n, min(w) AS least FROM r {w} WHERE w > 2 GROUP BY k HAVING count(*) > 1")  # fmt: skip
OF_WINDOWS = {
    "scalar": "WITH l AS ({0}) SELECT k, n FROM l WHERE n >= (SELECT avg(n) FROM l)",
    "left": "SELECT a.k, a.n, b.least FROM ({0}) a LEFT JOIN ({1}) b ON a.k = b.k",
    "full": "SELECT a.k AS k, b.k AS j, a.n - b.n AS d FROM ({0}) a FULL JOIN ({1}) b ON a.k = b.k",
    "right_unequal": "SELECT a.k, b.n FROM ({0}) a RIGHT JOIN ({1}) b ON a.k = b.k AND a.n > b.n",
    "in": "SELECT k, n FROM ({0}) a WHERE k IN (SELECT k FROM ({1}) b)",
    "not_in": "SELECT k, n FROM ({0}) a WHERE k NOT IN (SELECT k FROM ({1}) b)",
    "not_in_about": "SELECT k, n FROM ({0}) a WHERE n NOT IN (SELECT b.n FROM ({1}) b WHERE b.k = a.k)",
    "not_exists": "SELECT k, n FROM ({0}) a WHERE NOT EXISTS (SELECT 1 FROM ({1}) b WHERE b.n > a.n)",
    "counts": "SELECT count(*) AS n, sum(n) AS s FROM ({1}) b WHERE least > 3",
    "counts_of_both": "SELECT (SELECT count(*) FROM ({0}) a) AS n, (SELECT max(n) FROM ({1})) AS m, k FROM ({1})",
    "about_others": "WITH l AS ({0}) SELECT k FROM l a WHERE (SELECT count(*) FROM l b WHERE b.n < a.n) > 1",
    "cube": "SELECT k, n, count(*) AS c FROM ({0}) a GROUP BY CUBE (k, n)",
    "top": "SELECT k, total FROM ({0}) a ORDER BY total DESC, k LIMIT 2",
    "ranked": "SELECT k, n, rank() OVER (ORDER BY n DESC) AS p, sum(n) OVER (ORDER BY k) AS run FROM ({0}) a",
    "sets": "{0} UNION {0} EXCEPT SELECT k, n, least FROM ({1}) b",
    "all_of_three": "SELECT k FROM ({0}) a UNION ALL SELECT k FROM ({1}) b UNION ALL SELECT n FROM ({0}) c",
    "crossed": "SELECT a.k, b.k AS j FROM ({0}) a, ({1}) b",
}  # fmt: skip
SIZES = [(60, 60), (180, 60), (30, 90)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", sampled(OF_WINDOWS, 6, "windows"))
def test_the_whole_answer_of_each_window_is_given_once_it_is_over(name: str, way: str, tmp_path: Path) -> None:
    template = OF_WINDOWS[name]
    seed = list(OF_WINDOWS).index(name)
    size, slide = SIZES[seed % len(SIZES)]
    rows = some_rows(seed)
    said = WINDOW.format(size=size, slide=slide)
    query, plain = (template.format(*(part.format(w=w) for part in LOADS)) for w in (said, ""))
    parts = [part for part in LOADS if part.format(w=said) in query]
    *_, db = made(tmp_path / "db", query, rows, seed, way)
    rows = read_by(query, rows)
    answer = db.get_query("q").table()
    ends = [int(end) for end in answer.column("_time").cast(pa.int64()).to_pylist()]
    assert ends == sorted(ends)
    there = answer.drop_columns("_time")
    step = slide * 1_000_000
    for end in range(START // step * step + step, reached(rows) + 1, step):
        window = before(rows, end, end - size * 1_000_000)
        any_part = any(asked(part.format(w=""), window) for part in parts)
        wanted = asked(plain, window) if any_part else Counter()
        assert bag(there.filter(pa.array([e == end for e in ends], pa.bool_()))) == wanted, end
    assert all(end % step == 0 and end <= reached(rows) for end in ends)


def test_rows_of_a_window_stand_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    said = WINDOW.format(size=300, slide=300)
    query = f"SELECT k, n FROM ({LOADS[0].format(w=said)}) a ORDER BY n DESC, 1"
    rows = some_rows(3)
    *_, db = made(tmp_path / "db", query, rows, 3, "plain")
    for _, group in itertools.groupby(db.get_query("q").table().to_pylist(), lambda row: row["_time"]):
        some = list(group)
        keys = [(-row["n"], -1 if row["k"] is None else row["k"]) for row in some]
        assert keys == sorted(keys)


# -- rows ------------------------------------------------------------------------------------------

OF_ROWS = {
    "union": ("SELECT k, v FROM s UNION ALL SELECT k, w FROM r", False),
    "own_time": ("SELECT k, ts FROM s WHERE v > 3 UNION ALL SELECT w, at_ FROM r", False),
    "of_one": ("SELECT k, v FROM s UNION ALL SELECT v, k FROM s WHERE k > 1", True),
    "nested": ("WITH x AS (SELECT k, v + 1 AS v FROM s) SELECT v * 2 AS u FROM x WHERE v > 3", True),
    "different": ("SELECT DISTINCT k FROM (SELECT k FROM s UNION ALL SELECT w FROM r)", False),
    "different_of_one": ("SELECT DISTINCT k, v FROM s", True),
    "joined": ("SELECT a.k, v, w FROM s a JOIN r b ON a.k = b.k AND v < w", False),
    "met": ("SELECT k, v FROM s WHERE k IN (SELECT w FROM r WHERE k > 1)", False),
    "met_by_itself": ("SELECT k, v FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE b.v = a.k)", True),
    "met_of_three": ("SELECT x.k FROM (SELECT k FROM s UNION SELECT k FROM r) x WHERE k IN (SELECT v FROM s)", False),
}


@pytest.mark.parametrize("name", sampled(OF_ROWS, 6, "rows"))
def test_rows_that_stay_are_the_same_however_they_come(name: str, tmp_path: Path) -> None:
    query, of_one = OF_ROWS[name]
    rows = some_rows(list(OF_ROWS).index(name))
    answers = []
    for way in WAYS:
        for db in made(tmp_path / way, f"{query} ACCEPT UNBOUNDED", rows, 1, way):
            answer = db.get_query("q").table()
        answers.append(answer)
    first = answers[0]
    assert all(answer.equals(first) for answer in answers), "row for row"
    time = "ts" if "ts" in first.column_names else "_time"
    times = first.column(time).cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    last = reached(rows)
    wanted = asked(query, rows if of_one else before(rows, last))
    assert bag(first if time == "ts" else first.drop_columns("_time")) == wanted
    half = times[len(times) // 2]
    by_then = first.filter(pa.array([at < half for at in times], pa.bool_()))
    assert bag(by_then if time == "ts" else by_then.drop_columns("_time")) == asked(query, before(rows, half))


# -- changes ---------------------------------------------------------------------------------------

CHANGING = {
    "groups": "SELECT k, count(*) AS n, min(v) AS least FROM s GROUP BY k",
    "one_row": "SELECT count(*) AS n, sum(w) AS w FROM r",
    "left": "SELECT s.k, v, w FROM s LEFT JOIN r ON s.k = r.k AND v = w",
    "except": "SELECT k FROM s EXCEPT SELECT w FROM r",
    "top": "SELECT k, v FROM s ORDER BY v DESC, k LIMIT 4",
}


def added_up(table: pa.Table) -> Counter[tuple[Any, ...]]:
    rows: Counter[tuple[Any, ...]] = Counter()
    shown = [name for name in table.column_names if name not in ("_change", "_version", "_time", "_number")]
    for row in table.to_pylist():
        rows[tuple(row[name] for name in shown)] += 1 if row["_change"] in ("insert", "update_after") else -1
    assert all(count >= 0 for count in rows.values())
    return +rows


@pytest.mark.parametrize("name", CHANGING)
def test_an_answer_that_changes_is_its_store_after_each_piece(name: str, tmp_path: Path) -> None:
    rows = some_rows(list(CHANGING).index(name))
    for db in made(tmp_path / "db", f"{CHANGING[name]} ACCEPT UNBOUNDED", rows, 2, "faulty"):
        taken = {stream: of_stream[: db.reader(stream).end().row] for stream, of_stream in rows.items()}
        query = db.get_query("q")
        taken = read_by(CHANGING[name], taken)
        if any(taken.values()):
            assert bag(query.store()) == asked(CHANGING[name], taken)
            assert added_up(query.table()) == asked(CHANGING[name], taken)


@pytest.mark.parametrize("expiring", [None, 150])
@pytest.mark.parametrize("name", CHANGING)
def test_once_a_period_it_is_answered_what_has_changed(name: str, expiring: int | None, tmp_path: Path) -> None:
    rows = some_rows(list(CHANGING).index(name) + 7)
    every = 120_000_000
    bound = f"EXPIRE AFTER INTERVAL {expiring} SECONDS" if expiring else "ACCEPT UNBOUNDED"
    answers = []
    for way in WAYS:
        *_, db = made(tmp_path / way, f"{CHANGING[name]} {bound} EMIT EVERY INTERVAL 2 MINUTES", rows, 3, way)
        answers.append(db.get_query("q").table())
    changes = answers[0]
    assert all(answer.equals(changes) for answer in answers), "row for row"
    times = changes.column("_time").cast(pa.int64()).to_pylist()
    rows = read_by(CHANGING[name], rows)
    last = reached(rows)
    for end in range(START // every * every + every, last + 1, every):
        since = end - expiring * 1_000_000 if expiring else 0
        there = before(rows, end, since)
        some = changes.filter(pa.array([time <= end for time in times], pa.bool_()))
        wanted = asked(CHANGING[name], there) if any(before(rows, end).values()) else Counter()
        assert added_up(some) == wanted, end
    assert all(time % every == 0 for time in times)

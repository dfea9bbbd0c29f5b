"""Babu, S. and Widom, J. (2001). Continuous Queries over Data Streams, sections 4.1 and 4.3.1: scenarios (1) to (4).

What each of them holds in Stream, Store, Scratch and Throw. Ours are as in the paper, but for one thing that its
footnote 1 allows for: Stream also takes what is deleted and updated, so an answer that changes is streamed, too, and
Store is what Stream comes to.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from anabranch.queries.query import Query
from anabranch.testing.sparkless import SparklessDatabase

Rows = list[dict[str, Any]]
STREAM = "CREATE STREAM s (k INT, v INT, ts TIMESTAMP) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SparklessDatabase]:
    with SparklessDatabase(tmp_path / "db") as database:
        yield database


def appended(db: SparklessDatabase, first: int, count: int) -> Rows:
    chance = random.Random(first)
    rows = [
        {"k": chance.randrange(5), "v": chance.randrange(100), "ts": f"2026-01-01 00:{i // 60:02d}:{i % 60:02d}"}
        for i in range(first, first + count)
    ]
    db.append("s", rows)
    db.catch_up()
    return rows


def held(query: Query) -> dict[str, int]:
    stats = query.stats()
    return {part: stats[part]["rows"] for part in ("stream", "store", "scratch", "throw")}


def test_scenario_1_the_current_answer_of_a_selection_is_stored_and_scratch_is_empty(db: SparklessDatabase) -> None:
    db.sql(STREAM)
    db.sql("CREATE MATERIALIZED VIEW a AS SELECT k, v, ts FROM s WHERE v > 50 ACCEPT UNBOUNDED")
    rows = appended(db, 0, 200)
    answer = [row for row in rows if row["v"] > 50]
    assert db.table("a").num_rows == len(answer)  # Store: of unbounded size
    parts = held(db.view("a").query)
    assert (parts["store"], parts["throw"]) == (len(answer), len(rows) - len(answer))


def test_scenario_2_the_answer_of_a_selection_is_a_stream_and_store_is_empty(db: SparklessDatabase) -> None:
    db.sql(STREAM)
    query = db.query("SELECT k, v, ts FROM s WHERE v > 50")
    rows = appended(db, 0, 200)
    answer = [row for row in rows if row["v"] > 50]
    throw = len(rows) - len(answer)
    assert held(query) == {"stream": len(answer), "store": 0, "scratch": 0, "throw": throw}


def test_scenario_2_a_self_join_needs_scratch_without_bound(db: SparklessDatabase) -> None:
    """So it is refused until someone accepts that; then all rows are kept, and what is answered stays."""
    db.sql(STREAM)
    join = "SELECT a.v AS v, b.v AS w FROM s a JOIN s b ON a.k = b.k AND a.ts < b.ts"
    with pytest.raises(Exception, match="STATE_UNBOUNDED"):
        db.sql(f"CREATE MATERIALIZED VIEW j AS {join}")
    query = db.query(f"{join} EMIT CHANGES ACCEPT UNBOUNDED")
    scratches = []
    rows: Rows = []
    for first in (0, 50, 100):
        rows += appended(db, first, 50)
        scratches.append(held(query)["scratch"])
    pairs = sum(a["k"] == b["k"] and a["ts"] < b["ts"] for a in rows for b in rows)
    assert held(query)["stream"] == pairs
    assert set(query.table().column("_change").to_pylist()) == {"insert"}
    assert scratches[0] >= 50
    assert scratches == sorted(set(scratches))


def test_scenario_3_an_answer_changes_though_the_stream_only_grows(db: SparklessDatabase) -> None:
    """`min` is monotonic for insertions: what is kept is one row for each group, whatever comes."""
    db.sql(STREAM)
    db.sql("CREATE MATERIALIZED VIEW a AS SELECT k, min(v) AS v FROM s GROUP BY k ACCEPT UNBOUNDED")
    query = db.view("a").query
    rows: Rows = []
    for first in range(0, 500, 100):
        rows += appended(db, first, 100)
        least = {k: min(row["v"] for row in rows if row["k"] == k) for k in range(5)}
        assert {row["k"]: row["v"] for row in db.table("a").to_pylist()} == least
    parts = held(query)
    assert parts["store"] == 5
    assert parts["scratch"] <= 10  # no rows of the stream, of which there are 500
    changes = query.table().column("_change").to_pylist()
    assert {"update_before", "update_after"} <= set(changes)
    assert "delete" not in changes


def test_scenario_4_min_under_deletion_needs_the_values_that_are_there(db: SparklessDatabase) -> None:
    db.sql("CREATE TABLE t (n INT PRIMARY KEY, k INT, v INT)")
    db.sql("CREATE MATERIALIZED VIEW a AS SELECT k, min(v) AS v FROM t GROUP BY k")
    query = db.view("a").query
    chance = random.Random(4)
    model = {n: (n % 5, chance.randrange(1000)) for n in range(300)}
    db.upsert("t", [{"n": n, "k": k, "v": v} for n, (k, v) in model.items()])
    db.catch_up()
    assert held(query)["scratch"] >= 250  # different values of groups, not five minima
    while model:
        # The least of each group goes, so another has to be found.
        gone = {}
        for n, (k, v) in sorted(model.items(), key=lambda row: -row[1][1]):
            gone[k] = (n, v)
        going = [n for n, _ in gone.values()] + chance.sample(sorted(model), len(model) // 3)
        db.delete("t", {"n": sorted(set(going))})
        model = {n: row for n, row in model.items() if n not in going}
        db.catch_up()
        groups = {k for k, _ in model.values()}
        least = {k: min(v for of, v in model.values() if of == k) for k in groups}
        assert {row["k"]: row["v"] for row in db.table("a").to_pylist()} == least
    parts = held(query)
    assert parts["store"] == 0
    assert "delete" in query.table().column("_change").to_pylist()


def test_stream_and_store_define_the_answer_and_say_so(db: SparklessDatabase) -> None:
    """Section 4.2: what DESCRIBE QUERY tells of the four."""
    db.sql(STREAM)
    db.sql("CREATE MATERIALIZED VIEW a AS SELECT k, count(*) AS n FROM s WHERE v > 10 GROUP BY k ACCEPT UNBOUNDED")
    appended(db, 0, 100)
    told = {row["property"]: row["value"] for row in db.sql("DESCRIBE QUERY a.changes").table().to_pylist()}
    assert told["store.rows"] == "5"
    assert told["stream.why"] == "what changes of the answer"
    assert told["store.why"] == "the rows of the answer"
    assert told["scratch.why"] == "rows and totals that changes are compared with"
    assert told["throw.why"] == "rows that a step needs no more"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT k, count(*) AS n, sum(v) AS v FROM t GROUP BY k", "none are kept"),
        ("SELECT DISTINCT k + 1 AS k FROM t WHERE v > 3 UNION ALL SELECT v FROM t", "none are kept"),
        ("SELECT k, min(v) AS v FROM s GROUP BY k ACCEPT UNBOUNDED", "none are kept"),
        ("SELECT k, min(v) AS v FROM t GROUP BY k", "kept by 1 aggregate"),
        ("SELECT a.k, b.v FROM t a JOIN t b ON a.k = b.v", "kept by 2 join"),
    ],
)
def test_a_view_that_maintains_itself_keeps_no_base_rows_and_says_so(
    db: SparklessDatabase, query: str, said: str
) -> None:
    """Section 4.3.4: self-maintenance."""
    db.sql(STREAM)
    db.sql("CREATE TABLE t (n INT PRIMARY KEY, k INT, v INT)")
    plan = db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW a AS {query}").table().column("plan").to_pylist()
    assert f"   rows of what it reads: {said}" in "\n".join(plan)
    db.sql(f"CREATE MATERIALIZED VIEW a AS {query}")
    db.upsert("t", [{"n": n, "k": n % 3, "v": n} for n in range(300)])
    appended(db, 0, 300)
    kept = held(db.view("a").query)["scratch"]
    assert (kept <= db.table("a").num_rows + 3) == (said == "none are kept")


def test_each_step_says_what_it_has_done_with_what_came(db: SparklessDatabase) -> None:
    """Section 4.2: the six actions, of each step."""
    db.sql(STREAM)
    db.sql("CREATE TABLE names (k INT PRIMARY KEY, name STRING)")
    db.sql("""CREATE MATERIALIZED VIEW a AS SELECT n.name, count(*) AS n FROM s JOIN names n ON s.k = n.k
        WHERE s.v > 10 GROUP BY n.name EXPIRE AFTER INTERVAL 1 MINUTE""")
    db.upsert("names", [{"k": k, "name": f"name {k}"} for k in range(4)])
    wanted = [row for row in appended(db, 0, 200) if row["v"] > 10]
    late = [row for row in wanted if row["ts"] >= "2026-01-01 00:02:19"]
    old = len(wanted) - len(late)
    steps = {step["does"].split(" ")[0]: step for step in db.view("a").query.stats()["steps"].values()}

    expired = steps["expire"]
    assert expired["actions"] == ["ii", "iv", "v"]  # all came at once: the old ones were never remembered
    assert expired["throw"] == {"rows": old, "why": "they have expired"}
    assert expired["scratch"]["rows"] == len(late)

    joined = steps["inner"]
    assert joined["store"]["rows"] == sum(row["k"] < 4 for row in late)
    assert joined["scratch"]["bound"]
    assert steps["aggregate"]["actions"] == ["ii", "iv", "v"]  # rows are in the counts of their group
    assert steps["aggregate"]["store"] == {"rows": 4}

    db.advance("s", datetime(2026, 1, 1, 0, 10, tzinfo=UTC))
    db.catch_up()
    steps = {step["does"].split(" ")[0]: step for step in db.view("a").query.stats()["steps"].values()}
    assert steps["expire"]["actions"] == ["ii", "iii", "v", "vi"]  # in silence all that was remembered went
    assert steps["expire"]["throw"]["rows"] == len(wanted)
    assert steps["aggregate"]["store"] == {"rows": 0}
    assert steps["aggregate"]["actions"] == ["ii", "iii", "v"]
    told = {row["property"]: row["value"] for row in db.sql("DESCRIBE QUERY a.changes").table().to_pylist()}
    assert any(
        name.startswith("step ") and f"Throw {len(wanted)} rows (they have expired); (ii) (iii) (v) (vi)" in said
        for name, said in told.items()
    )


Q1 = "SELECT sum(length) AS load FROM ptb GROUP BY getminute(ts) HAVING sum(length) > 5000"
Q2 = (
    "SELECT (SELECT count(*) FROM ptc AS C, ptb AS B WINDOW = INTERVAL 10 SECONDS WHERE C.saddr = B.saddr AND "
    "C.daddr = B.daddr AND C.id = B.id) / (SELECT count(*) FROM ptb) AS fraction EMIT EVERY INTERVAL 1 MINUTE"
)
Q3 = """
WITH load AS (SELECT saddr, daddr, sum(length) AS traffic FROM ptb WINDOW = INTERVAL 1 MINUTE GROUP BY saddr, daddr)
SELECT saddr, daddr, traffic FROM load AS l1
WHERE (SELECT count(*) FROM load AS l2 WHERE l2.traffic < l1.traffic) > (SELECT 0.95 * count(*) FROM load)
ORDER BY traffic
"""


def test_the_three_queries_of_section_3_stand_as_they_are_printed(db: SparklessDatabase) -> None:
    """Q1, Q2 and Q3: of each minute the whole answer, once, when it is over; windows are all that was added."""
    for link in ("ptc", "ptb"):
        db.sql(f"CREATE STREAM {link} (saddr STRING, daddr STRING, id INT, length INT, ts TIMESTAMP) TIMESTAMP BY ts")
    queries = {name: db.query(text, name=name) for name, text in (("q1", Q1), ("q2", Q2), ("q3", Q3))}
    chance = random.Random(3)
    packets: Rows = [
        {"saddr": f"10.0.0.{chance.randrange(9)}", "daddr": f"10.1.0.{chance.randrange(9)}", "id": i,
         "length": chance.randrange(40, 1500), "ts": f"2026-01-01 00:{i // 60:02d}:{i % 60:02d}"}
        for i in range(600)
    ]  # fmt: skip
    for first in range(0, 600, 70):
        some = packets[first : first + 70]
        db.append("ptb", some)
        db.append("ptc", some[:: 1 if first % 3 else 2])
        db.catch_up()
    answers = {name: query.table().to_pylist() for name, query in queries.items()}
    top: list[tuple[dict[str, Any], int]] = []
    loads = []
    for minute in range(9):
        traffic: dict[tuple[str, str], int] = {}
        for packet in packets[minute * 60 : minute * 60 + 60]:
            pair = (packet["saddr"], packet["daddr"])
            traffic[pair] = traffic.get(pair, 0) + packet["length"]
        loads.append(sum(traffic.values()))
        most = [pair for pair, sent in traffic.items() if sum(o < sent for o in traffic.values()) > 0.95 * len(traffic)]
        top += [
            ({"saddr": pair[0], "daddr": pair[1], "traffic": traffic[pair]}, minute + 1)
            for pair in sorted(most, key=lambda pair: traffic[pair])
        ]
    assert [row["load"] for row in answers["q1"]] == loads
    columns = ("saddr", "daddr", "traffic")
    stamped = [({name: row[name] for name in columns}, row["_time"].minute) for row in answers["q3"]]
    assert stamped == top
    assert len(answers["q2"]) >= 8
    parts = held(queries["q3"])
    assert parts["store"] == sum(minute == 9 for _, minute in top)
    assert queries["q3"].stats()["stream"]["why"] == "answers that stay true"

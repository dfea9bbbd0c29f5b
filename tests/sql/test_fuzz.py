"""Whatever is typed, the answer is statements or an error of ours."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError
from anabranch.sql import is_complete, parse, plan_once, plan_standing
from anabranch.sql.statements import CreateQuery, SelectOnce
from tests.sampling import examples
from tests.sql.conftest import find_stream

VALID = [
    "CREATE STREAM packets (saddr STRING, id BIGINT, ts TIMESTAMP) TIMESTAMP BY ts ALLOW SKEW INTERVAL 2 SECONDS",
    "CREATE CONTINUOUS QUERY q AS SELECT saddr, count(*) AS n FROM packets WINDOW = INTERVAL 1 MINUTE GROUP BY saddr",
    "INSERT INTO s (a, b) VALUES (1, 'it''s'), (CAST('5' AS INT), TIMESTAMP '2026-01-01 00:00:00')",
    "SELECT sum(length) AS load FROM PTb GROUP BY getminute(ts) HAVING sum(length) > 1000000",
    "WITH a AS (SELECT id FROM packets) SELECT * FROM a JOIN packets p ON a.id = p.id ORDER BY 1 LIMIT 3",
    "SELECT saddr, length * 2 AS l FROM packets WHERE length BETWEEN 1 AND 9 AND saddr LIKE 'a%'",
    "EXPLAIN FORMAT JSON SELECT `a b.c``d` FROM logins",
    "SUBSCRIBE TO q FROM 12; DROP STREAM IF EXISTS s; DESCRIBE QUERY q",
    "SELECT saddr, percentile_cont(0.5) WITHIN GROUP (ORDER BY length) AS m, count(DISTINCT id) FROM packets "
    "WINDOW = 9 ROWS SLIDE 3 ROWS GROUP BY saddr ORDER BY m DESC NULLS LAST, 1 LIMIT 3 EMIT CHANGES",
    "SELECT /*+ INDEX(T), RING(DB) */ * FROM packets WINDOW = INTERVAL 1 DAY WHERE id > 1 ORDER BY length LIMIT 9",
    "SELECT DISTINCT saddr AS a, id FROM packets WINDOW = INTERVAL 1 HOUR EXCEPT ALL SELECT daddr, length FROM ptb "
    "WINDOW = INTERVAL 1 HOUR WHERE length < 9 EMIT FINAL",
    "SELECT a.*, b.id AS other FROM packets a JOIN ptb b ON a.id = b.id, logins c WINDOW(a, b) = BETWEEN - INTERVAL 5 "
    "SECONDS AND 0 AND WINDOW(b, c) = INTERVAL 1 HOUR WHERE a.length > 3 WITH (memory = '1 MB', shed = 'oldest') "
    "EMIT IN ORDER",
    "SELECT a.saddr, sum(b.length) AS s FROM packets a, ptb b WINDOW = 9 ROWS WHERE a.id = b.id GROUP BY a.saddr "
    "HAVING s > 3 EMIT EVERY INTERVAL 1 MINUTE",
    "SELECT (SELECT count(*) FROM packets a, ptb b WINDOW = INTERVAL 1 SECOND WHERE a.id = b.id) / (SELECT count(*) "
    "FROM ptb) AS f, window_end EMIT EVERY INTERVAL 1 MINUTE",
    "SELECT a.*, b.id AS other FROM packets a LEFT MERGE JOIN ptb b ON within(a.id, b.id, 0.5) AND a.saddr = b.saddr "
    "FULL OUTER MERGE JOIN loads c ON within(c.window_end, a.ts, INTERVAL 1 MINUTE) WITH (algorithm = 'cgm', policy = "
    "'all', window = 50, step = 5, every = INTERVAL 1 SECOND, delta = 0.02, over = 9, memory = '1 MB') WHERE a.id > 3",
    "CREATE ARCHIVE a ON s USING windowed_aggregation EVERY INTERVAL 1 HOUR GROUP BY b, c KEEP INTERVAL 9 DAYS OPTIONS "
    "(run_rows 5); ALTER ARCHIVE ON s ADD LEVEL 20 PERCENT; VACUUM ARCHIVE s RETAIN INTERVAL 1 DAY; DROP ARCHIVE s",
    "SELECT saddr, avg(length) AS a FROM ARCHIVE b ON packets p BETWEEN TIMESTAMP '2026-01-01' AND now() - INTERVAL 1 "
    "DAY REDUCE BY by_key(saddr, 0.9) WHERE id > 3 GROUP BY saddr ORDER BY a DESC LIMIT 3 WITH ERROR 2 PERCENT "
    "CONFIDENCE 95 PERCENT",
    "SELECT p.id, _fraction FROM packets q JOIN ARCHIVE a ON packets p REDUCE BY age(INTERVAL 1 DAY) ON p.id = q.id "
    "WHERE p.id IN (SELECT id FROM ARCHIVE ptb)",
    "SELECT count(*) AS n FROM ARCHIVE packets WITHIN 500 MILLISECONDS",
    "SELECT saddr, count(*) AS n FROM packets SINCE TIMESTAMP '2026-01-01' UNTIL DATE '2026-02-01' REDUCE BY "
    "uniform(0.4) GROUP BY saddr EMIT EVERY INTERVAL 15 MINUTES WITH CONFIDENCE 90 PERCENT",
    "SELECT a.saddr, _matches FROM packets a JOIN ARCHIVE ptb b LAST 7 INTERVAL 1 DAY WITHIN INTERVAL 1 HOUR IN ANY "
    "REDUCE BY load(INTERVAL 5 SECONDS, id) ON a.id = b.id AND b.length > 3 WHERE a.length > 3",
    "SELECT CASE WHEN id = 1 THEN 'a' END, array(1, 2)[0], transform(array(1), x -> x + 1) FROM packets",
]
WORDS = """
SELECT FROM WINDOW = INTERVAL 1 MINUTE ROWS SLIDE GROUP BY ( ) , . ; ' " ` -- /* */ packets id count(*) * + - NULL
CREATE STREAM AS VALUES INSERT INTO ${x} : ? @ [ ] { } -> :: CAST( WITH UNION OVER CASE WHEN END 1e 0x \\ LATERAL
VIEW TIMESTAMP DATE JOIN ON USING EXISTS IN LIKE NOT BETWEEN AND window( getminute(ts) length ts
EMIT CHANGES FINAL DISTINCT INTERSECT EXCEPT ALL ORDER LIMIT DESC /*+ INDEX(T) STORAGE(LIST) RING(DB) median( mode(
percentile(length,0.5) window_end WITHIN WINDOW(a,b) a. b. EVERY (SELECT memory shed CROSS _time ptb
MERGE within( ANTI FULL policy='all' every=0 window=
ARCHIVE SINCE UNTIL REDUCE uniform(0.4) by_key(id,0.9) LAST 7 EACH ANY ERROR PERCENT CONFIDENCE SECONDS DROP ALTER LEVEL
"""
PIECES = st.sampled_from(WORDS.split())


def try_everything(text: str) -> None:
    is_complete(text)
    with contextlib.suppress(AnabranchError):
        for statement in parse(text):
            if isinstance(statement, SelectOnce | CreateQuery):
                for plan in (plan_standing, plan_once):
                    with contextlib.suppress(AnabranchError):
                        plan(statement.select, find_stream)


@pytest.mark.parametrize("text", VALID)
def test_the_texts_that_are_mutated_are_valid(text: str) -> None:
    assert parse(text)


@examples(300)
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    try_everything(text)


@examples(400)
@given(st.lists(PIECES, max_size=20))
def test_any_words(words: list[str]) -> None:
    try_everything(" ".join(words))


@pytest.mark.slow
@examples(600)
@given(st.sampled_from(VALID), st.data())
def test_mutated_statements(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.one_of(st.text(max_size=3), PIECES)) + text[at + cut :]
    try_everything(text)


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["(", "[", "array(", "SELECT (", "NOT ", "- ", "CASE WHEN ", "a.", "x -> "])
def test_deep_nesting_is_an_error_not_a_crash(opening: str) -> None:
    try_everything("SELECT " + opening * 3000 + "1 FROM packets")


@pytest.mark.slow
@pytest.mark.parametrize("count", [400, 1500])
def test_long_chains_are_no_crash(count: int) -> None:
    try_everything("SELECT " + " + ".join(["length"] * count) + " AS x FROM packets")
    try_everything("SELECT id FROM packets WHERE " + " OR ".join(f"id = {i}" for i in range(count)))
    try_everything("SELECT id FROM packets WHERE " + " AND ".join(f"id <> {i}" for i in range(count)))

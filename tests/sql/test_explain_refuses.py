"""EXPLAIN refuses what CREATE would refuse, in the same words, and explains what it would make."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from anabranch.errors import AnabranchError
from anabranch.testing.sparkless import SparklessDatabase

STREAMS = """
CREATE STREAM s (k STRING, v INT, d DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE STREAM t (k STRING, w INT, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE STREAM kept (k STRING, v INT, ts TIMESTAMP) TIMESTAMP BY ts;
CREATE ARCHIVE ON kept USING randomize_then_sort;
"""
MADE = [
    "SELECT k FROM s UNION ALL SELECT k FROM t",
    "WITH x AS (SELECT k, v + 1 AS v FROM s) SELECT k FROM x WHERE v > 1",
    "SELECT k, count(*) AS n FROM s GROUP BY k ACCEPT UNBOUNDED",
    "SELECT k, count(*) AS n FROM s GROUP BY k EXPIRE AFTER INTERVAL 1 HOUR EMIT EVERY INTERVAL 1 MINUTE",
    "SELECT max(n) AS n FROM (SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k)",
    "SELECT k, v FROM s WHERE v > 1",
    "SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k",
    "SELECT date_format(ts, 'yyyy-MM-dd') AS day, count(*) AS n FROM s GROUP BY day",
    "SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE ORDER BY v DESC LIMIT 3",
    "SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE ORDER BY v DESC LIMIT 3 EMIT CHANGES",
    "SELECT s.k, t.w FROM s, t WINDOW = INTERVAL 5 MINUTES WHERE s.k = t.k",
    "SELECT s.k FROM s LEFT SEMI JOIN t ON s.k = t.k WINDOW = INTERVAL 5 MINUTES",
    "SELECT s.k FROM s LEFT ANTI JOIN t ON s.k = t.k WINDOW = INTERVAL 5 MINUTES",
    "SELECT count(*) AS n FROM s, t WINDOW = INTERVAL 5 MINUTES WHERE s.k = t.k EMIT EVERY INTERVAL 1 MINUTE",
    "SELECT k, count(*) AS n FROM s SINCE TIMESTAMP '2026-01-01' GROUP BY k EMIT EVERY INTERVAL 1 MINUTE",
    "SELECT k FROM s WINDOW = INTERVAL 1 MINUTE EXCEPT SELECT k FROM t WINDOW = INTERVAL 1 MINUTE",
    "SELECT c.k, _matches FROM s c JOIN ARCHIVE kept h LAST 2 INTERVAL 1 DAY WITHIN INTERVAL 5 MINUTES ON c.k = h.k",
]
REFUSED = [
    "SELECT k FROM nowhere",
    "SELECT nothing FROM s",
    "SELECT k, count(*) AS n FROM s GROUP BY k",
    "SELECT DISTINCT k FROM s",
    "SELECT k FROM s ORDER BY k",
    "SELECT k FROM s LIMIT 3",
    "SELECT k FROM s UNION SELECT k FROM t",
    "SELECT s.k FROM s JOIN t ON s.k = t.k",
    "SELECT s.k FROM s LEFT JOIN t ON s.k = t.k WINDOW = 10 ROWS",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM t WHERE t.k = s.k)",
    "SELECT k, row_number() OVER (PARTITION BY k ORDER BY ts) AS n FROM s",
    "SELECT * FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY ts) = 1",
    "WITH x AS (SELECT k FROM s) SELECT DISTINCT k FROM x",
    "SELECT count(*) AS n FROM s SINCE TIMESTAMP '2026-01-01'",
    "SELECT first(v) AS v FROM s WINDOW = INTERVAL 1 MINUTE",
    "SELECT now() AS now, k FROM s",
    "SELECT proctime() AS now, k FROM s",
    "SELECT k, k FROM s",
    "SELECT k AS _row FROM s",
    "SELECT date_format(ts, 'yyyy-MM') AS month, count(*) AS n FROM s GROUP BY month",
    "SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MONTH GROUP BY k",
    "SELECT k FROM s WHERE v",
    "SELECT k FROM s REDUCE BY uniform(0.5)",
    "SELECT c.k FROM s c JOIN ARCHIVE t h LAST 2 INTERVAL 1 DAY WITHIN INTERVAL 5 MINUTES ON c.k = h.k",
    "SELECT k, count(*) AS n FROM TUMBLE(s, v, INTERVAL 1 MINUTE) GROUP BY k",
]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparklessDatabase]:
    database = SparklessDatabase(tmp_path_factory.mktemp("explained"))
    database.sql(STREAMS)
    yield database
    database.close()


def said(db: SparklessDatabase, text: str) -> str:
    """What is said of a statement that is refused; empty: it is not."""
    try:
        db.sql(text)
    except AnabranchError as problem:
        return str(problem)
    return ""


@pytest.mark.parametrize("query", [*MADE, *REFUSED])
def test_explain_says_what_create_would(db: SparklessDatabase, query: str) -> None:
    explained = said(db, f"EXPLAIN\n{query}")
    as_create = said(db, f"EXPLAIN CREATE CONTINUOUS QUERY q AS\n{query}")
    created = said(db, f"CREATE CONTINUOUS QUERY q AS\n{query}")
    if not created:
        db.sql("DROP QUERY q")
    assert explained == as_create == created
    assert bool(created) == (query in REFUSED)


def test_what_is_said_besides_the_select_is_looked_at_too(db: SparklessDatabase) -> None:
    for create in (
        "CREATE CONTINUOUS QUERY s AS SELECT k FROM s",
        "CREATE STREAM s AS SELECT k FROM s",
        "CREATE CONTINUOUS QUERY q AS SELECT avg(v) AS v FROM ARCHIVE kept WITH ERROR 2 PERCENT",
        "CREATE CONTINUOUS QUERY q ON HOST h AS SELECT explode(array(k)) AS k FROM s",
    ):
        explained, created = said(db, f"EXPLAIN {create}"), said(db, create)
        assert explained.partition("(")[0] == created.partition("(")[0] != "", create

"""Windows that end with a pause, and windows said in FROM: what they are read as, and what is refused."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.operators.base import Operator
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_standing
from anabranch.sql.statements import SelectOnce
from tests.sql.written_down import read_again

S = StreamSchema.of({"k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")


def plan(text: str) -> StandingPlan:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    return read_again(plan_standing(statement.select, lambda name: {"s": S, "t": S}[name]))


def operator(text: str) -> Operator:
    return plan(text).operator


SESSION = "FROM s WINDOW = SESSION INTERVAL 5 MINUTES"
SAME = [
    (
        "SELECT k, window_start, sum(v) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k",
        "SELECT k, window_start, sum(v) AS n FROM {} GROUP BY window_start, window_end, k",
        [
            "TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
            "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '60' SECONDS)",
            "TUMBLE(s, ts, INTERVAL 1 MINUTE)",
            "TABLE ( TUMBLE ( DATA => TABLE s , TIMECOL => DESCRIPTOR ( s.ts ) , SIZE => INTERVAL 1 MINUTE ) )",
            "tumble(table `s`, descriptor(`TS`), interval 1 minute)",
        ],
    ),
    (
        "SELECT k, count(*) AS n FROM s x WINDOW = INTERVAL 1 MINUTE SLIDE INTERVAL 10 SECOND WHERE x.v > 0 GROUP BY k",
        "SELECT k, count(*) AS n FROM {} AS x WHERE x.v > 0 GROUP BY k, x.window_start, x.window_end",
        [
            "TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))",
            "HOP(s, ts, SIZE => INTERVAL 1 MINUTE, SLIDE => INTERVAL 10 SECONDS)",
        ],
    ),
    (
        "SELECT k, v, max(ts) AS last FROM s WINDOW = SESSION INTERVAL 5 MINUTES GROUP BY k, v",
        "SELECT k, v, max(ts) AS last FROM {} GROUP BY k, v, window_start, window_end",
        [
            "TABLE(SESSION(TABLE s PARTITION BY k, v, DESCRIPTOR(ts), INTERVAL '5' MINUTES))",
            "SESSION(TABLE s PARTITION BY v, k, DESCRIPTOR(ts), GAP => INTERVAL '5' MINUTES)",
        ],
    ),
    (
        "SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE ORDER BY v",
        "SELECT k, v FROM {} ORDER BY v",
        ["TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE))"],
    ),
]


@pytest.mark.parametrize(
    ("said", "text"), [(said, pattern.format(call)) for said, pattern, calls in SAME for call in calls]
)
def test_a_window_in_from_is_the_plan_of_the_clause(said: str, text: str) -> None:
    assert operator(text) == operator(said)


GROUPED = [
    "SELECT k, session_window.start AS b, session_window.end AS e, sum(v) AS n FROM s "
    "GROUP BY k, session_window(ts, '5 minutes')",
    "SELECT k, SESSION_START(ts, INTERVAL '5' MINUTE) AS b, SESSION_END(ts, INTERVAL '5' MINUTE) AS e, sum(v) AS n "
    "FROM s GROUP BY k, SESSION(ts, INTERVAL '5' MINUTE)",
    "SELECT k, window_start AS b, window_end AS e, sum(v) AS n FROM s GROUP BY session_window(ts, '300 seconds'), 1",
]


@pytest.mark.parametrize("text", GROUPED)
def test_a_session_in_group_by_is_the_plan_of_the_clause(text: str) -> None:
    said = f"SELECT k, window_start AS b, window_end AS e, sum(v) AS n {SESSION} GROUP BY k"
    assert operator(text) == operator(said)


REFUSED = [
    (f"SELECT k {SESSION}", "sessions are for groups and aggregates over one stream"),
    ("SELECT s.k FROM s, t WINDOW = SESSION INTERVAL 1 MINUTE WHERE s.k = t.k", "sessions are for groups"),
    (f"SELECT k {SESSION} EXCEPT SELECT k {SESSION}", "sessions are for groups and aggregates over one stream"),
    (
        "SELECT k, count(*) AS n FROM s GROUP BY k, session_window(ts, '5 minutes') "
        "UNION SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k",
        "sessions cannot be compared with other windows",
    ),
    (f"SELECT k, median(v) AS m {SESSION} GROUP BY k", "median() needs all values at once"),
    (f"SELECT k, count(*) AS n {SESSION} GROUP BY k ORDER BY n", "ORDER BY cannot be used with sessions"),
    (f"SELECT k, count(*) AS n {SESSION} GROUP BY k LIMIT 3", "LIMIT cannot be used with sessions"),
    (f"SELECT DISTINCT k {SESSION}", "DISTINCT cannot be used with sessions"),
    (f"SELECT k, count(*) AS n {SESSION} GROUP BY k EMIT CHANGES", "EMIT CHANGES compares a window"),
    (f"SELECT k, count(*) AS n {SESSION} SLIDE INTERVAL 1 MINUTE GROUP BY k", "a session has no SLIDE"),
    (f"SELECT /*+ INDEX(T) */ k, count(*) AS n {SESSION} GROUP BY k", "of sessions partial aggregates are kept"),
    ("SELECT count(*) AS n FROM s WINDOW = SESSION 5 ROWS", "expected the pause that ends a session"),
    ("SELECT count(*) AS n FROM s GROUP BY session_window(v, '5 minutes')", "takes the stream's time column, ts"),
    ("SELECT count(*) AS n FROM s GROUP BY session_window(ts, 5)", "takes the pause that ends a session, as text"),
    (f"SELECT count(*) AS n {SESSION} GROUP BY session_window(ts, '5 minutes')", "both say what the window is"),
    ("SELECT session_window(ts, '5 minutes') AS w, count(*) AS n FROM s GROUP BY w", "cannot hold session_window()"),
    (
        "SELECT k, count(*) AS n FROM SESSION(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE) GROUP BY k",
        "SESSION(…) has no PARTITION BY, and GROUP BY other columns",
    ),
    (
        "SELECT v, count(*) AS n FROM SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL 1 MINUTE) GROUP BY v",
        "SESSION(…) has PARTITION BY k, and GROUP BY other columns",
    ),
    ("SELECT count(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(v), INTERVAL 1 MINUTE)", "takes the stream's time column"),
    ("SELECT count(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts))", "expected the size"),
    ("SELECT count(*) AS n FROM TUMBLE(TABLE (SELECT 1), DESCRIPTOR(ts), INTERVAL 1 MINUTE)", "expected a stream"),
    ("SELECT count(*) AS n FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 2 MINUTES, INTERVAL 1 MINUTE)", "expected )"),
    (
        "SELECT count(*) AS n FROM HOP(TABLE s, DESCRIPTOR(ts), INTERVAL 7 SECONDS, INTERVAL 10 SECONDS)",
        "the size of HOP(…) is a multiple of its slide",
    ),
    (
        "SELECT count(*) AS n FROM CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE, INTERVAL 5 MINUTES)",
        "CUMULATE is not available",
    ),
    (
        "SELECT a.k FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL 1 MINUTE) a JOIN t ON a.k = t.k",
        "a window in FROM is for queries over one stream",
    ),
    ("SELECT count(*) AS n FROM TUMBLE(s, ts, INTERVAL 1 MINUTE) WINDOW = INTERVAL 1 MINUTE", "two WINDOW clauses"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_cannot_be_is_refused_with_a_hint(text: str, why: str) -> None:
    with pytest.raises(AnabranchError) as failure:
        plan(text)
    assert why in str(failure.value)
    assert failure.value.line is not None


def test_the_answers_time_is_the_end_of_the_session() -> None:
    found = plan(f"SELECT k, window_end AS over, count(*) AS n {SESSION} GROUP BY k")
    assert found.time == "over"
    assert plan(f"SELECT k, count(*) AS n {SESSION} GROUP BY k").time == "_time"


def test_explain_says_what_ends_a_session_and_what_is_kept() -> None:
    text = plan(f"SELECT k, count(*) AS n {SESSION} GROUP BY k").explain_text()
    assert "ends after a pause of 300 s" in text
    assert "partial aggregates of open sessions" in text

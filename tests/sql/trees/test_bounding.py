"""ACCEPT UNBOUNDED, EXPIRE AFTER, KEEP GROUPS: where they stand, where their words are names, and who refuses them."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.operators.tree.nodes import Aggregate
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import CreateQuery, SelectOnce
from anabranch.sql.tree import Bounding, Select
from tests.sql.trees.sources import find_stream, plan, refused


def select(text: str) -> Select:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce | CreateQuery)
    return statement.select


@pytest.mark.parametrize(
    ("text", "bounding"),
    [
        ("SELECT a FROM t ACCEPT UNBOUNDED", Bounding(None)),
        ("SELECT a FROM t WHERE a > 1 accept unbounded", Bounding(None)),
        ("SELECT a FROM t EXPIRE AFTER INTERVAL 1 DAY", Bounding(86_400_000_000)),
        ("SELECT a FROM t EXPIRE AFTER INTERVAL '2' HOURS EMIT CHANGES", Bounding(7_200_000_000)),
        ("SELECT a FROM t EMIT CHANGES ACCEPT UNBOUNDED", Bounding(None)),
        ("SELECT a FROM t GROUP BY a KEEP GROUPS 10", Bounding(None, groups=10)),
        ("SELECT a FROM t keep groups 1 EMIT CHANGES", Bounding(None, groups=1)),
        ("SELECT a, keep groups FROM t keep", None),
        ("SELECT a FROM t UNION SELECT b FROM t ORDER BY a LIMIT 3 ACCEPT UNBOUNDED", Bounding(None)),
        ("CREATE CONTINUOUS QUERY q AS SELECT a FROM t ACCEPT UNBOUNDED", Bounding(None)),
        ("SELECT a FROM t", None),
        ("SELECT accept, expire, keep FROM t accept", None),
        ("SELECT accept unbounded FROM t", None),
        ("SELECT a, expire after FROM t", None),
        ("SELECT a AS accept, unbounded FROM t", None),
        ("SELECT sum(a) OVER (ORDER BY accept ROWS UNBOUNDED PRECEDING) AS s FROM t", None),
    ],
)
def test_the_clause_ends_a_query(text: str, bounding: Bounding | None) -> None:
    assert select(text).bounding == bounding


def test_emit_is_read_beside_it() -> None:
    for text in ("EMIT CHANGES ACCEPT UNBOUNDED", "ACCEPT UNBOUNDED EMIT CHANGES"):
        found = select(f"SELECT a FROM t {text}")
        assert found.emit is not None
        assert found.emit.changes


def test_answers_that_are_final_cannot_have_it() -> None:
    said = "EXPIRE AFTER INTERVAL 1 DAY is for answers that are kept and change. Hint: leave it out"
    windowed = "SELECT count(*) AS n FROM bids WINDOW = INTERVAL 1 MINUTE"
    for planner, text in ((plan_once, "SELECT auction FROM bids"), (plan_standing, windowed)):
        with pytest.raises(AnabranchError) as caught:
            planner(select(f"{text} EXPIRE AFTER INTERVAL 1 DAY"), find_stream)
        assert str(caught.value) == f"NOT_IN_THE_LANGUAGE (line 1, column {len(text) + 2}) {said}"


def test_rows_expire_right_behind_each_stream() -> None:
    planned = plan("SELECT x.auction FROM bids x JOIN bids y ON x.bidder = y.bidder EXPIRE AFTER INTERVAL 1 HOUR")
    kinds = [node.kind for node in planned.nodes]
    assert kinds.count("expire") == 1
    assert planned.nodes[1].reads == (0,)
    assert {words for _, words in planned.bounds} == {"rows for 1 HOUR"}


def test_tables_do_not_expire() -> None:
    planned = plan("SELECT t.a FROM t JOIN u ON t.a = u.a EXPIRE AFTER INTERVAL 1 HOUR")
    assert "expire" not in [node.kind for node in planned.nodes]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) AS n, sum(price) AS s, min(price) AS low, avg(price) AS m FROM bids",
        "SELECT auction, price FROM bids WHERE price > 3",
        "SELECT price FROM bids ORDER BY price LIMIT 3",
        "SELECT price > 3 AS big, max(price) AS m FROM bids GROUP BY 1",
        "SELECT price % 7 AS k, count(*) AS n FROM bids GROUP BY 1",
        "SELECT CASE WHEN price > 3 THEN 'a' WHEN price > 9 THEN 'b' END AS k, count(*) AS n FROM bids GROUP BY 1",
        "SELECT hour(ts) AS h, price FROM bids QUALIFY row_number() OVER (PARTITION BY hour(ts) ORDER BY price) <= 3",
        "SELECT DISTINCT price > 3 AS big FROM bids",
        "SELECT price FROM bids UNION ALL SELECT b FROM t",
        "SELECT n FROM (SELECT count(*) AS n FROM bids) x JOIN t ON t.a = x.n",
        "SELECT a FROM t WHERE b > (SELECT max(price) FROM bids)",
        "SELECT channel, sum(n) AS n FROM (SELECT channel, count(*) AS n FROM bids WINDOW = INTERVAL 1 MINUTE "
        "GROUP BY channel) GROUP BY channel",
    ],
)
def test_what_is_bounded_by_itself_needs_no_clause(query: str) -> None:
    assert all("UNBOUNDED" not in words for _, words in plan(query).bounds)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT auction, count(*) AS n FROM bids GROUP BY auction",
        "SELECT date_trunc('day', ts) AS day, count(*) AS n FROM bids GROUP BY 1",
        "SELECT mode(price) AS m FROM bids",
        "SELECT sum(DISTINCT price) AS s FROM bids",
        "SELECT price FROM bids INTERSECT SELECT b FROM t",
        "SELECT auction, lag(price) OVER (ORDER BY ts) AS l FROM bids",
        "SELECT a FROM t WHERE b NOT IN (SELECT price FROM bids)",
        "SELECT a FROM t LEFT ANTI JOIN bids ON auction = a",
    ],
)
def test_what_grows_without_end_can_be_accepted(query: str) -> None:
    assert refused(query).startswith("STATE_UNBOUNDED (line 1, column ")
    assert plan(f"{query} ACCEPT UNBOUNDED").nodes
    assert plan(f"{query} EXPIRE AFTER INTERVAL 1 DAY").nodes


def test_groups_that_are_kept_bound_what_stands_above_them() -> None:
    by_auction = "SELECT auction, count(*) AS n, max(price) AS most FROM bids WHERE price > 1 GROUP BY auction"
    planned = plan(f"{by_auction} HAVING auction > 3 ORDER BY n KEEP GROUPS 7")
    assert {words for _, words in planned.bounds} == {"7 groups"}
    assert planned.growth.stream is None
    (kept,) = [node for node in planned.nodes if isinstance(node, Aggregate)]
    assert (kept.keys, kept.keep) == (("auction",), 7)
    # HAVING stays above: dropped before, a group would leave its place to another.
    assert "where auction > 3" in planned.explain().splitlines()[0]
    assert "auction > 3" not in planned.explain().split("aggregate")[1]
    joined = plan(f"SELECT t.b, g.n FROM ({by_auction}) g JOIN t ON t.a = g.auction KEEP GROUPS 7")
    assert {words for _, words in joined.bounds} == {"7 groups", "the rows of t and 7 groups"}

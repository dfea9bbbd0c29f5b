"""Queries and their trees, and queries that are refused, as text: each is a query and what comes of it, indented."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anabranch.operators.tree.nodes import Aggregate, Call, Expire, Join, Part, Rows, Source
from tests.sql.trees.sources import plan, refused

HERE = Path(__file__).parent


def cases(name: str) -> list[tuple[str, str]]:
    blocks = (HERE / name).read_text().strip().split("\n\n")
    return [(query, re.sub(r"^    ", "", found, flags=re.M)) for query, _, found in (b.partition("\n") for b in blocks)]


@pytest.mark.parametrize(("query", "tree"), cases("shapes.txt"))
def test_a_query_is_planned_as_a_tree(query: str, tree: str) -> None:
    planned = plan(query)
    key = f"\nkey: {', '.join(planned.key)}" if planned.key else ""
    assert planned.explain() + key == tree


@pytest.mark.parametrize(("query", "error"), cases("refusals.txt"))
def test_a_query_is_refused_with_its_place(query: str, error: str) -> None:
    assert refused(query) == error


# -- what a plan says ------------------------------------------------------------------------------


def test_nodes_are_plain_data() -> None:
    planned = plan("SELECT t.c, count(u.d) AS n FROM t JOIN u ON t.a = u.a WHERE t.b > 1 GROUP BY t.c")
    assert planned.nodes == (
        Source("t.changes", (("a", "a"), ("b", "b"), ("c", "c")), "changes"),
        Rows(0, (("a", "a"), ("c", "c")), "b > 1"),
        Source("u.changes", (("a_2", "a"), ("d", "d")), "changes"),
        Join(1, 2, "inner", (("a", "a_2"),)),
        Rows(3, (("c", "c"), ("d", "d"))),
        Aggregate(4, ("c",), (Call("count", "count", ("d",)),)),
        Rows(5, (("c", "c"), ("n", "count"))),
    )
    assert planned.columns == ("c", "n")
    assert [str(type_) for type_ in planned.types.types] == ["string", "int64"]
    assert planned.key == ("c",)
    assert planned.inputs == ("t.changes", "u.changes")
    assert planned.bounds == ((3, "the rows of t, u"), (5, "the rows of t, u"))


def test_what_is_read_twice_is_read_once() -> None:
    planned = plan("WITH s AS (SELECT b, max(a) AS m FROM t GROUP BY b) SELECT x.b FROM s x JOIN s y ON x.m = y.b")
    kinds = [node.kind for node in planned.nodes]
    assert kinds.count("source") == 1
    assert kinds.count("aggregate") == 1


def test_an_order_without_a_limit_is_left_out_with_a_note() -> None:
    planned = plan("SELECT a FROM t ORDER BY b")
    assert [node.kind for node in planned.nodes] == ["source"]
    assert planned.notes == (
        "ORDER BY without LIMIT is left out: an answer that changes has no order; order it where it is read",
    )


def test_columns_that_are_not_read_are_not_kept() -> None:
    planned = plan("SELECT t.a FROM t JOIN emp ON emp.id = t.a JOIN dept ON dept.id = emp.dept")
    sources = {
        node.stream: [column for _, column in node.columns] for node in planned.nodes if isinstance(node, Source)
    }
    assert sources == {"t.changes": ["a"], "emp.changes": ["id", "dept"], "dept.changes": ["id"]}


def test_a_part_is_the_json_of_its_operator() -> None:
    planned = plan("SELECT n FROM (SELECT count(*) AS n FROM bids WINDOW = INTERVAL 1 MINUTE) x WHERE n > 2")
    part = planned.nodes[0]
    assert isinstance(part, Part)
    assert part.operator["kind"] == "window_aggregate"
    assert part.columns == (("n", "n"), ("_time", "_time"))
    assert planned.nodes[2] == Expire(1, "_time", 59_999_999)  # until the next window is answered
    assert planned.inputs == ("bids",)


def test_names_of_star_that_several_sources_have_get_their_source() -> None:
    assert plan("SELECT * FROM t JOIN u ON t.a = u.a").columns == ("t_a", "b", "c", "u_a", "d", "e")
    assert plan("SELECT t.* FROM t JOIN u ON t.a = u.a").columns == ("t_a", "b", "c")
    assert plan("SELECT * EXCEPT (b) FROM t JOIN u USING (a)").columns == ("a", "c", "d", "e")


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("SELECT a, b FROM t", ("a",)),
        ("SELECT b FROM t", ()),
        ("SELECT a + 1 AS a FROM t", ()),
        ("SELECT b, c, count(*) AS n FROM t GROUP BY b, c", ("b", "c")),
        ("SELECT b, count(*) AS n FROM t GROUP BY b, c", ()),
        ("SELECT DISTINCT b, c FROM t", ("b", "c")),
        ("SELECT DISTINCT a, b FROM t", ("a",)),
        ("SELECT e.id, d.name FROM emp e JOIN dept d ON e.dept = d.id", ("id",)),
        ("SELECT e.id, d.id AS other FROM emp e, dept d", ("id", "other")),
        ("SELECT t.a, u.d FROM t JOIN u ON t.a = u.a", ()),
        ("SELECT a FROM t UNION SELECT e FROM u", ("a",)),
        ("SELECT a FROM t UNION ALL SELECT a FROM t", ()),
        ("SELECT a, b FROM t EXCEPT ALL SELECT a, x FROM u, v", ("a",)),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a)", ("a",)),
        ("SELECT count(*) AS n FROM t", ()),
        ("SELECT c, b FROM t QUALIFY row_number() OVER (PARTITION BY c ORDER BY b) = 1", ("c",)),
    ],
)
def test_a_key_is_known(query: str, key: tuple[str, ...]) -> None:
    assert plan(query).key == key


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT T.A FROM t", "SELECT a FROM t"),
        ("SELECT X.a FROM t AS x", "SELECT a FROM t"),
        ("SELECT b AS n, N + 1 AS m FROM t", "SELECT b AS n, (b) + 1 AS m FROM t"),
        ("SELECT c AS b FROM t WHERE b > 1", "SELECT t.c AS b FROM t WHERE t.b > 1"),
        ("SELECT b AS c, count(*) AS n FROM t GROUP BY c", "SELECT b AS c, count(*) AS n FROM t GROUP BY t.c"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE d > b)",
         "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.d > t.b)"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE a = e)",
         "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = u.e)"),
        ("WITH u AS (SELECT k AS a FROM v) SELECT a FROM u", "SELECT k AS a FROM v"),
        ("SELECT x.n FROM (WITH q AS (SELECT b AS n FROM t) SELECT n FROM q) x", "SELECT b AS n FROM t"),
        ("SELECT b FROM t ORDER BY a LIMIT 1", "SELECT b FROM t ORDER BY t.a LIMIT 1"),
        ("SELECT a AS b FROM t ORDER BY b LIMIT 1", "SELECT a AS b FROM t ORDER BY t.a LIMIT 1"),
    ],
)  # fmt: skip
def test_a_name_means_what_is_closest(query: str, same: str) -> None:
    assert _told(query) == _told(same)


def _told(query: str) -> str:
    try:
        return plan(query).explain()
    except Exception as problem:
        return re.sub(r"\(line \d+, column \d+\)|Hint: add .* to", "", str(problem))

"""The contract of operators, over the table of all there are.

Whatever an operator computes: cut into any micro-batches and tasks, with its scratch lost or its
process gone, run twice or over empty batches, its answer is the same to the last bit. The harness
checks on every batch that time never goes back, that `reached` keeps its promise, and that nothing
is read that `needs` gave away.
"""

from __future__ import annotations

import functools
import json
import pickle
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from anabranch.errors import CatalogError, QueryError
from anabranch.operators import OPERATORS, operator_class, operator_from_json
from anabranch.operators.archive.scan import ArchiveScan
from anabranch.operators.base import MIN_TIME, Inputs, Offset, Operator
from anabranch.operators.history.join import HistoryJoin
from anabranch.operators.history.join_aggregate import HistoryJoinAggregate
from anabranch.operators.history.landmark import Landmark
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.combination import WindowCombination
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.join.outer import Kind, OuterJoin
from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.operators.select import SelectRows
from anabranch.operators.table.join import TableJoin
from anabranch.operators.unnest import UnnestRows
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.last_rows import LastRows
from anabranch.operators.windows.rows import WindowRows
from anabranch.operators.windows.sessions import SessionAggregate
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.sql import parse, plan_standing
from anabranch.sql.statements import CreateQuery
from anabranch.testing import ContractBroken, MemoryLog, OperatorHarness
from anabranch.testing.harness import run_batch, same
from anabranch.testing.slt.small_tasks import small_tasks
from tests.sampling import sampled

SCHEMA = StreamSchema.of({"k": "STRING", "v": "INT", "d": "DOUBLE", "ok": "BOOLEAN", "ts": "TIMESTAMP"}, time="ts")


def windows(unit: Any, size: int, slide: int, **more: Any) -> WindowAggregate:
    columns = [("k", "k"), ("n", "n"), ("total", "total"), ("spread", "spread"), ("low", "low")]
    return WindowAggregate(
        "in", unit, size, slide,
        keys=(("k", "k"),),
        aggregates=(("n", "count", None), ("total", "sum", "d"), ("spread", "stddev", "v"), ("low", "min", "k")),
        columns=(*columns, ("_time", "_time")), time="_time", **more,
    )  # fmt: skip


def values(unit: Any, size: int, slide: int, **more: Any) -> WindowAggregate:
    """Aggregates that are read from an index of the window's values, and one that is not."""
    aggregates = (
        ("n", "count", None), ("middle", "median", "d"), ("most", "mode", "k"), ("kinds", "count_distinct", "v"),
        ("high", "percentile_disc(0.9)", "v"), ("about", "approx_count_distinct(0.1)", "k"),
        ("near", "approx_percentile(0.5)", "d"),
    )  # fmt: skip
    columns = tuple((name, name) for name, _, _ in aggregates)
    return WindowAggregate(
        "in", unit, size, slide, keys=(("k", "k"),), aggregates=aggregates,
        columns=(("k", "k"), *columns, ("_time", "_time")), time="_time", **more,
    )  # fmt: skip


def sessions(gap: int, *keys: str, **more: Any) -> SessionAggregate:
    aggregates = (("n", "count", None), ("total", "sum", "d"), ("spread", "stddev", "v"), ("low", "min", "k"))
    named = tuple((f"key{i}", key) for i, key in enumerate(keys))
    columns = (*((name, name) for name, _ in named), *((name, name) for name, _, _ in aggregates))
    ends = (("since", "window_start"), ("_time", "window_end"))
    return SessionAggregate("in", gap, named, aggregates, (*columns, *ends), "_time", **more)


def last_rows(count: int, *keys: str, **more: Any) -> LastRows:
    aggregates = (("n", "count", None), ("total", "sum", "d"), ("spread", "stddev", "v"), ("low", "min", "k"))
    named = tuple((f"key{i}", key) for i, key in enumerate(keys))
    columns = (*((name, name) for name, _ in named), *((name, name) for name, _, _ in aggregates))
    return LastRows("in", count, named, aggregates, (*columns, ("since", "window_start")), "_time", **more)


def window_rows(unit: Any, size: int, slide: int, **more: Any) -> WindowRows:
    columns = (("k", "k"), ("w", "v + 1"), ("from", "window_start"), ("ts", "ts"))
    return WindowRows("in", unit, size, slide, columns, "_time", **more)


def side(unit: Any, size: int, slide: int, where: str) -> WindowAggregate:
    """A side of a set operation without aggregates."""
    return WindowAggregate(
        "in", unit, size, slide, keys=(("k", "k"), ("v", "v")), aggregates=(("__n", "count", None),),
        columns=(("k", "k"), ("v", "v"), ("__n", "__n"), ("_time", "_time")), time="_time", filter=where,
    )  # fmt: skip


def sets(operation: Any, unit: Any, size: int, slide: int, bags: bool = False) -> WindowSetOperation:
    left, right = side(unit, size, slide, "ok"), side(unit, size, slide, "d > 0")
    return WindowSetOperation(operation, bags, left, right, ("k", "v"), "_time")


def join(*conditions: str, low: int = -5, high: int = 5, third: bool = False, **more: Any) -> WindowJoin:
    """A stream joined with itself; in order of time, since only then the order does not depend on batches."""
    sources = [("A", "in", "ok"), ("B", "in", None), *([("C", "in", "v > 0")] if third else [])]
    windows = [(0, 1, low, high), *([(1, 2, -2, 9)] if third else [])]
    columns = [("k", "`A.k`"), ("v", "`B.v`"), ("d", "`A.d` + `B.v`"), ("_time", "_time")]
    return WindowJoin(
        tuple(sources), "time", tuple(windows), conditions, tuple(columns), "_time", **{"order": "time", **more}
    )


def outer(side: Kind, inner: WindowJoin, *where: str) -> OuterJoin:
    return OuterJoin(inner, side, where)


def join_sums(inner: WindowJoin, period: int, *keys: str) -> WindowJoinAggregate:
    named = tuple((f"key{i}", key) for i, key in enumerate(keys))
    aggregates = (("n", "count", None), ("total", "sum", "`A.d` * `B.v`"), ("most", "max", "`B.k`"))
    columns = (*((name, name) for name, _ in named), ("n", "n"), ("total", "total"), ("most", "most"))
    return WindowJoinAggregate(inner, period, named, aggregates, (*columns, ("_time", "window_end")), "_time")


def join_counts(inner: WindowJoin, period: int, *keys: str) -> WindowJoinAggregate:
    named = tuple((f"key{i}", key) for i, key in enumerate(keys))
    columns = (*((name, name) for name, _ in named), ("n", "n"), ("_time", "window_end"))
    return WindowJoinAggregate(inner, period, named, (("n", "count", None),), columns, "_time", having="n > 1")


def fraction(period: int) -> WindowCombination:
    """How many pairs there are for each row."""
    counted = (("rows", "count", None),)
    rows = WindowAggregate(
        "in", "time", period, period, (), counted, (("rows", "rows"), ("_time", "window_end")), "_time"
    )
    pairs = replace(join_counts(join(SAME), period), columns=(("n", "n"), ("_time", "window_end")), having=None)
    columns = (("share", "n / rows"), ("since", "window_start"), ("_time", "window_end"))
    return WindowCombination(period, (("n", pairs, 0), ("rows", rows, 0)), columns, "_time")


def merge(*keys: tuple[str, float], by: str | None = None, kind: Any = "inner", **more: Any) -> Merge:
    """A stream merged with itself; with windows so small that records are lost."""
    on = tuple((f"`A.{key}`", f"`B.{key}`", tolerance) for key, tolerance in keys)
    equal = ((f"`A.{by}`", f"`B.{by}`"),) if by else ()
    columns = [("k", "`A.k`"), ("d", "`A.d`"), *([("w", "`B.v` + 1")] if kind != "anti" else []), ("_time", "_time")]
    return Merge(
        (("A", "in"), ("B", "in")), (on,), (equal,), (kind,), (), tuple(columns), "_time",
        **{"window": 12, "step": 5, "every": 20, **more},
    )  # fmt: skip


def ranges(*keys: tuple[str, float], remainder: Any = "rest", window: int = 12, **more: Any) -> RangeMerge:
    like = merge(*keys, **more)
    fields = ("sources", "keys", "by", "joins", "conditions", "columns", "time", "policy", "every")
    return RangeMerge(**{name: getattr(like, name) for name in fields}, window=window, remainder=remainder)


def merge_of_three(**more: Any) -> Merge:
    return Merge(
        (("A", "in"), ("B", "in"), ("C", "in")),
        ((("`A.v`", "`B.v` + 1", 1.0),), (("`B.d`", "`C.d`", 0.5), ("`A.v`", "`C.v`", 3.0))),
        ((), (("`B.ok`", "`C.ok`"),)), ("left", "full"), ("coalesce(`C.v`, 0) < 5",),
        (("k", "`A.k`"), ("v", "`B.v`"), ("d", "`C.d`"), ("_time", "_time")), "_time",
        **{"window": 12, "step": 5, "every": 20, **more},
    )  # fmt: skip


def unnest(columns: Any, *arrays: Any, time: str = "ts", filter: str | None = None) -> UnnestRows:
    return UnnestRows("in", columns, time, filter, arrays)


def table_join(key: str, comes: str, more: tuple[str, ...] = (), **said: Any) -> TableJoin:
    """A stream joined with itself as the changes of a table: a row is there or not from one of its rows on."""
    columns = (("k", "`A.k`"), ("w", "`A.v` + `T.v`"), ("d", "`T.d`"), ("_time", "_time"))
    given: dict[str, Any] = {"join": "inner", "conditions": (), "where": None, **said}
    keys = tuple((name, name) for name in (key, *more))
    return TableJoin("in", "A", "in", "T", keys, comes, columns=columns, time="_time", **given)


def seen_before(*on: str, period: int = 60, portions: int = 2, within: int = 20, **more: Any) -> HistoryJoin:
    """A stream joined with portions of its own past."""
    given: dict[str, Any] = {
        "match": "any", "time": "ts",
        "columns": (("k", "k"), ("w", "v + _portions"), ("n", "_matches"), ("part", "_fraction"), ("ts", "ts")),
    }  # fmt: skip
    keys = tuple((key, key) for key in on)
    return HistoryJoin("in", "c", "in", keys, period, portions, within, **{**given, **more})


def seen_counts(inner: HistoryJoin, every: int, *keys: str) -> HistoryJoinAggregate:
    named = tuple((key, key) for key in keys)
    aggregates = (("n", "count", None), ("total", "sum", "d"), ("most", "max", "v"))
    columns = (*named, ("n", "n"), ("total", "total"), ("most", "most"))
    return HistoryJoinAggregate(inner, every, named, aggregates, columns, "_time")


def since(begin: int, until: int, every: int, *keys: str, **more: Any) -> Landmark:
    named = tuple((key, key) for key in keys)
    aggregates = (("n", "count", None), ("total", "sum", "d"), ("mean", "avg", "v"), ("most", "max", "v"))
    columns = (*named, *((name, name) for name, _, _ in aggregates))
    return Landmark("in", begin, named, aggregates, columns, "_time", every, until=until, **more)


def composed(query: str) -> Operator:
    """The tree of a question over the stream."""
    (statement,) = parse(f"CREATE CONTINUOUS QUERY q AS {query}")
    assert isinstance(statement, CreateQuery)

    def find(name: str) -> StreamSchema:
        if name.lower() != "in":
            raise CatalogError("STREAM_NOT_FOUND", name)
        return SCHEMA

    return plan_standing(statement.select, find).operator


KEPT = ("by_key", ("k", 0.5))
SAME = "`A.v` = `B.v`"
OF_CHANGES = {"tree", "whole"}
"""Answers say what a micro-batch has changed; what they add up to is the same: `tree/test_tree.py`, `test_whole.py`."""
ONE_ANSWER = {"archive_aggregate", "archive_write", "table_scan", "together"}
"""Operators that answer with what tasks did and not with rows in time; others are about them (test_together)."""
EXAMPLES: dict[str, dict[str, Operator]] = {
    "history_join": {
        "text": seen_before("k"),
        "each": seen_before("k", match="each"),
        "numbers": seen_before("v", "ok", period=7, portions=5, within=0),
        "doubles": seen_before("d", within=59, filter="ok", history_filter="v > 0"),
        "kept_whole": seen_before("k", "ok", reducer=KEPT),
    },
    "history_join_aggregate": {
        "by_key": seen_counts(seen_before("k"), 40, "k"),
        "all": seen_counts(seen_before("v", match="each", within=50), 25),
        "kept_whole": seen_counts(seen_before("k", reducer=KEPT), 60, "ok"),
    },
    "landmark": {
        "by_key": since(1_010, 1_500, 20, "k"),
        "all": since(0, 1_333, 50),
        "filtered": since(1_100, 1_200, 7, "ok", filter="v > 0"),
        "later": since(1_700, 4_000, 300, "v"),
        "in_part": since(1_010, 1_500, 40, "k", reducer=("uniform", (0.5,)), live_from=40),
        "kept_whole": since(0, 1_400, 60, reducer=KEPT, live_from=70, filter="ok"),
    },
    "last_rows": {
        "by_key": last_rows(3, "k"),
        "one": last_rows(1, "v", "ok"),
        "all": last_rows(7),
        "many": last_rows(50, "ok", filter="v > 0"),
        "filter_having": last_rows(6, "k", filter="ok", having="n > 1 AND total > 0"),
        "nothing": last_rows(10, "k", filter="false"),
    },
    "archive_scan": {
        "all": ArchiveScan("in", (("k", "k"), ("w", "v * 2"), ("ts", "ts")), "ts"),
        "range": ArchiveScan("in", (("d", "d"), ("ts", "ts")), "ts", filter="ok", since=1_100, until=1_400),
        "reduced": ArchiveScan("in", (("k", "k"), ("ts", "ts")), "ts", reducer=("uniform", (0.5,))),
        "by_key": ArchiveScan("in", (("v", "v"), ("ts", "ts")), "ts", reducer=("by_key", ("k", 0.5))),
    },
    "merge": {
        "first": merge(("v", 1.0)),
        "nearest": merge(("v", 1.0), policy="nearest"),
        "all": merge(("v", 0.0), policy="all"),
        "two_keys": merge(("d", 0.5), ("v", 2.0), policy="nearest", kind="left"),
        "full": merge(("v", 1.0), kind="full", policy="nearest", window=3, step=1),
        "anti": merge(("d", 0.0), kind="anti", window=3, step=2),
        "groups": merge(("v", 1.0), by="k", kind="full"),
        "groups_all": merge(("d", 0.1), by="v", kind="left", policy="all"),
        "only_full_steps": merge(("v", 1.0), every=None, kind="full"),
        "by_rows": merge(("v", 1.0), pace="rows", kind="full"),
        "by_rows_in_groups": merge(("v", 1.0), by="k", pace="rows", kind="left", policy="nearest"),
        "no_longer_than": merge(("v", 1.0), pace="rows", kind="full", policy="nearest", wait=40),
        "condition": replace(merge(("v", 1.0), kind="left"), conditions=("`A.v` > 0 OR `B.v` IS NULL",)),
        "grows": merge(("d", 0.1), window=4, step=2, delta=0.05, over=3),
        "grows_groups": merge(("v", 0.0), by="ok", window=2, step=2, delta=0.2, over=2, policy="nearest", kind="left"),
        "three": merge_of_three(),
        "three_nearest": merge_of_three(policy="nearest", window=6, step=2),
        "three_all": merge_of_three(policy="all", every=None),
    },
    "range_merge": {
        "first": ranges(("v", 1.0)),
        "nearest": ranges(("d", 0.5), policy="nearest", kind="left"),
        "all": ranges(("v", 0.0), ("d", 0.1), policy="all", window=3),
        "difference": ranges(("v", 1.0), remainder="difference", kind="anti", window=5),
        "groups": ranges(("v", 1.0), by="k", kind="left", window=4),
        "only_full_blocks": ranges(("v", 2.0), every=None, window=7),
    },
    "select": {
        "all": SelectRows("in", (("k", "k"), ("v", "v"), ("d", "d"), ("ts", "ts")), "ts"),
        "computed": SelectRows("in", (("w", "v * 2 + 1"), ("x", "d / v"), ("at", "ts")), "at", filter="ok AND v > 1"),
        "constant": SelectRows("in", (("one", "1"), ("ts", "ts")), "ts"),
        "nothing": SelectRows("in", (("ts", "ts"),), "ts", filter="false"),
    },
    "session_aggregate": {
        "by_key": sessions(10, "k"),
        "short": sessions(1, "v", "ok"),
        "all": sessions(2),
        "never_over": sessions(10_000, "k"),
        "filter_having": sessions(5, "k", filter="ok", having="n > 1 AND total > 0"),
        "nothing": sessions(10, "k", filter="false"),
    },
    "table_join": {
        "inner": table_join("k", "ok"),
        "left": table_join("v", "d > 0", join="left"),
        "two_keys": table_join("k", "d > 0 OR v > 0", more=("ok",), conditions=("`A.v` <= `T.v`",), where="`A.d` < 9"),
        "left_with_conditions": table_join("k", "ok", join="left", conditions=("`A.v` > `T.v`",), filter="v > -3"),
    },
    "unnest": {
        "elements": unnest((("k", "k"), ("x", "x"), ("ts", "ts")), ("split(k, 'a')", "x", None, False)),
        "places": unnest((("x", "x + v"), ("at", "ts")), ("array(v, 1)", "x", "p", False), time="at", filter="p = 1"),
        "outer": unnest((("x", "x"), ("p", "p"), ("ts", "ts")), ("if(ok, array(d), NULL)", "x", "p", True)),
        "of_elements": unnest(
            (("y", "y"), ("ts", "ts")), ("array(array(v), array(v, 1))", "x", None, False), ("x", "y", "q", True)
        ),
        "nothing": unnest((("ts", "ts"),), ("array(v)", "x", None, False), filter="x IS NULL AND false"),
    },
    "window_aggregate": {
        "tumbling": windows("time", 10, 10),
        "sliding": windows("time", 40, 10),
        "slide_not_dividing": windows("time", 25, 10),
        "gaps": windows("time", 3, 10),
        "many_panes": windows("time", 200, 1),
        "filter_having": windows("time", 30, 10, filter="ok", having="n > 1 AND total > 0"),
        "rows": windows("rows", 7, 7),
        "rows_sliding": windows("rows", 20, 3),
        "rows_filter": windows("rows", 5, 2, filter="ok"),
        "nothing": windows("time", 10, 10, filter="false"),
        "top": windows("time", 40, 10, order=(("total", True, False), ("n + 1", False, True)), limit=2),
        "values_tumbling": values("time", 10, 10),
        "values_sliding": values("time", 40, 10),
        "values_slide_not_dividing": values("time", 25, 10),
        "values_gaps": values("time", 3, 10),
        "values_many_panes": values("time", 200, 1),
        "values_rows": values("rows", 20, 3, filter="ok"),
        "values_list_h": values("time", 40, 10, storage="LIST", index="H"),
        "values_aggr_l": values("time", 40, 10, storage="AGGR", index="L"),
        "values_hash_uh": values("rows", 40, 10, storage="HASH", index="UH"),
        "values_top": values("rows", 20, 3, order=(("middle", True, False),), limit=2),
    },
    "window_rows": {
        "tumbling": window_rows("time", 10, 10),
        "sorted": window_rows("time", 40, 10, order=(("d", True, False), ("k", False, True)), filter="ok"),
        "first": window_rows("time", 40, 10, order=(("v", False, True),), limit=3),
        "rows": window_rows("rows", 20, 3, order=(("k", True, True),)),
        "first_descending": window_rows("time", 40, 10, order=(("k", True, False), ("v", False, True)), limit=4),
        "ring_plain": window_rows("time", 25, 10, order=(("d", True, True),), index="L", ring="PLAIN"),
        "ring_aux": window_rows("rows", 20, 3, order=(("k", False, True),), index="H", ring="AUX", limit=5),
        "ring_bw": window_rows("time", 200, 1, order=(("v", False, False),), index="UH", ring="BW", limit=1),
        "ring_gaps": window_rows("time", 3, 10, order=(("d", False, False),), ring="DB", filter="ok"),
        "gaps": window_rows("time", 3, 10),
        "changes": window_rows("time", 40, 10, changes=True),
        "changes_slide_not_dividing": window_rows("time", 25, 10, changes=True, order=(("d", False, True),)),
        "changes_gaps": window_rows("time", 3, 10, changes=True),
        "changes_rows": window_rows("rows", 20, 3, changes=True, filter="ok"),
        "changes_of_first": window_rows("time", 40, 10, changes=True, order=(("v", True, False),), limit=2),
        "changes_of_first_rows": window_rows("rows", 9, 2, changes=True, order=(("v", True, False),), limit=2),
    },
    "tree_of_rows": {
        "different": composed("SELECT DISTINCT k, v FROM `in` ACCEPT UNBOUNDED"),
        "put_together": composed("SELECT k, v FROM `in` WHERE ok UNION ALL SELECT k, v + 1 FROM `in` WHERE d > 0"),
        "its_own_time": composed("SELECT ts, k FROM `in` WHERE ok UNION ALL SELECT ts, 'x' FROM `in`"),
        "joined": composed("SELECT a.k, b.d FROM `in` a JOIN `in` b ON a.v = b.v AND a.d < b.d ACCEPT UNBOUNDED"),
        "those_that_meet": composed(
            "SELECT k, d FROM `in` WHERE v IN (SELECT v FROM `in` WHERE ok) ACCEPT UNBOUNDED"
        ),
        "with_parts": composed(
            "SELECT k, v FROM `in` UNION ALL SELECT k, n FROM (SELECT k, CAST(count(*) AS INT) AS n FROM `in` "
            "WINDOW = SESSION INTERVAL 3 MICROSECONDS GROUP BY k) UNION ALL "
            "SELECT a.k, b.v FROM `in` a, `in` b WINDOW = INTERVAL 2 MICROSECONDS WHERE a.k = b.k"
        ),
        "different_parts": composed(
            "SELECT DISTINCT k, n FROM (SELECT k, count(*) AS n FROM `in` WINDOW = 3 ROWS PER k) ACCEPT UNBOUNDED"
        ),
    },
    "tree_of_windows": {
        "joined": composed(
            "SELECT a.k, a.n, b.s FROM (SELECT k, count(*) AS n FROM `in` WINDOW = INTERVAL 10 MICROSECONDS "
            "WHERE ok GROUP BY k) a FULL JOIN (SELECT k, sum(v) AS s FROM `in` WINDOW = INTERVAL 25 MICROSECONDS "
            "SLIDE INTERVAL 10 MICROSECONDS WHERE d > 0 GROUP BY k) b ON a.k = b.k"
        ),
        "compared": composed(
            "WITH l AS (SELECT k, count(*) AS n FROM `in` WINDOW = INTERVAL 20 MICROSECONDS GROUP BY k) "
            "SELECT k, n FROM l WHERE n > (SELECT avg(n) FROM l) ORDER BY n DESC LIMIT 2"
        ),
        "counted": composed(
            "SELECT count(*) AS n, max(s) AS s FROM (SELECT k, sum(v) AS s FROM `in` WINDOW = INTERVAL 7 MICROSECONDS "
            "GROUP BY k) WHERE s > 3"
        ),
        "sets": composed(
            "(SELECT k FROM `in` WINDOW = INTERVAL 9 MICROSECONDS WHERE ok EXCEPT "
            "SELECT k FROM `in` WINDOW = INTERVAL 9 MICROSECONDS WHERE d > 0) UNION ALL "
            "SELECT k FROM `in` WINDOW = INTERVAL 9 MICROSECONDS WHERE v > 2"
        ),
        "ranked": composed(
            "SELECT k, v, ts, row_number() OVER (PARTITION BY k ORDER BY v, d) AS r FROM "
            "(SELECT k, v, d, ts FROM `in` WINDOW = INTERVAL 30 MICROSECONDS SLIDE INTERVAL 10 MICROSECONDS) "
            "QUALIFY r < 3"
        ),
    },
    "window_set_operation": {
        "intersect": sets("intersect", "time", 40, 10),
        "intersect_all": sets("intersect", "time", 40, 10, bags=True),
        "except": sets("except", "time", 25, 10),
        "except_all": sets("except", "rows", 20, 3, bags=True),
        "union": sets("union", "rows", 7, 7),
        "union_all": sets("union", "time", 3, 10, bags=True),
    },
    "window_join": {
        "hash": join(SAME),
        "hash_of_text": join("`A.k` = `B.k`", "`A.d` < `B.d`"),
        "two_keys": join(SAME, "`A.k` = `B.k`", low=0, high=30),
        "band": join("abs(`A.d` - `B.d`) <= 8"),
        "comparison": join("`A.v` > `B.v`", low=-2, high=2),
        "everything": join(low=0, high=0),
        "never": join("false"),
        "three": join(SAME, "`B.v` = `C.v`", third=True),
        "three_any": join("`A.v` + `B.v` > `C.v`", low=-1, high=1, third=True),
        "rows": WindowJoin(
            (("A", "in", None), ("B", "in", "ok")), "rows", ((0, 1, 4, 4),), (SAME,),
            (("v", "`A.v`"), ("w", "`B.d`"), ("_time", "_time")), "_time",
        ),
        "shed": join(SAME, low=-20, high=20, memory=300, shed="random"),
        "shed_oldest": join(SAME, low=-20, high=20, memory=300, shed="oldest"),
        "shed_by_matches": join(SAME, low=-20, high=20, memory=300, shed="matches"),
    },
    "outer_join": {
        "left": outer("left", join(SAME)),
        "right_of_its_own": outer("right", join("`A.k` = `B.k`", "`B.ok`"), "`A.d` IS NULL OR `B.v` > 0"),
        "full_later_only": outer("full", join(SAME, "`A.d` < `B.d`", low=2, high=30)),
        "full_earlier_only": outer("full", join("abs(`A.d` - `B.d`) <= 8", low=-30, high=-3)),
        "full_of_nothing": outer("full", join("false")),
        "left_of_all": outer("left", join(low=0, high=0), "`B.k` IS NULL OR `B.k` <> 'a'"),
        "semi": outer("semi", join(SAME)),
        "semi_earlier_only": outer("semi", join("`A.v` > `B.v`", low=-40, high=-1)),
        "anti": outer("anti", join("`A.k` = `B.k`", low=-9, high=60)),
    },
    "window_join_aggregate": {
        "sums": join_sums(join(SAME), 20, "`A.k`"),
        "of_three": join_sums(join("`B.k` = `C.k`", third=True), 60),
        "counts": join_counts(join(SAME), 20, "`A.v`"),
        "counts_of_all": join_counts(join(SAME), 7),
    },
    "window_combination": {"fraction": fraction(20), "short": fraction(3)},
    "window_changes": {
        "aggregates": WindowChanges(windows("time", 40, 10)),
        "aggregates_gaps": WindowChanges(windows("time", 3, 10)),
        "aggregates_rows": WindowChanges(windows("rows", 5, 2, filter="ok")),
        "values": WindowChanges(values("time", 40, 10)),
        "top": WindowChanges(windows("time", 40, 10, order=(("total", True, False),), limit=2)),
        "sets": WindowChanges(sets("except", "time", 25, 10)),
        "sets_rows": WindowChanges(sets("intersect", "rows", 20, 3, bags=True)),
    },
}  # fmt: skip
CASES = [pytest.param(op, id=f"{kind}-{name}") for kind, ops in EXAMPLES.items() for name, op in ops.items()]
CASES_WITH_STATE = [case for case in CASES if cast(Operator, case.values[0]).scratch_is_state]
PER_KIND = 2
"""How many examples of each kind of operator a test plays unless all are asked for; other tests play others."""


def every(test: Callable[..., None]) -> Callable[..., None]:
    """A test of every kind of operator."""
    return over(CASES)(test)


def over(cases: list[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def of(test: Callable[..., None]) -> Callable[..., None]:
        played = sampled(cases, PER_KIND, test.__name__, group=lambda case: case.id.partition("-")[0])
        playing: Callable[..., None] = pytest.mark.parametrize("operator", played)(test)
        return playing

    return of


def rows(count: int, seed: int = 1, begin: int = 1_000) -> pa.Table:
    """Rows with nulls and odd numbers everywhere, several of one instant, and now and then a silence."""
    chance = random.Random(seed)

    def maybe(choose: Callable[[], Any]) -> list[Any]:
        return [None if chance.random() < 0.15 else choose() for _ in range(count)]

    time, times = begin, []
    for _ in range(count):
        time += chance.choice([0, 0, 0, 1, 1, 2, 5, 60])
        times.append(time)
    return pa.table(
        {
            "k": pa.array(maybe(lambda: chance.choice(["", "a", "b", "é"])), pa.string()),
            "v": pa.array(maybe(lambda: chance.randint(-5, 5)), pa.int32()),
            "d": pa.array(maybe(lambda: chance.choice([0.1, 1e6, -0.3, 7.7, float("nan")])), pa.float64()),
            "ok": pa.array(maybe(lambda: chance.random() < 0.7), pa.bool_()),
            "ts": pa.array(times, pa.int64()).cast(TIME_TYPE),
        }
    )


def filled(operator: Operator, data: pa.Table, directory: Path | None = None) -> OperatorHarness:
    harness = OperatorHarness(operator, {"in": SCHEMA}, directory=directory)
    harness.push("in", data)
    harness.advance("in", 1_000_000)
    return harness


def in_one_batch(operator: Operator, data: pa.Table) -> pa.Table:
    return filled(operator, data).step()


def test_every_operator_has_examples() -> None:
    assert EXAMPLES.keys() | ONE_ANSWER | OF_CHANGES == OPERATORS.keys()
    assert {kind: {type(op) for op in ops.values()} for kind, ops in EXAMPLES.items()} == {
        kind: {operator_class(kind)} for kind in OPERATORS if kind not in ONE_ANSWER | OF_CHANGES
    }


@every
def test_one_batch_or_many(operator: Operator) -> None:
    data = rows(120)
    wanted = in_one_batch(operator, data)
    for size in (1, 7, 50):
        harness = filled(operator, data)
        assert same(harness.run(rows=size), wanted), f"micro-batches of {size} rows"


@every
def test_rows_that_come_bit_by_bit(operator: Operator, tmp_path: Path) -> None:
    data = rows(120)
    harness = OperatorHarness(operator, {"in": SCHEMA}, directory=tmp_path)
    for at in range(0, 120, 9):
        harness.push("in", data.slice(at, 9))
        harness.step()
    harness.advance("in", 1_000_000)
    harness.step()
    assert same(harness.answers(), in_one_batch(operator, data))


@every
def test_parallelism_one_or_three(operator: Operator) -> None:
    data = rows(240, seed=2)
    with small_tasks():
        assert same(filled(operator, data).step(parallelism=3), in_one_batch(operator, data))
        harness = filled(operator, data)
        assert same(harness.run(parallelism=3, rows=40), in_one_batch(operator, data))


@every
def test_scratch_may_be_lost_at_any_time(operator: Operator) -> None:
    data = rows(120, seed=3)
    harness = filled(operator, data)
    chance = random.Random(3)
    for _ in range(15):
        harness.step(rows=chance.randint(0, 20))
        if chance.random() < 0.5:
            harness.forget()
    harness.run()
    assert same(harness.answers(), in_one_batch(operator, data))


@every
def test_restarts_and_replays_change_nothing(operator: Operator, tmp_path: Path) -> None:
    data = rows(120, seed=4)
    harness = filled(operator, data, tmp_path)
    for _ in range(8):
        harness.step(rows=17)
        harness.replay()
        harness.restart()
        harness.replay()
    harness.run()
    assert same(harness.answers(), in_one_batch(operator, data))


FAULTS: dict[str, Callable[[OperatorHarness, random.Random], None]] = {
    "nothing happens": lambda harness, chance: None,
    "the scratch is lost": lambda harness, chance: harness.forget(),
    "a new process goes on": lambda harness, chance: harness.restart(),
    "another process takes its turn": lambda harness, chance: harness.go_to(chance.choice(["one", "other"])),
    "files are lost": lambda harness, chance: harness.lose_files(chance),
    "bits are flipped": lambda harness, chance: harness.flip_bits(chance),
}
TO_FILES = ("files are lost", "bits are flipped")


@every
def test_a_small_batch_after_a_large_one_runs_again_whatever_happened(operator: Operator) -> None:
    data = rows(240, seed=8)
    chance = random.Random(8)
    # What cannot be computed again is not lost here, but in the test below.
    harmless = [name for name in FAULTS if not operator.scratch_is_state or name not in TO_FILES]
    pairs = [(before, between) for before in harmless for between in harmless if before != between]
    harness = filled(operator, data)
    with small_tasks(rows=10):
        for before, between in chance.sample(pairs, 7):
            harness.step(parallelism=3, rows=30)
            FAULTS[before](harness, chance)
            harness.step(rows=3)
            FAULTS[between](harness, chance)
            harness.replay()
            FAULTS[before](harness, chance)
            harness.replay(parallelism=2)
    harness.run()
    assert same(harness.answers(), in_one_batch(operator, data))


@pytest.mark.parametrize("fault", TO_FILES)
@over(CASES_WITH_STATE)
def test_state_that_was_lost_is_missed(operator: Operator, fault: str) -> None:
    """Rows that are in the state are not needed, so they are gone: an error, or the same answer, and never another."""
    data, chance = rows(120, seed=9), random.Random(9)
    wanted, missed = in_one_batch(operator, data), 0
    with small_tasks(rows=10):
        for _ in range(3):
            harness = filled(operator, data)
            harness.step(parallelism=3, rows=50)
            harness.step(rows=30)
            FAULTS[fault](harness, chance)
            error = _error_of(functools.partial(harness.run, rows=30))
            assert error in ("MERGE_STATE_LOST", "TOTALS_LOST", "STATE_LOST", None)
            assert error or same(harness.answers(), wanted)
            missed += error is not None
    assert missed or operator.kind == "landmark"  # which may have its last answer behind it


def _error_of(act: Callable[[], object]) -> str | None:
    try:
        act()
    except QueryError as problem:
        return problem.name
    return None


@every
def test_heartbeat_alone_in_a_new_process(operator: Operator, tmp_path: Path) -> None:
    data = rows(60, seed=6)
    harness = OperatorHarness(operator, {"in": SCHEMA}, directory=tmp_path)
    harness.push("in", data)
    harness.step()
    harness.advance("in", 1_000_000)
    harness.step()
    harness.restart()
    harness.replay()
    harness.restart()
    harness.forget()
    harness.replay()
    assert same(harness.answers(), in_one_batch(operator, data))


@every
def test_worker_that_has_not_looked_for_long(operator: Operator, tmp_path: Path) -> None:
    data = rows(120, seed=7)
    harness = OperatorHarness(operator, {"in": SCHEMA}, directory=tmp_path)
    for at in range(0, 120, 6):
        harness.push("in", data.slice(at, 6))
        harness.step()
        harness.forget()
    harness.advance("in", 1_000_000)
    harness.step()
    assert same(harness.answers(), in_one_batch(operator, data))


@every
def test_empty_batches_answer_nothing(operator: Operator) -> None:
    harness = OperatorHarness(operator, {"in": SCHEMA})
    assert harness.step().num_rows == 0
    harness.push("in", rows(0))
    assert harness.step().num_rows == 0
    harness.push("in", rows(60))
    harness.advance("in", 1_000_000)
    harness.run()
    before = harness.answers().num_rows
    harness.advance("in", 2_000_000)
    assert [harness.step().num_rows for _ in range(3)] == [0, 0, 0]
    assert harness.answers().num_rows == before


@every
def test_columns_of_nothing_but_null(operator: Operator) -> None:
    data = rows(40)
    nothing = {name: pa.nulls(40, SCHEMA.arrow.field(name).type) for name in ("k", "v", "d", "ok")}
    harness = filled(operator, pa.table({**nothing, "ts": data.column("ts")}))
    answer = harness.run(rows=13)
    assert same(answer, in_one_batch(operator, pa.table({**nothing, "ts": data.column("ts")})))
    assert answer.schema == operator.schema(Inputs({"in": MemoryLog(SCHEMA)}))


@every
def test_reached_never_decreases_and_no_later_row_is_older(operator: Operator) -> None:
    harness = filled(operator, rows(120, seed=5))
    reached = MIN_TIME
    for _ in range(30):
        answer = harness.step(rows=5)
        times = answer.column(operator.time).cast(pa.int64()).to_pylist()
        assert times == sorted(times)
        assert all(time >= reached for time in times)
        now = operator.reached(harness.offsets)
        assert now >= max([reached, *([] if operator.reached(harness.offsets) == MIN_TIME else times[:1])])
        reached = now


@every
def test_goes_through_json_and_pickle(operator: Operator) -> None:
    text = json.dumps(operator.to_json())
    assert operator_from_json(json.loads(text)) == operator
    assert pickle.loads(pickle.dumps(operator)) == operator
    log = MemoryLog(SCHEMA)
    log.append(rows(10))
    tasks = operator.plan({"in": Offset()}, {"in": log.offset()}, Inputs({"in": log}), 2)
    assert pickle.loads(pickle.dumps(tasks)) == tasks


@every
def test_says_what_it_does_and_keeps(operator: Operator) -> None:
    told = operator.explain()
    assert told["operator"] == operator.kind
    assert told["inputs"] == list(operator.inputs) == ["in"]
    assert json.loads(json.dumps(told)) == told
    keeps = operator.keeps()
    harness = filled(operator, rows(60))
    harness.run(rows=10)
    kept = [file for file in harness.scratch.rglob("*") if file.is_file()]
    if keeps is None:
        assert kept == []
        assert told["keeps"] is None
    else:
        assert keeps.what
        assert keeps.bound
        assert told["keeps"] == {"what": keeps.what, "bound": keeps.bound}


def test_harness_sees_time_go_back() -> None:
    class Backwards(SelectRows):
        def run(self, task: Any, inputs: Inputs) -> Any:
            for batch in super().run(task, inputs):
                yield batch.take(pa.array(range(batch.num_rows - 1, -1, -1)))

    broken = Backwards("in", (("ts", "ts"),), "ts")
    with pytest.raises(ContractBroken, match="time goes back"):
        filled(broken, rows(20)).step()


def test_harness_sees_an_answer_that_depends_on_scratch() -> None:
    class Remembers(SelectRows):
        def run(self, task: Any, inputs: Inputs) -> Any:
            assert inputs.scratch is not None
            mark = Path(inputs.scratch) / "seen"
            if not mark.exists():
                yield from super().run(task, inputs)
            mark.touch()

    harness = filled(Remembers("in", (("ts", "ts"),), "ts"), rows(20))
    assert harness.step(rows=5).num_rows == 5
    with pytest.raises(ContractBroken, match="another answer"):
        harness.replay()


def test_harness_sees_a_read_of_rows_that_are_not_needed() -> None:
    class LooksBack(SelectRows):
        def run(self, task: Any, inputs: Inputs) -> Any:
            inputs.readers["in"].read(0, 1)
            yield from super().run(task, inputs)

    harness = filled(LooksBack("in", (("ts", "ts"),), "ts"), rows(20))
    harness.step(rows=5)
    with pytest.raises(ContractBroken, match="row 0 is read"):
        harness.step(rows=5)


def test_harness_sees_too_many_tasks() -> None:
    class Eager(SelectRows):
        def plan(self, start: Any, end: Any, inputs: Inputs, parallelism: int) -> Any:
            return super().plan(start, end, inputs, 10)

    log = MemoryLog(SCHEMA)
    log.append(rows(20))
    operator = Eager("in", (("ts", "ts"),), "ts")
    with small_tasks(), pytest.raises(ContractBroken, match="10 tasks were planned, 3 were allowed"):
        run_batch(operator, Inputs({"in": log}), {"in": Offset()}, {"in": log.offset()}, 3)


@every
def test_what_is_due_comes_when_it_is_due_and_nothing_before(operator: Operator) -> None:
    """In silence: from what is due to what is due then, the answers are those of all time at once."""
    data = rows(36, seed=8)
    harness = OperatorHarness(operator, {"in": SCHEMA})
    for at in range(0, 36, 12):
        harness.push("in", data.slice(at, 12))
        harness.step(rows=random.Random(at).choice([None, 5]))
        harness.due()
    harness.run()
    for _ in range(12):
        due = harness.due()
        if not due or due["in"] > 1_000_000:
            break
        harness.advance("in", due["in"])
        harness.step()
    harness.advance("in", 1_000_000)
    harness.step()
    assert same(harness.answers(), in_one_batch(operator, data))

"""The exact words of errors about windowed queries, with line and column."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from tests.sql.conftest import find_stream

MINUTES = "FROM packets WINDOW = INTERVAL 1 MINUTE"


def plan(text: str, *, once: bool = False) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    if once:
        plan_once(statement.select, find_stream)
    else:
        plan_standing(statement.select, find_stream)


def refused(text: str, *, once: bool = False) -> str:
    with pytest.raises(AnabranchError) as caught:
        plan(text, once=once)
    return str(caught.value)


SIZES = [
    ("0 ROWS", "SYNTAX_ERROR (line 1, column 39) a window of 0 rows cannot be. Hint: use a whole number from 1"),
    ("-5 ROWS", "SYNTAX_ERROR (line 1, column 39) a window of -5 rows cannot be. Hint: use a whole number from 1"),
    ("2.5 ROWS", "SYNTAX_ERROR (line 1, column 39) a window of 2.5 rows cannot be. Hint: use a whole number from 1"),
    (
        "5 ROWS SLIDE 0 ROWS",
        "SYNTAX_ERROR (line 1, column 52) a slide of 0 rows cannot be. Hint: use a whole number from 1",
    ),
    (
        "5 ROWS SLIDE -1 ROWS",
        "SYNTAX_ERROR (line 1, column 52) a slide of -1 rows cannot be. Hint: use a whole number from 1",
    ),
    ("INTERVAL -5 SECONDS", 'SYNTAX_ERROR (line 1, column 48) expected a positive length of time, got "-"'),
    (
        "INTERVAL 5 SECONDS SLIDE INTERVAL 0 SECONDS",
        "INTERVAL_OUT_OF_RANGE (line 1, column 73) an interval of 0 SECONDS cannot be used. Hint: use a whole number "
        "of microseconds, more than zero and at most 100 years",
    ),
    (
        "- INTERVAL 5 SECONDS",
        'SYNTAX_ERROR (line 1, column 39) expected the window\'s size, got "-". Hint: write WINDOW = INTERVAL 1 MINUTE '
        "or WINDOW = 1000 ROWS",
    ),
    ("5 ROWS WINDOW = 4 ROWS", "SYNTAX_ERROR (line 1, column 46) there are two WINDOW clauses"),
]


@pytest.mark.parametrize(("size", "error"), SIZES)
def test_a_size_that_cannot_be(size: str, error: str) -> None:
    assert refused(f"SELECT count(*) FROM packets WINDOW = {size}") == error


CALLS = [
    (
        "percentile(length, array(0.5, 0.9))",
        "FUNCTION_ARGUMENTS (line 1, column 27) percentile() takes one share, and a stream cannot hold an array. "
        "Hint: write percentile once for each share",
    ),
    (
        "percentile(length, 1.5)",
        "FUNCTION_ARGUMENTS (line 1, column 27) the share p is a constant from 0 to 1, got 1.5",
    ),
    (
        "percentile(length, -0.5)",
        "FUNCTION_ARGUMENTS (line 1, column 28) the share p is a constant from 0 to 1, got -0.5",
    ),
    (
        "quantile(length, id)",
        "FUNCTION_ARGUMENTS (line 1, column 25) the share p is a constant from 0 to 1, got id",
    ),
    (
        "percentile(length, NULL)",
        "FUNCTION_ARGUMENTS (line 1, column 8) the share p is a constant from 0 to 1, got NULL",
    ),
    (
        "percentile(length)",
        "FUNCTION_ARGUMENTS (line 1, column 8) percentile() takes a value and a share from 0 to 1. Hint: write for "
        "example percentile(x, 0.95)",
    ),
    (
        "percentile_cont(length, 0.5)",
        "FUNCTION_ARGUMENTS (line 1, column 8) percentile_cont() says within which order. Hint: write "
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)",
    ),
    (
        "percentile_disc(0.5) WITHIN GROUP (ORDER BY length DESC)",
        "NOT_IN_THE_LANGUAGE (line 1, column 52) WITHIN GROUP goes from the smallest value up. Hint: leave DESC out; "
        "percentile_disc(1 - p) may give the value beside it",
    ),
    (
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY length DESC)",
        "NOT_IN_THE_LANGUAGE (line 1, column 52) WITHIN GROUP goes from the smallest value up. Hint: leave DESC out; "
        "percentile_cont(p) DESC is percentile_cont(1 - p)",
    ),
    (
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY length, id)",
        "FUNCTION_ARGUMENTS (line 1, column 8) percentile_cont() cannot stand like this before WITHIN GROUP. Hint: "
        "write percentile_cont(0.5), percentile_disc(0.5) or mode() WITHIN GROUP (ORDER BY x)",
    ),
    (
        "percentile_approx(length, 0.5, 100)",
        "FUNCTION_ARGUMENTS (line 1, column 8) approx_percentile() takes a value and a share from 0 to 1. Hint: leave "
        "the accuracy out; the error is at most 0.8 % of the value",
    ),
    (
        "approx_count_distinct(saddr, 0)",
        "FUNCTION_ARGUMENTS (line 1, column 37) the standard error is a constant from 0.01 to 0.4, got 0",
    ),
    ("median(length, id)", "FUNCTION_ARGUMENTS (line 1, column 8) median() takes one argument"),
    ("median(*)", "FUNCTION_ARGUMENTS (line 1, column 8) median(*) means nothing. Hint: name a column"),
    (
        "sum(DISTINCT length)",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) sum(DISTINCT …) cannot be computed over windows. Hint: make a "
        "stream of SELECT DISTINCT … WINDOW = …, and aggregate over its windows",
    ),
    (
        "count(DISTINCT saddr, daddr)",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) count(DISTINCT …) counts the values of one column. Hint: make a "
        "stream of SELECT DISTINCT … WINDOW = …, and count the rows of its windows",
    ),
    (
        "collect_list(saddr)",
        "AGGREGATE_NOT_AVAILABLE (line 1, column 8) collect_list() cannot be computed over windows. Hint: there are: "
        "approx_count_distinct, approx_median, approx_percentile, avg, count, count_if, max, median, min, mode, "
        "percentile, percentile_cont, percentile_disc, stddev, stddev_pop, sum, var_pop, variance",
    ),
    (
        "median(saddr)",
        "AGGREGATE_TYPE_MISMATCH (line 1, column 15) median of STRING was asked for, it needs a number",
    ),
    (
        "sum(*) FILTER (WHERE id > 1)",
        "FUNCTION_ARGUMENTS (line 1, column 8) sum(*) means nothing. Hint: name a column",
    ),
    (
        "count(*) FILTER (WHERE max(id) > 1)",
        "AGGREGATE_MISPLACED (line 1, column 31) an aggregate cannot hold another",
    ),
    (
        "max(id) + abs(id) FILTER (WHERE id > 1)",
        "NOT_IN_THE_LANGUAGE (line 1, column 18) FILTER is for aggregates. Hint: write CASE WHEN … END",
    ),
    (
        "count_if(id > 1, id > 2)",
        "FUNCTION_ARGUMENTS (line 1, column 8) count_if() takes one argument",
    ),
    (
        "median(count(DISTINCT id))",
        "AGGREGATE_MISPLACED (line 1, column 15) an aggregate cannot hold another",
    ),
]


@pytest.mark.parametrize(("call", "error"), CALLS)
def test_a_call_of_an_aggregate_that_is_refused(call: str, error: str) -> None:
    assert refused(f"SELECT {call} {MINUTES}") == error


QUERIES = [
    (
        f"SELECT saddr {MINUTES} ORDER BY nope",
        'COLUMN_NOT_FOUND (line 1, column 63) column "nope" is not in stream "packets". Hint: there are: daddr, id, '
        "length, saddr, ts",
    ),
    (
        f"SELECT saddr {MINUTES} ORDER BY soundex(saddr)",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 63) soundex(saddr) cannot be computed inside a window. "
        "Detail: SOUNDEX(saddr): it is not evaluated here. Hint: put the expression in a CREATE STREAM … AS SELECT … "
        "first and read that stream",
    ),
    (
        f"SELECT saddr, count(*) {MINUTES} GROUP BY saddr ORDER BY length",
        'COLUMN_NOT_GROUPED (line 1, column 88) column "length" has many values in a group. Hint: add length to GROUP '
        "BY, or put it in an aggregate such as max()",
    ),
    (
        f"SELECT DISTINCT saddr {MINUTES} ORDER BY length",
        'COLUMN_NOT_GROUPED (line 1, column 72) column "length" has many values in a group. Hint: select it, too',
    ),
    (
        f"SELECT saddr, count(*) {MINUTES} GROUP BY saddr ORDER BY 3",
        "SYNTAX_ERROR (line 1, column 79) there is no column 3 in the select list",
    ),
    (
        f"SELECT saddr {MINUTES} LIMIT 0",
        "SYNTAX_ERROR (line 1, column 54) LIMIT takes a whole number from 1, got 0. Hint: it is how many rows each "
        "window answers",
    ),
    (
        f"SELECT saddr {MINUTES} LIMIT 3 OFFSET 2",
        "NOT_IN_THE_LANGUAGE (line 1, column 62) a standing query answers from the first row. Hint: leave OFFSET out, "
        "or SUBSCRIBE TO … FROM a number",
    ),
    (
        f"SELECT DISTINCT saddr, count(*) {MINUTES} GROUP BY saddr",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) DISTINCT cannot stand beside aggregates or GROUP BY. Hint: leave "
        "DISTINCT out; GROUP BY gives each group once",
    ),
    (
        f"SELECT soundex(saddr) {MINUTES}",
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW (line 1, column 8) soundex(saddr) cannot be computed inside a window. "
        "Detail: SOUNDEX(saddr): it is not evaluated here. Hint: put the expression in a CREATE STREAM … AS SELECT … "
        "first and read that stream",
    ),
    (
        f"SELECT saddr {MINUTES} WHERE window_end > ts",
        'COLUMN_NOT_FOUND (line 1, column 60) column "window_end" is not in stream "packets". Hint: there are: daddr, '
        "id, length, saddr, ts",
    ),
    (
        "SELECT _time FROM logins WINDOW = 5 ROWS",
        'COLUMN_RESERVED (line 1, column 8) column "_time" is kept for the time. Hint: give it another name with AS',
    ),
    (
        "SELECT * FROM loads WINDOW = INTERVAL 1 DAY",
        'COLUMN_AMBIGUOUS (line 1, column 8) "window_end" is a column of "loads", and inside a window an end of the '
        "window. Hint: give it another name in a CREATE STREAM … AS SELECT window_end AS …",
    ),
    (
        "SELECT load, window_end FROM loads WINDOW = INTERVAL 1 DAY",
        'COLUMN_AMBIGUOUS (line 1, column 14) "window_end" is a column of "loads", and inside a window an end of the '
        "window. Hint: give it another name in a CREATE STREAM … AS SELECT window_end AS …",
    ),
    (
        f"SELECT id {MINUTES} ORDER BY unix_seconds(window_end) - id",
        "NOT_IN_THE_LANGUAGE (line 1, column 60) rows cannot be ordered by the window's ends and the stream's columns "
        "together. Hint: order by the stream's columns alone",
    ),
    (
        "SELECT count(*) FROM packets GROUP BY date_trunc('month', ts)",
        "INTERVAL_NOT_FIXED (line 1, column 39) months differ in length, so they cannot be windows. Hint: group by "
        "date_trunc('day', ts), and add the days up when you ask once",
    ),
    (
        "SELECT date_trunc('YEAR', ts) AS y, count(*) FROM packets GROUP BY y",
        "INTERVAL_NOT_FIXED (line 1, column 8) years differ in length, so they cannot be windows. Hint: group by "
        "date_trunc('day', ts), and add the days up when you ask once",
    ),
    (
        "SELECT count(*) FROM packets GROUP BY date_trunc('week', ts)",
        "NOT_IN_THE_LANGUAGE (line 1, column 39) weeks begin on Monday, and windows of 7 days on Thursday. Hint: group "
        "by date_trunc('day', ts), or write WINDOW = INTERVAL 7 DAYS",
    ),
]


@pytest.mark.parametrize(("text", "error"), QUERIES)
def test_a_windowed_query_that_is_refused(text: str, error: str) -> None:
    assert refused(text) == error


SETS = [
    (
        f"SELECT saddr {MINUTES} INTERSECT SELECT daddr FROM ptb WINDOW = INTERVAL 2 MINUTES",
        "WINDOWS_NOT_ALIGNED (line 1, column 86) INTERSECT compares windows of INTERVAL 1 MINUTE with windows of "
        "INTERVAL 2 MINUTES. Hint: give both sides the same size and slide",
    ),
    (
        f"SELECT saddr {MINUTES} INTERSECT SELECT daddr FROM ptb",
        "WINDOWS_NOT_ALIGNED (line 1, column 71) this side of INTERSECT has no WINDOW. Hint: give both sides the same "
        "WINDOW = …",
    ),
    (
        f"SELECT saddr FROM packets EXCEPT SELECT daddr {MINUTES}",
        "WINDOWS_NOT_ALIGNED (line 1, column 8) this side of EXCEPT has no WINDOW. Hint: give both sides the same "
        "WINDOW = …",
    ),
    (
        "SELECT saddr FROM packets WINDOW = 5 ROWS UNION SELECT daddr FROM ptb WINDOW = 5 ROWS",
        'WINDOWS_NOT_ALIGNED (line 1, column 71) windows of ROWS over "packets" and "ptb" do not end together. Hint: '
        "use windows of time: WINDOW = INTERVAL …",
    ),
    (
        f"SELECT saddr {MINUTES} INTERSECT SELECT daddr, length {MINUTES}",
        "SET_COLUMNS_DIFFER (line 1, column 71) INTERSECT needs as many columns on both sides, got 1 and 2. Hint: "
        "select the columns that are to be compared",
    ),
    (
        f"SELECT saddr {MINUTES} UNION ALL SELECT length {MINUTES}",
        "SET_COLUMNS_DIFFER (line 1, column 71) column 1 of UNION is STRING on the left and INT on the right. Hint: "
        "CAST one of them to the type of the other",
    ),
    (
        f"SELECT id AS __n {MINUTES} UNION SELECT id {MINUTES}",
        'COLUMN_RESERVED (line 1, column 8) column "__n" is kept for counts',
    ),
    (
        f"SELECT saddr || window_end {MINUTES} UNION SELECT daddr {MINUTES}",
        "NOT_IN_THE_LANGUAGE (line 1, column 8) a column of a set operation cannot mix the window's ends with the "
        "stream's columns. Hint: select them as two columns",
    ),
]


@pytest.mark.parametrize(("text", "error"), SETS)
def test_a_set_operation_that_is_refused(text: str, error: str) -> None:
    assert refused(text) == error


EMITS = [
    (
        "SELECT saddr FROM packets EMIT CHANGES",
        "EMIT_WITHOUT_WINDOW (line 1, column 27) EMIT CHANGES is about answers that change, and all of this query "
        "stay. Hint: leave it out, or add WINDOW = INTERVAL … after FROM",
    ),
    (
        "SELECT saddr FROM packets EMIT FINAL",
        "EMIT_WITHOUT_WINDOW (line 1, column 27) EMIT FINAL is about windows, and the query has none. Hint: leave it "
        "out, or add WINDOW = INTERVAL … after FROM",
    ),
    (
        "SELECT saddr FROM packets EMIT CHANGES WINDOW = 5 ROWS",
        "SYNTAX_ERROR (line 1, column 27) EMIT CHANGES ends a query, and more follows. Hint: put it at the end",
    ),
    (
        "SELECT saddr FROM packets EMIT EVERY INTERVAL 5 MINUTES",
        "NOT_IN_THE_LANGUAGE (line 1, column 27) EMIT EVERY is not available. Hint: say how often with WINDOW = … "
        "SLIDE …",
    ),
    (
        f"SELECT length AS _change {MINUTES} EMIT CHANGES",
        'COLUMN_RESERVED (line 1, column 8) column "_change" is kept for what EMIT CHANGES says. Hint: give it another '
        "name with AS",
    ),
]


@pytest.mark.parametrize(("text", "error"), EMITS)
def test_an_emit_that_is_refused(text: str, error: str) -> None:
    assert refused(text) == error


def test_asked_once_a_group_is_no_window_that_could_change() -> None:
    text = "SELECT count(*) FROM packets GROUP BY getminute(ts) EMIT CHANGES"
    assert refused(text, once=True).startswith("EMIT_WITHOUT_WINDOW (line 1, column 53) ")


NOTHING = "so nothing is indexed there. Hint: leave the hint out"
HINTS = [
    (
        "INDX(T)",
        "median(length)",
        'HINT_UNKNOWN (line 1, column 12) there is no hint "INDX". Hint: did you mean "INDEX"?',
    ),
    (
        "BROADCAST(packets)",
        "median(length)",
        'HINT_UNKNOWN (line 1, column 12) there is no hint "BROADCAST". Hint: there are: INDEX(L|T|H|UH|G), '
        "STORAGE(LIST|AGGR|HASH|GROUP), RING(PLAIN|AUX|BW|DB)",
    ),
    (
        "STORAGE(LST)",
        "median(length)",
        'HINT_UNKNOWN (line 1, column 20) STORAGE cannot be "LST". Hint: did you mean "LIST"?',
    ),
    (
        "INDEX(Q)",
        "median(length)",
        'HINT_UNKNOWN (line 1, column 18) INDEX cannot be "Q". Hint: INDEX takes: L, T, H, UH, G',
    ),
    (
        "INDEX",
        "median(length)",
        "HINT_UNKNOWN (line 1, column 12) INDEX is given no value. Hint: INDEX takes: L, T, H, UH, G",
    ),
    ("INDEX(T), INDEX(L)", "median(length)", "HINT_NOT_POSSIBLE (line 1, column 22) INDEX is given twice"),
    (
        "INDEX(G)",
        "median(length)",
        "HINT_NOT_POSSIBLE (line 1, column 12) INDEX(G) counts ranges of values, and median(length) is exact. Hint: "
        "use approx_percentile, or another value",
    ),
    (
        "STORAGE(GROUP)",
        "approx_median(id), count(DISTINCT length)",
        "HINT_NOT_POSSIBLE (line 1, column 12) STORAGE(GROUP) counts ranges of values, and count(DISTINCT length) is "
        "exact. Hint: use approx_percentile, or another value",
    ),
    (
        "STORAGE(GROUP), INDEX(T)",
        "approx_median(length)",
        "HINT_NOT_POSSIBLE (line 1, column 28) approx_median(length) is kept in ranges of values. Hint: use INDEX(G)",
    ),
    (
        "RING(DB)",
        "mode(length)",
        "HINT_NOT_POSSIBLE (line 1, column 12) a ring leads to whole rows, and aggregates need values only. Hint: "
        "leave RING out",
    ),
    (
        "INDEX(T)",
        "sum(length), approx_count_distinct(id)",
        "HINT_NOT_POSSIBLE (line 1, column 12) every aggregate here is kept as a partial value per pane, " + NOTHING,
    ),
    (
        "INDEX(T)",
        "saddr",
        "HINT_NOT_POSSIBLE (line 1, column 12) rows without ORDER BY are kept as they came, " + NOTHING,
    ),
]


@pytest.mark.parametrize(("hint", "selected", "error"), HINTS)
def test_a_hint_that_cannot_be_followed(hint: str, selected: str, error: str) -> None:
    assert refused(f"SELECT /*+ {hint} */ {selected} {MINUTES}") == error


@pytest.mark.parametrize(
    ("hint", "error"),
    [
        (
            "RING(DB), STORAGE(AGGR)",
            "HINT_NOT_POSSIBLE (line 1, column 22) STORAGE(AGGR) keeps values and counts, not rows. Hint: use "
            "STORAGE(LIST)",
        ),
        (
            "INDEX(G)",
            "HINT_NOT_POSSIBLE (line 1, column 12) INDEX(G) counts ranges of values, and rows need each value. Hint: "
            "use INDEX(T)",
        ),
    ],
)
def test_a_hint_that_rows_cannot_follow(hint: str, error: str) -> None:
    assert refused(f"SELECT /*+ {hint} */ saddr {MINUTES} ORDER BY saddr") == error


@pytest.mark.parametrize("once", [False, True])
def test_without_a_window_there_is_nothing_to_index(once: bool) -> None:
    found = refused("SELECT /*+ INDEX(T) */ saddr FROM packets", once=once)
    assert found == "HINT_NOT_POSSIBLE (line 1, column 12) the query has no window, " + NOTHING


def test_the_place_of_a_hint_is_in_the_whole_text() -> None:
    text = (
        f"SHOW STREAMS;\nCREATE CONTINUOUS QUERY q AS\n  SELECT /*+ STORAGE(LIST),\n INDEX(X) */ median(id) {MINUTES}"
    )
    with pytest.raises(AnabranchError, match=r"HINT_UNKNOWN \(line 4, column 8\)"):
        parse(text)

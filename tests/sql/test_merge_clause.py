"""MERGE JOIN among the tokens of a query, and its WITH (…): every option, and every wrong one."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.schema import StreamSchema
from anabranch.sql import parse, plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import MergeOptions, Shedding
from tests.sql.merges import FROM, SECOND, refused, select

TEXT = f"SELECT p.lat {FROM}"


def options(clause: str) -> MergeOptions:
    merging = select(f"{TEXT} {clause}").merge
    assert merging is not None
    return merging.options


# -- where it stands ---------------------------------------------------------------------------------


def test_a_merge_join_is_a_join_whose_word_was_taken_out() -> None:
    found = select(
        "SELECT p.lat FROM rain p MERGE JOIN floods f ON within(p.lat, f.lat, 1) left Merge join winds w ON 1"
    )
    assert found.merge is not None
    assert found.merge.starts == (25, found.text.index("Merge"))
    assert found.merge.options == MergeOptions()
    assert [join.this.name for join in found.tree.args["joins"]] == ["floods", "winds"]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT merge.lat FROM rain AS merge JOIN floods f ON merge.lat = f.lat",
        "SELECT f.lat FROM merge JOIN floods f ON f.lat = 1",
        "SELECT f.lat FROM rain p JOIN floods f ON p.lat = f.merge JOIN winds w ON TRUE",
        "SELECT f.lat FROM rain p JOIN floods f ON p.lat = merge JOIN winds w ON TRUE",
        "SELECT `merge`.lat FROM rain `merge` JOIN floods f ON TRUE",
        "SELECT merge FROM rain",
    ],
)
def test_merge_is_also_a_name(text: str) -> None:
    assert select(text).merge is None


def test_options_stand_behind_any_on() -> None:
    more = "MERGE JOIN winds w ON within(p.lat, w.lat, 1)"
    between, last = select(f"{TEXT} WITH (window = 7) {more}").merge, select(f"{TEXT} {more} WITH (window = 7)").merge
    assert between is not None
    assert last is not None
    assert between.options == last.options == MergeOptions(window=7, step=1)


def test_with_of_window_joins_is_as_it_was() -> None:
    found = select(
        "SELECT p.lat FROM rain p, floods f WINDOW = INTERVAL 1 SECOND WITH (memory = 4096, shed = 'oldest')"
    )
    assert (found.merge, found.shedding) == (None, Shedding(4096, "oldest"))
    with_merge = select(f"{TEXT} WITH (memory = 4096, delta = 0.1)")
    assert with_merge.shedding is None


PLACES = [
    (
        "SELECT p.lat FROM rain p MERGE JOIN floods f WITH (window = 7) ON within(p.lat, f.lat, 1)",
        "SYNTAX_ERROR (line 1, column 46) WITH (…) of a merge stands behind ON. Hint: put it after the last ON, before "
        "WHERE",
    ),
    (
        "SELECT p.lat FROM rain p WITH (window = 7)\nMERGE JOIN floods f ON within(p.lat, f.lat, 1)",
        "SYNTAX_ERROR (line 1, column 26) WITH (…) of a merge stands behind ON. Hint: put it after the last ON, before "
        "WHERE",
    ),
    (
        f"{TEXT}\nWHERE p.lat > 0 WITH (window = 7)",
        "SYNTAX_ERROR (line 2, column 17) WITH (…) of a merge stands behind ON. Hint: put it after the last ON, before "
        "WHERE",
    ),
    (
        f"{TEXT}\nWITH (window = 7) AND p.n = f.n",
        "SYNTAX_ERROR (line 2, column 1) WITH (…) ends an ON, and more of it follows. Hint: put it after the last ON, "
        "before WHERE",
    ),
    (
        f"{TEXT} WITH (window = 7) MERGE JOIN winds w ON within(p.lat, w.lat, 1)\nWITH (step = 1)",
        "SYNTAX_ERROR (line 2, column 1) there are two WITH (…). Hint: write all options once, after the last ON",
    ),
    ("SELECT p.lat MERGE JOIN floods f FROM rain p", 'SYNTAX_ERROR (line 1, column 34) "FROM" was not expected here'),
    (
        "SELECT p.lat FROM rain p MERGE LEFT JOIN floods f",
        'SYNTAX_ERROR (line 1, column 26) "MERGE" was not expected here',
    ),
    ("SELECT p.lat FROM rain p MERGE JOIN", "SYNTAX_ERROR (line 1, column 36) the query is not complete"),
]


@pytest.mark.parametrize(("text", "said"), PLACES)
def test_what_cannot_stand_there_is_told_with_its_place(text: str, said: str) -> None:
    assert refused(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"SELECT * FROM (\n{TEXT})",
            "NOT_IN_THE_LANGUAGE (line 2, column 26) MERGE JOIN cannot stand inside parentheses. Hint: leave them out, "
            "or make the inner query a stream with CREATE STREAM … AS SELECT … MERGE JOIN …",
        ),
        (
            f"({TEXT})",
            "NOT_IN_THE_LANGUAGE (line 1, column 27) MERGE JOIN cannot stand inside parentheses. Hint: leave them out, "
            "or make the inner query a stream with CREATE STREAM … AS SELECT … MERGE JOIN …",
        ),
        (
            "SELECT (SELECT p.lat FROM rain p MERGE JOIN floods f) EMIT EVERY INTERVAL 1 SECOND",
            "NOT_IN_THE_LANGUAGE (line 1, column 34) MERGE JOIN cannot stand inside parentheses. Hint: leave them out, "
            "or make the inner query a stream with CREATE STREAM … AS SELECT … MERGE JOIN …",
        ),
    ],
)
def test_what_cannot_stand_inside_another_query_is_told_when_it_is_planned(text: str, said: str) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    with pytest.raises(AnabranchError) as caught:
        plan_standing(statement.select, lambda name: StreamSchema.of({"lat": "DOUBLE"}))
    assert str(caught.value) == said


# -- options -----------------------------------------------------------------------------------------


def test_defaults_are_those_of_the_operators() -> None:
    assert options("") == options("WITH (Algorithm = 'CGM')") == MergeOptions()
    found = options("")
    assert (found.algorithm, found.policy, found.remainder) == ("cgm", "first", "rest")
    assert (found.window, found.step, found.every) == (5000, 1000, SECOND)
    assert (found.delta, found.over, found.memory) == (None, 20, 64 << 20)


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("algorithm = 'rtm'", MergeOptions(algorithm="rtm")),
        ("ALGORITHM = 'Rtm', Remainder = 'DIFFERENCE'", MergeOptions(algorithm="rtm", remainder="difference")),
        ("remainder = 'rest', algorithm = 'rtm'", MergeOptions(algorithm="rtm")),
        ("policy = 'first'", MergeOptions()),
        ("policy = 'nearest'", MergeOptions(policy="nearest")),
        ("policy = 'all'", MergeOptions(policy="all")),
        ("window = 100", MergeOptions(window=100, step=20)),
        ("window = 1", MergeOptions(window=1, step=1)),
        ("window = 4", MergeOptions(window=4, step=1)),
        ("window = 2147483647, step = 2147483647", MergeOptions(window=2**31 - 1, step=2**31 - 1)),
        ("step = 1", MergeOptions(step=1)),
        ("step = 5000", MergeOptions(step=5000)),
        ("step = 7, window = 7", MergeOptions(window=7, step=7)),
        ("every = 0", MergeOptions(every=None)),
        ("every = INTERVAL 0 SECONDS", MergeOptions(every=None)),
        ("every = INTERVAL 1 MINUTE 30 SECONDS, policy = 'all'", MergeOptions(every=90 * SECOND, policy="all")),
        ("every = INTERVAL '10' MILLISECONDS", MergeOptions(every=10_000)),
        ("delta = 0.02", MergeOptions(delta=0.02)),
        ("delta = 0.5, over = 1", MergeOptions(delta=0.5, over=1)),
        ("delta = 1e-3, memory = '1.5 KiB'", MergeOptions(delta=0.001, memory=1536)),
        ("memory = 4096, over = 9, delta = 0.1", MergeOptions(delta=0.1, over=9, memory=4096)),
    ],
)
def test_an_option(clause: str, wanted: MergeOptions) -> None:
    assert options(f"WITH ({clause})") == wanted
    assert options(f"with ({clause}) WHERE p.lat > 3") == wanted


WRONG = [
    ("widow = 7", 7, 'SYNTAX_ERROR (…) a merge has no option "widow". Hint: did you mean "window"?'),
    (
        "shed = 'random'",
        7,
        'SYNTAX_ERROR (…) a merge has no option "shed". Hint: there are: algorithm, policy, window, step, every, '
        "delta, "
        "over, memory, remainder, pace, wait",
    ),
    ("window = 7, WINDOW = 8", 19, "SYNTAX_ERROR (…) window is given twice"),
    ("", 7, 'SYNTAX_ERROR (…) expected an option, got ")"'),
    ("window 7", 14, 'SYNTAX_ERROR (…) expected =, got "7"'),
    ("window = 7 8", 18, 'SYNTAX_ERROR (…) expected ), got "8"'),
    (
        "algorithm = rtm",
        19,
        "MERGE_OPTION_INVALID (…) algorithm must be 'cgm' or 'rtm', got \"rtm\". Hint: write it in quotes",
    ),
    ("algorithm = 'hash'", 19, "MERGE_OPTION_INVALID (…) algorithm must be 'cgm' or 'rtm', got \"hash\""),
    ("policy = 'best'", 16, "MERGE_OPTION_INVALID (…) policy must be 'first', 'nearest' or 'all', got \"best\""),
    ("policy = 1", 16, "MERGE_OPTION_INVALID (…) policy must be 'first', 'nearest' or 'all', got 1"),
    (
        "algorithm = 'rtm', remainder = 'x'",
        38,
        "MERGE_OPTION_INVALID (…) remainder must be 'rest' or 'difference', got \"x\"",
    ),
    (
        "window = 0",
        16,
        "MERGE_OPTION_INVALID (…) window must be a whole number of rows, 1 or more and at most 2147483647, got 0",
    ),
    (
        "window = 2147483648",
        16,
        "MERGE_OPTION_INVALID (…) window must be a whole number of rows, 1 or more and at most 2147483647, got "
        "2147483648",
    ),
    ("window = 7.5", 16, "MERGE_OPTION_INVALID (…) window must be a whole number of rows, 1 or more, got 7.5"),
    ("window = -7", 16, 'MERGE_OPTION_INVALID (…) window must be a whole number of rows, 1 or more, got "-"'),
    ("window = '7'", 16, 'MERGE_OPTION_INVALID (…) window must be a whole number of rows, 1 or more, got "7"'),
    ("step = 1e3", 14, "MERGE_OPTION_INVALID (…) step must be a whole number of rows, 1 or more, got 1e3"),
    (
        "step = 5001",
        14,
        "MERGE_OPTION_INVALID (…) a step of 5001 rows is more than the window of 5000. Hint: use step = 1000, or a "
        "larger "
        "window",
    ),
    (
        "window = 3, step = 4",
        26,
        "MERGE_OPTION_INVALID (…) a step of 4 rows is more than the window of 3. Hint: use step = 1, or a larger "
        "window",
    ),
    (
        "every = 5",
        15,
        "MERGE_OPTION_INVALID (…) every must be INTERVAL … or 0, got 5. Hint: write for example every = INTERVAL 1 "
        "SECOND",
    ),
    (
        "every = '1 second'",
        15,
        'MERGE_OPTION_INVALID (…) every must be INTERVAL … or 0, got "1 second". Hint: write for example every = '
        "INTERVAL "
        "1 SECOND",
    ),
    (
        "every = INTERVAL 1 MONTH",
        26,
        "INTERVAL_NOT_FIXED (…) a month has no fixed length. Hint: use WEEKS, DAYS, HOURS, MINUTES or SECONDS",
    ),
    ("every = INTERVAL -1 SECOND", 24, 'SYNTAX_ERROR (…) expected a positive length of time, got "-"'),
    *(
        (
            f"delta = {share}",
            15,
            f"MERGE_OPTION_INVALID (…) delta must be a number between 0 and 1, both excluded, got {said}. Hint: "
            "write for "
            "example delta = 0.02",
        )
        for share, said in (
            ("0", "0"),
            ("1", "1"),
            ("1.5", "1.5"),
            ("-0.1", '"-"'),
            ("'0.1'", '"0.1"'),
            ("NULL", '"NULL"'),
        )
    ),
    (
        "delta = 0.1, over = 0",
        27,
        "MERGE_OPTION_INVALID (…) over must be a whole number of rounds, 1 or more and at most 2147483647, got 0",
    ),
    (
        "delta = 0.1, memory = 'lots'",
        29,
        "SYNTAX_ERROR (…) \"lots\" is not a size of memory. Hint: write a number of bytes, or for example '64 MB'",
    ),
    (
        "over = 5",
        7,
        "MERGE_OPTION_INVALID (…) over says how delta is kept, and there is no delta. Hint: add delta = 0.02, or leave "
        "over out",
    ),
    (
        "memory = '64 MB'",
        7,
        "MERGE_OPTION_INVALID (…) memory says how delta is kept, and there is no delta. Hint: add delta = 0.02, or "
        "leave "
        "memory out",
    ),
    (
        "remainder = 'rest'",
        7,
        "MERGE_OPTION_INVALID (…) remainder is for algorithm = 'rtm'. Hint: leave remainder out, or add algorithm = "
        "'rtm'",
    ),
    *(
        (
            f"{name} = {value}, algorithm = 'rtm'",
            7,
            f"MERGE_OPTION_INVALID (…) {name} is for algorithm = 'cgm'. Hint: leave {name} out: with 'rtm' the other "
            "stream is asked for what is near",
        )
        for name, value in (("step", 3), ("delta", 0.1), ("over", 3), ("memory", 4096))
    ),
]


@pytest.mark.parametrize(("clause", "column", "said"), WRONG)
def test_a_wrong_option_is_told_with_its_place(clause: str, column: int, said: str) -> None:
    assert refused(f"{TEXT}\nWITH ({clause}) WHERE p.lat > 3") == said.replace("…", f"line 2, column {column}", 1)


def test_an_unfinished_option_is_told() -> None:
    for end in ("WITH (window =", "WITH (window = 5", "WITH ("):
        assert refused(f"{TEXT} {end}").startswith("SYNTAX_ERROR (line 1, column ")

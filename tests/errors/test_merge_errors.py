"""The exact words of errors about merges, with line and column."""

from __future__ import annotations

import pytest

from tests.sql.merges import FROM, ON, refused

STREAM = "make the merge a stream with CREATE STREAM … AS SELECT … MERGE JOIN …, and"
ALLOWED = "ON of MERGE JOIN holds within(x, y, tolerance) and x = y, joined by AND"
NUMBER, LENGTH = "write a number, zero or more", "write for example INTERVAL 1 SECOND"
DAYS = "write a whole number of days, or for example INTERVAL 1 DAY"
IN_WHERE = "put it in WHERE, which is applied to what was merged"
WRONG_ON = [
    # tolerances, each at its place
    ("within(p.lat, f.lat, -1)", 25, f"MERGE_TOLERANCE_INVALID a tolerance of -1 cannot be negative. Hint: {NUMBER}"),
    (
        "within(p.lat, f.lat, 1 - 2)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of 1 - 2 cannot be negative. Hint: {NUMBER}",
    ),
    ("within(p.lat, f.lat, 1e400)", 25, f"MERGE_TOLERANCE_INVALID a tolerance of 1e400 is not finite. Hint: {NUMBER}"),
    (
        "within(p.lat, f.lat, CAST('NaN' AS DOUBLE))",
        25,
        "MERGE_TOLERANCE_INVALID a tolerance of CAST('NaN' AS DOUBLE) does not fit keys that are numbers. Hint: "
        f"{NUMBER}",
    ),
    (
        "within(p.lat, f.lat, double('Infinity'))",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of double('Infinity') does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    (
        "within(p.lat, f.lat, 1 / 0)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of 1 / 0 does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    (
        "within(p.lat, f.lat, '1')",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of '1' does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    (
        "within(p.lat, f.lat, NULL)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of NULL does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    (
        "within(p.lat, f.lat, TRUE)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of TRUE does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    ("within(p.lat, f.lat, f.n)", 25, f"MERGE_TOLERANCE_INVALID a tolerance of f.n is not a constant. Hint: {NUMBER}"),
    (
        "within(p.lat, f.lat, INTERVAL 1 SECOND)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of INTERVAL 1 SECOND does not fit keys that are numbers. Hint: {NUMBER}",
    ),
    (
        "within(p.ts, f.ts, 5)",
        23,
        "MERGE_TOLERANCE_INVALID a tolerance of 5 does not fit keys that are TIMESTAMP. Hint: write INTERVAL 5 SECONDS",
    ),
    (
        "within(p.ts, f.ts, 0.5)",
        23,
        f"MERGE_TOLERANCE_INVALID a tolerance of 0.5 does not fit keys that are TIMESTAMP. Hint: {LENGTH}",
    ),
    (
        "within(p.ts, f.ts, - INTERVAL 1 HOUR)",
        23,
        f"MERGE_TOLERANCE_INVALID a tolerance of - INTERVAL 1 HOUR cannot be negative. Hint: {LENGTH}",
    ),
    (
        "within(p.ts, f.ts, INTERVAL -1 HOUR)",
        23,
        f"MERGE_TOLERANCE_INVALID a tolerance of INTERVAL -1 HOUR cannot be negative. Hint: {LENGTH}",
    ),
    (
        "within(p.ts, f.ts, INTERVAL 1 HOUR + INTERVAL 1 SECOND)",
        39,
        "MERGE_TOLERANCE_INVALID a tolerance is one INTERVAL. Hint: write for example INTERVAL 1 DAY 2 HOURS",
    ),
    (
        "within(p.ts, f.ts, INTERVAL 1 MONTH)",
        34,
        "INTERVAL_NOT_FIXED a month has no fixed length. Hint: use WEEKS, DAYS, HOURS, MINUTES or SECONDS",
    ),
    (
        "within(p.day, f.day, 1.5)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of 1.5 does not fit keys that are DATE. Hint: {DAYS}",
    ),
    ("within(p.day, f.day, -1)", 25, f"MERGE_TOLERANCE_INVALID a tolerance of -1 cannot be negative. Hint: {DAYS}"),
    (
        "within(p.day, f.day, INTERVAL 1 HOUR)",
        25,
        f"MERGE_TOLERANCE_INVALID a tolerance of INTERVAL 1 HOUR does not fit keys that are DATE. Hint: {DAYS}",
    ),
    # types of keys
    *(
        (
            f"within(p.{one}, f.{other}, 1)",
            4,
            f"MERGE_KEYS_DIFFER the keys of within are {types}; both must be numbers, TIMESTAMP or DATE. Hint: CAST "
            "one of them",
        )
        for one, other, types in (
            ("lat", "ts", "DOUBLE and TIMESTAMP"),
            ("day", "ts", "DATE and TIMESTAMP"),
            ("day", "n", "DATE and BIGINT"),
            ("price", "day", "DECIMAL(10,2) and DATE"),
            ("station", "n", "STRING and BIGINT"),
            ("n", "wet", "INT and BOOLEAN"),
        )
    ),
    (
        "within(p.station, f.station, 1)",
        4,
        "MERGE_KEY_INVALID STRING keys have no distance; within takes numbers, TIMESTAMP or DATE. Hint: merge equal "
        "values: p.station = f.station",
    ),
    (
        "within(f.wet, p.station, 1)",
        4,
        "MERGE_KEY_INVALID STRING and BOOLEAN keys have no distance; within takes numbers, TIMESTAMP or DATE. Hint: "
        "merge "
        "equal values: f.wet = p.station",
    ),
    (
        "within(p.lat, f.lat, 1) AND p.station = f.n",
        32,
        "MERGE_KEYS_DIFFER STRING and BIGINT cannot be compared for equality here. Hint: CAST one of them",
    ),
    (
        "within(exp(p.lat), f.lat, 1)",
        4,
        "EXPRESSION_NOT_EVALUABLE_IN_WINDOW exp(`p.lat`) cannot be computed inside a window. Detail: EXP(`p.lat`): "
        "its last "
        "bit may differ from Spark's. Hint: put the expression in a CREATE STREAM … AS SELECT … first and read that "
        "stream",
    ),
    # sides
    *(
        (
            f"within({arguments}, 1)",
            4,
            "MERGE_CONDITION_INVALID one side must be over p, the other over f. Hint: write within(p.…, f.…, "
            "tolerance)",
        )
        for arguments in (
            "p.lat - f.lat, 0",
            "p.lat, p.lon",
            "f.lat, f.lon",
            "p.lat, 5",
            "NULL, f.n",
            "p.lat, f.lat - p.lat",
        )
    ),
    *(
        (
            f"within(p.lat, f.lat, 1) AND {condition}",
            32,
            f"MERGE_CONDITION_INVALID one side must be over p, the other over f. Hint: {IN_WHERE}, or filter a "
            "stream before "
            "with CREATE STREAM … AS SELECT … WHERE …",
        )
        for condition in ("p.n = 5", "f.station = 'x'", "p.n = p.lat", "p.n - f.n = 0")
    ),
    # conditions
    (
        "p.n = f.n",
        4,
        "MERGE_CONDITION_INVALID nothing says how near p and f must be. Hint: add within(p.…, f.…, tolerance) to ON",
    ),
    (
        "TRUE",
        -7,
        "MERGE_CONDITION_INVALID nothing says how near p and f must be. Hint: add within(p.…, f.…, tolerance) to ON",
    ),
    *(
        (f"within(p.lat, f.lat, 1) AND {condition}", 32, f"MERGE_CONDITION_INVALID {ALLOWED}. Hint: {IN_WHERE}")
        for condition in ("p.n > f.n", "p.n <=> f.n", "p.n IS NULL", "p.wet", "p.n IN (f.n)", "abs(p.lat - f.lat) < 1")
    ),
    *(
        (condition, column, f"MERGE_CONDITION_INVALID {ALLOWED}. Hint: leave OR and NOT around within out")
        for condition, column in (
            ("within(p.lat, f.lat, 1) OR p.n = f.n", 4),
            ("NOT within(p.lat, f.lat, 1)", 8),
            ("within(p.lat, f.lat, 1) = TRUE", 4),
            ("within(p.lat, f.lat, 1) IS NOT NULL", 4),
        )
    ),
    *(
        (call, 4, "FUNCTION_ARGUMENTS within takes two keys and a tolerance. Hint: write within(a.x, b.x, 0.5)")
        for call in (
            "within(p.lat, f.lat)",
            "within()",
            "within(p.lat, f.lat, 1, 2)",
            "within(within(p.n, f.n, 1), f.n, 1)",
        )
    ),
    # names and functions
    ("within(lon, f.lon, 1)", 11, 'COLUMN_AMBIGUOUS column "lon" may be that of p or f. Hint: write p.lon or f.lon'),
    ("within(p.lot, f.lon, 1)", 11, 'COLUMN_NOT_FOUND column "lot" is not in "p". Hint: did you mean "lon"?'),
    ("within(g.lot, f.lon, 1)", 11, 'COLUMN_NOT_FOUND "g.lot" is not a column of this join. Hint: there are: p, f'),
    (
        "within(max(p.lat), f.lat, 1)",
        11,
        "AGGREGATE_MISPLACED ON cannot hold an aggregate. Hint: aggregate in a CREATE STREAM … AS SELECT … before",
    ),
    (
        "within(p.lat, f.lat, rand())",
        25,
        "FUNCTION_NOT_REPEATABLE rand() gives another answer each time, so a standing query could not be repeated "
        "after a "
        "failure. Hint: use a column of the stream, such as its time",
    ),
]


@pytest.mark.parametrize(("condition", "column", "said"), WRONG_ON)
def test_a_wrong_condition_is_told_with_its_place(condition: str, column: int, said: str) -> None:
    name, _, rest = said.partition(" ")
    line, column = (2, column) if column > 0 else (1, 37)  # what is missing is told where the stream stands
    text = f"SELECT p.lat FROM rain p MERGE JOIN floods f\nON {condition}"
    assert refused(text) == f"{name} (line {line}, column {column}) {rest}"


WRONG = [
    (
        "SELECT p.lat FROM rain p MERGE JOIN floods f",
        "MERGE_CONDITION_INVALID (line 1, column 37) nothing says how near p and f must be. Hint: add within(p.…, f.…, "
        "tolerance) to ON",
    ),
    (
        f"SELECT p.lat {FROM} MERGE JOIN winds w ON p.n = w.lat",
        "MERGE_CONDITION_INVALID (line 1, column 98) nothing says how near p, f and w must be. Hint: add "
        "within(p.…, "
        "w.…, tolerance) to ON",
    ),
    *(
        (
            text,
            f"NOT_IN_THE_LANGUAGE (line 1, column {column}) MERGE JOIN cannot stand beside other joins. Hint: "
            f"{STREAM} join "
            "that",
        )
        for text, column in (
            ("SELECT p.lat FROM rain p, floods f MERGE JOIN winds w ON within(p.lat, w.lat, 1)", 27),
            (f"SELECT p.lat {FROM}, winds w", 77),
            (f"SELECT p.lat {FROM} JOIN winds w ON p.lat = w.lat", 81),
            (f"SELECT p.lat FROM winds w JOIN rain p ON TRUE MERGE JOIN floods f {ON}", 32),
        )
    ),
    *(
        (
            f"SELECT p.lat FROM rain p {words} MERGE JOIN floods f {ON}",
            f"NOT_IN_THE_LANGUAGE (line 1, column 26) there is no {words} MERGE JOIN. Hint: {hint}",
        )
        for words, hint in (
            ("RIGHT", "change the places of the streams, and write LEFT MERGE JOIN"),
            ("RIGHT OUTER", "change the places of the streams, and write LEFT MERGE JOIN"),
            ("LEFT SEMI", "write MERGE JOIN, and select columns of the streams before it only"),
            ("ANTI", "write LEFT ANTI MERGE JOIN"),
            ("NATURAL", "write MERGE JOIN … ON within(…)"),
            ("CROSS", "write MERGE JOIN … ON within(…)"),
        )
    ),
    (
        "SELECT p.lat FROM rain p MERGE JOIN floods f USING (lat)",
        "NOT_IN_THE_LANGUAGE (line 1, column 37) there is no MERGE JOIN … USING. Hint: write MERGE JOIN … ON within(…)",
    ),
    *(
        (
            f"SELECT p.lat FROM rain p {words} MERGE JOIN floods f {ON} MERGE JOIN winds w ON within(p.lat, w.lat, 1)",
            f"NOT_IN_THE_LANGUAGE (line 1, column 26) {words} MERGE JOIN can only be the last. Hint: put it last, or "
            f"{STREAM} merge that",
        )
        for words in ("FULL", "FULL OUTER", "LEFT ANTI")
    ),
    (
        f"SELECT p.lat {FROM}\nMERGE JOIN winds w ON within(p.lat, w.lat, 1) WITH (algorithm = 'rtm')",
        "MERGE_OPTION_INVALID (line 2, column 47) algorithm = 'rtm' merges two streams, and there are 3. Hint: merge "
        "two of them in a CREATE STREAM … AS SELECT … first, or use algorithm = 'cgm'",
    ),
    (
        f"SELECT p.lat FROM rain p FULL MERGE JOIN floods f {ON}\nWITH (algorithm = 'rtm')",
        "MERGE_OPTION_INVALID (line 2, column 1) algorithm = 'rtm' cannot tell which rows of f have no partner. Hint: "
        "write LEFT MERGE JOIN, or use algorithm = 'cgm'",
    ),
    (
        f"SELECT p.lat {FROM} AND within(f.lon + 1, p.lon, 1)\nWITH (algorithm = 'rtm')",
        "MERGE_OPTION_INVALID (line 2, column 1) algorithm = 'rtm' asks for ranges of columns, and `f.lon` + 1 is "
        "computed. Hint: put the column of f alone, or use algorithm = 'cgm'",
    ),
    (
        "SELECT p.lat FROM rain p MERGE JOIN floods p ON TRUE",
        'SOURCE_EXISTS (line 1, column 37) two streams of FROM are called "p". Hint: give one of them another name: '
        "floods "
        "AS …",
    ),
    (
        "SELECT p.lat FROM rain p MERGE JOIN nowhere f ON TRUE",
        'STREAM_NOT_FOUND (line 1, column 37) stream "nowhere" does not exist',
    ),
    (
        f"SELECT p.lat FROM rain p MERGE JOIN (SELECT * FROM floods) f {ON}",
        "NOT_IN_THE_LANGUAGE (line 1, column 45) a standing query cannot read a subquery. Hint: make the inner query a "
        "stream with CREATE STREAM … AS SELECT …",
    ),
    *(
        (
            f"SELECT {column} FROM rain p LEFT ANTI MERGE JOIN floods f {ON}",
            "COLUMN_NOT_FOUND (line 1, column 8) LEFT ANTI MERGE JOIN answers rows without a partner, so there is "
            "nothing "
            'of "f". Hint: select columns of the streams before it',
        )
        for column in ("f.lat", "F.*")
    ),
    (
        f"SELECT depth FROM rain p LEFT ANTI MERGE JOIN floods f {ON}",
        'COLUMN_NOT_FOUND (line 1, column 8) column "depth" is not in p. Hint: there are: day, lat, lon, n, price, '
        "rain, "
        "station, ts, wet",
    ),
    *(
        (f"SELECT p.lat {FROM}\n{clause}", f"NOT_IN_THE_LANGUAGE (line 2, column 1) {said}")
        for clause, said in (
            (
                "WINDOW = INTERVAL 1 SECOND",
                "a merge has no WINDOW clause: its windows are counted in rows. Hint: write WITH (window = 5000) "
                "after ON",
            ),
            (
                "WINDOW(p, f) = INTERVAL 1 SECOND",
                "a merge has no WINDOW clause: its windows are counted in rows. Hint: write WITH (window = 5000) "
                "after ON",
            ),
            ("GROUP BY p.lat", f"a merge cannot have GROUP BY. Hint: {STREAM} group the windows of that"),
            (
                "HAVING p.lat > 1",
                f"a merge cannot have HAVING. Hint: use WHERE; or {STREAM} aggregate the windows of that",
            ),
            ("ORDER BY p.lat", f"a merge answers in the order of its rounds. Hint: {STREAM} order the windows of that"),
            ("LIMIT 3", f"a merge has no last row to stop at. Hint: {STREAM} limit the windows of that"),
            *(
                (
                    f"EMIT {kind}{' INTERVAL 1 SECOND' if kind == 'EVERY' else ''}",
                    f"a merge answers each row once, in order, without EMIT {kind}. Hint: leave it out; WITH (every = "
                    "INTERVAL …) says how often there is a round",
                )
                for kind in ("CHANGES", "FINAL", "IN ORDER", "EVERY")
            ),
        )
    ),
    (
        f"SELECT DISTINCT p.lat {FROM}",
        f"NOT_IN_THE_LANGUAGE (line 1, column 8) DISTINCT would keep every row ever merged. Hint: {STREAM} use "
        "DISTINCT in "
        "windows of that",
    ),
    (
        f"SELECT p.lat, 1 + count(*) {FROM}",
        f"NOT_IN_THE_LANGUAGE (line 1, column 19) a merge cannot have aggregates. Hint: {STREAM} aggregate the "
        "windows of "
        "that",
    ),
    (
        f"SELECT /*+ INDEX(T) */ p.lat {FROM}",
        "HINT_NOT_POSSIBLE (line 1, column 12) a merge chooses itself how its rows are kept. Hint: leave the hint out",
    ),
    (
        f"SELECT lat FROM winds UNION SELECT p.lat {FROM}",
        f"NOT_IN_THE_LANGUAGE (line 1, column 54) a side of UNION cannot have MERGE JOIN. Hint: {STREAM} name that",
    ),
    (
        f"WITH x AS (SELECT 1) SELECT p.lat {FROM}",
        "NOT_IN_THE_LANGUAGE (line 1, column 1) WITH cannot be used in a standing query. Hint: make each step a "
        "stream with "
        "CREATE STREAM … AS SELECT …",
    ),
    (
        f"SELECT p.lat {FROM} WHERE p.rain",
        "CONDITION_NOT_BOOLEAN (line 1, column 84) the condition `p.rain` is FLOAT, it must be BOOLEAN",
    ),
    (
        f"SELECT p.lat, f.lat {FROM}",
        'COLUMN_EXISTS (line 1, column 15) column "lat" comes twice in the answer. Hint: give one of them another '
        "name with "
        "AS",
    ),
    *(
        (
            text,
            f"FUNCTION_NOT_ALLOWED (line 1, column {text.index('within') + 1}) within(…) can only stand in the ON of "
            "MERGE "
            "JOIN. Hint: write MERGE JOIN … ON within(…), or elsewhere abs(x - y) <= tolerance",
        )
        for text in (
            "SELECT lat FROM rain WHERE within(lat, lon, 1)",
            "SELECT within(lat, lon, 1) FROM rain",
            f"SELECT WITHIN(p.lat, f.lat, 1) {FROM}".replace("WITHIN", "within"),
            "SELECT p.n FROM rain p JOIN floods f ON within(p.lat, f.lat, 1)",
        )
    ),
    (
        f"SELECT p.n {FROM} WHERE NOT within(p.n, f.n, 1)",
        "FUNCTION_NOT_ALLOWED (line 1, column 84) within(…) can only stand in the ON of MERGE JOIN. Hint: write "
        "MERGE JOIN … "
        "ON within(…), or elsewhere abs(x - y) <= tolerance",
    ),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_a_merge_cannot_have_is_told_with_its_place(text: str, said: str) -> None:
    assert refused(text) == said

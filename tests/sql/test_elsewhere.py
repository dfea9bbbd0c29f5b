"""What people know from other systems: each is refused with something to write instead, which works."""

from __future__ import annotations

import pytest

from anabranch.errors import AnabranchError
from anabranch.functions import function_names
from anabranch.schema import StreamSchema
from anabranch.sql import parse, plan_standing
from anabranch.sql.reading.elsewhere import CLAUSES, FUNCTIONS, STATEMENTS, Instead
from anabranch.sql.statements import CreateQuery, CreateStreamAs, SelectOnce

S = StreamSchema.of({"k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")
T = StreamSchema.of({"k": "STRING", "w": "INT", "ts": "TIMESTAMP"}, time="ts")
ALL: list[Instead] = [*FUNCTIONS.values(), *STATEMENTS.values(), *CLAUSES.values()]


def works(text: str) -> None:
    for statement in parse(text):
        if isinstance(statement, SelectOnce | CreateQuery | CreateStreamAs):
            plan_standing(statement.select, lambda name: {"s": S, "t": T}[name])


def test_what_is_to_be_written_instead_works() -> None:
    for example in {instead.example for instead in ALL if instead.example}:
        works(example)
    assert all(instead.hint for instead in ALL)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_others_say_what_to_write(name: str) -> None:
    assert name not in {known.lower() for known in function_names()}
    with pytest.raises(AnabranchError) as failure:
        works(f"SELECT k, {name}(ts) AS x FROM s")
    assert FUNCTIONS[name].hint in str(failure.value)


@pytest.mark.parametrize("words", STATEMENTS, ids=" ".join)
def test_statements_of_others_say_what_to_write(words: tuple[str, ...]) -> None:
    with pytest.raises(AnabranchError) as failure:
        works(f"{' '.join(words)} s (k) AS SELECT k FROM s")
    assert str(failure.value) == (
        f"NOT_IN_THE_LANGUAGE (line 1, column 1) {' '.join(words)} is not available. Hint: {STATEMENTS[words].hint}"
    )


OTHERS = [
    "SELECT count(*) FROM TABLE(CUMULATE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTE))",
    "SELECT k, count(*) FROM s WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY k EMIT CHANGES",
    "SELECT k, count(*) FROM s WINDOW HOPPING (SIZE 1 MINUTE, ADVANCE BY 10 SECONDS) GROUP BY k",
    "SELECT k, count(*) FROM s WINDOW SESSION (5 MINUTES) GROUP BY k",
    "SELECT k FROM s MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.v AS v PATTERN (A B) DEFINE B AS B.v > 1)",
    "CREATE STREAM p (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)",
    "CREATE STREAM p (k STRING, p AS PROCTIME())",
    "CREATE STREAM p (k STRING PRIMARY KEY, v INT)",
    "CREATE STREAM p (k STRING KEY, v INT)",
    "SELECT s.k, t.w FROM s JOIN t WITHIN 1 HOUR ON s.k = t.k EMIT CHANGES",
]


@pytest.mark.parametrize("text", OTHERS)
def test_clauses_of_others_say_what_to_write(text: str) -> None:
    with pytest.raises(AnabranchError) as failure:
        works(text)
    assert failure.value.name == "NOT_IN_THE_LANGUAGE"
    assert any(instead.hint in str(failure.value) for instead in CLAUSES.values())


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", "LEFT SEMI JOIN t"),
        ("k IN (SELECT k FROM t)", "LEFT SEMI JOIN t"),
        ("NOT EXISTS (SELECT 1 FROM t WHERE t.k = s.k)", "LEFT ANTI JOIN t"),
        ("k NOT IN (SELECT k FROM t)", "LEFT ANTI JOIN t"),
    ],
)
def test_subqueries_in_conditions_say_which_join_does_it(condition: str, wanted: str) -> None:
    with pytest.raises(AnabranchError, match="cannot hold a subquery") as failure:
        works(f"SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE WHERE {condition} GROUP BY k")
    assert wanted in str(failure.value)


def test_names_that_others_have_as_words_are_names_here() -> None:
    works("SELECT k AS session, v AS tumble, ts AS hop FROM s")
    works("CREATE STREAM events (tumble INT, hop STRING, `session` STRING, key STRING)")

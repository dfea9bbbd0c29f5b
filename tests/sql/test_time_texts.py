"""Texts that are read as times: none that the clock decides in a standing query, none that does not exist."""

from __future__ import annotations

import pytest

from anabranch.errors import SqlError
from anabranch.sql import parse, plan_once, plan_standing
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select
from tests.sql.test_safety import Lookup

BY_THE_CLOCK = [
    "TIMESTAMP 'now'",
    "timestamp 'Today'",
    "DATE 'today'",
    "DATE ' YESTERDAY '",
    "TIMESTAMP 'tomorrow CET'",
    "TIMESTAMP_NTZ 'now'",
    "TIMESTAMP_LTZ 'now'",
    "TIMESTAMP '10:00:00'",
    "TIMESTAMP 'T10:00'",
    "CAST('now' AS TIMESTAMP)",
    "TRY_CAST('now' AS TIMESTAMP)",
    "CAST('today' AS DATE)",
    "CAST('now' AS TIMESTAMP_NTZ)",
    "CAST(('10:00:00') AS TIMESTAMP)",
    "'now'::TIMESTAMP",
    "'10:00'::TIMESTAMP",
    "timestamp('now')",
    "date('now')",
    "to_timestamp('now')",
    "to_timestamp_ntz('now')",
    "to_timestamp_ltz('10:00:00')",
    "try_to_timestamp('10:00:00')",
    "to_date('today')",
    "try_to_date('today')",
    "hour('10:00:00')",
    "extract(HOUR FROM '10:00:00')",
    "date_trunc('HOUR', '10:00:00')",
    "date_add('today', 1)",
    "datediff(DATE '2026-01-01', 'today')",
    "window('now', '1 hour')",
    "from_json(saddr, 'at TIMESTAMP').at",
    "variant_get(parse_json(saddr), '$.at', 'timestamp')",
    "date_format(now(), 'yyyy')",
    "unix_timestamp()",
    "localtimestamp()",
]
OF_NO_TIME = [
    "TIMESTAMP '2026-11-31 00:00:00'",
    "DATE '2026-02-30'",
    "DATE '2025-02-29'",
    "DATE '2026-13-01'",
    "DATE ''",
    "DATE 'abc'",
    "TIMESTAMP '2026-01-01 24:00:00'",
    "TIMESTAMP '2026-01-01 10:60:00'",
    "TIMESTAMP '2026-01-01 10:00:00 Mars/Olympus'",
    "TIMESTAMP_NTZ '2026-02-30'",
]
REPEATABLE = [
    "TIMESTAMP 'epoch'",
    "DATE 'epoch'",
    "CAST('10:00:00' AS DATE)",
    "CAST('2026-02-30' AS DATE)",
    "to_timestamp('10:00:00', 'HH:mm:ss')",
    "saddr = 'now'",
    "concat(saddr, '10:00:00')",
    "TIMESTAMP '2026-01-01 10:00:00 Europe/Paris'",
    "TIMESTAMP '2026-1-1 1:2:3.5+02:00'",
    "DATE '2024-02-29'",
    "from_json(saddr, 'at TIMESTAMP_NTZ').at",
    "unix_timestamp(ts)",
]


def select(expression: str) -> Select:
    statement = parse(f"SELECT id, {expression} AS x FROM packets")[0]
    assert isinstance(statement, SelectOnce)
    return statement.select


@pytest.mark.parametrize("expression", BY_THE_CLOCK)
def test_a_standing_query_refuses_a_text_that_the_clock_decides_and_a_single_answer_takes_it(
    expression: str, lookup: Lookup
) -> None:
    with pytest.raises(SqlError) as caught:
        plan_standing(select(expression), lookup)
    assert caught.value.name == "FUNCTION_NOT_REPEATABLE"
    assert caught.value.column is not None
    assert caught.value.column > len("SELECT id")
    plan_once(select(expression), lookup)


@pytest.mark.parametrize("expression", OF_NO_TIME)
def test_a_literal_of_no_time_is_refused_where_it_stands(expression: str, lookup: Lookup) -> None:
    for plan in (plan_standing, plan_once):
        with pytest.raises(SqlError) as caught:
            plan(select(expression), lookup)
        assert caught.value.name == "LITERAL_INVALID"
        assert caught.value.column == len("SELECT id, ") + expression.index("'") + 1


@pytest.mark.parametrize("expression", REPEATABLE)
def test_other_texts_stay_what_they_are(expression: str, lookup: Lookup) -> None:
    plan_standing(select(expression), lookup)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("TIME '10:00:00'", "TYPE_NOT_SUPPORTED"),
        ("CAST(saddr AS TIME)", "TYPE_NOT_SUPPORTED"),
        ("DOUBLE '1.5'", "SYNTAX_ERROR"),
        ("DATETIME '2026-01-01'", "SYNTAX_ERROR"),
        ("TIMESTAMP '2026-01-01'::DATE", "SYNTAX_ERROR"),
    ],
)
def test_literals_that_spark_has_not_are_refused(expression: str, name: str, lookup: Lookup) -> None:
    for plan in (plan_standing, plan_once):
        with pytest.raises(SqlError, match=name):
            plan(select(expression), lookup)

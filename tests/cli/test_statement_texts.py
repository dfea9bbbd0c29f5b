"""Cutting a text into statements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.cli.statement_texts import is_complete, split


def texts(sql: str) -> list[str]:
    return [statement.text for statement in split(sql)]


def test_semicolons_in_quotes_and_comments_do_not_count() -> None:
    sql = "SELECT ';', \";\", `;` -- ;\n/* ; */ ; SHOW STREAMS;"
    assert texts(sql) == ["SELECT ';', \";\", `;` -- ;\n/* ; */", "SHOW STREAMS"]


@pytest.mark.parametrize("sql", ["", "  ;; ; ", "-- only a comment", "/* only\n; */ ;"])
def test_nothing_is_no_statement(sql: str) -> None:
    assert texts(sql) == []


def test_escaped_quotes_stay_inside() -> None:
    assert texts(r"SELECT 'it''s; \'; x'; b") == [r"SELECT 'it''s; \'; x'", "b"]


def test_a_statement_knows_where_it_begins() -> None:
    first, second = split("a;\n  -- note\n  b c;")
    assert (first.line, first.column) == (1, 1)
    assert (second.line, second.column) == (3, 3)


@pytest.mark.parametrize(
    ("sql", "complete"),
    [
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; SELECT", False),
        ("", True),
    ],
)
def test_a_text_is_complete_at_its_last_semicolon(sql: str, complete: bool) -> None:
    assert is_complete(sql) is complete


@given(st.text(alphabet="ab;'\"`-/*\n \\", max_size=40))
def test_nothing_but_space_comments_and_semicolons_is_lost(sql: str) -> None:
    for statement in split(sql):
        assert statement.text in sql
        assert sql.splitlines(keepends=True)[statement.line - 1][statement.column - 1 :][:1] == statement.text[0]

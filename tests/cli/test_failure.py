"""Errors as a person sees them, text for text."""

from __future__ import annotations

import io
import json

from anabranch.cli.failure import StatementError, render, report
from anabranch.errors import DataError, SqlError


def test_name_message_detail_and_hint_have_a_line_each() -> None:
    error = DataError("TIME_WENT_BACK", "12 rows were late", detail="2 s are allowed", hint="raise ALLOW SKEW")
    assert render(error) == "TIME_WENT_BACK: 12 rows were late\nDetail: 2 s are allowed\nHint: raise ALLOW SKEW"


def test_the_place_is_underlined_in_the_statement() -> None:
    error = SqlError("COLUMN_NOT_FOUND", 'column "sadr" does not exist', line=2, column=8)
    text = render(StatementError(error, "SELECT count(*),\n       sadr\nFROM packets"))
    assert text.splitlines() == [
        'COLUMN_NOT_FOUND (line 2, column 8): column "sadr" does not exist',
        "   2 |        sadr",
        "     |        ^^^^",
    ]


def test_a_statement_inside_a_file_is_placed_in_the_file() -> None:
    error = SqlError("SYNTAX", "wrong", line=1, column=3)
    text = render(StatementError(error, "a b c", first_line=10, first_column=5))
    assert text.splitlines()[0] == "SYNTAX (line 10, column 7): wrong"
    assert text.splitlines()[1] == "  10 | a b c"


def test_a_place_outside_the_text_is_told_without_a_picture() -> None:
    error = SqlError("SYNTAX", "wrong", line=9, column=3)
    assert render(StatementError(error, "SELECT")) == "SYNTAX (line 9, column 3): wrong"


def test_a_very_long_line_is_cut_around_the_place() -> None:
    error = SqlError("SYNTAX", "wrong", line=1, column=5001)
    lines = render(StatementError(error, "x" * 4999 + " bad " + "y" * 3000)).splitlines()
    assert max(len(line) for line in lines) < 200
    assert lines[1][lines[2].index("^") :].startswith("bad")


def test_colour_is_only_for_terminals() -> None:
    error = DataError("NAME", "message", hint="hint")
    assert "\033[" in render(error, color=True)
    out = io.StringIO()
    report(error, to=out)
    assert "\033[" not in out.getvalue()


def test_json_is_the_error_as_data() -> None:
    out = io.StringIO()
    report(DataError("NAME", "message", hint="do it"), as_json=True, to=out)
    assert json.loads(out.getvalue()) == {"error": {"name": "NAME", "message": "message", "hint": "do it"}}

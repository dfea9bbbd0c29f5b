"""What the shell offers at the cursor, marked | in these texts."""

from __future__ import annotations

import re

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from anabranch.cli.completion import KEYWORDS, Names, SqlCompleter, candidates
from anabranch.functions import function_names
from anabranch.sql.reading.names import quoted
from anabranch.sql.statements import STATEMENTS, Syntax

NAMES = Names(
    {"packets": ("saddr", "length", "ts"), "rooms": ("room", "t"), "load": ("bytes", "_time"), "odd name": ("a b",)},
    frozenset({"load"}),
)


def offered(text: str) -> list[str]:
    before, after = text.split("|")
    return [word for word, _ in candidates(before, after, NAMES)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("sel|", "SELECT"),
        ("SELECT * FROM pa|", "packets"),
        ("SELECT * FROM |", "load"),
        ("INSERT INTO r|", "rooms"),
        ("SUBSCRIBE TO l|", "load"),
        ("DROP QUERY l|", "load"),
        ("SELECT sa| FROM packets", "saddr"),
        ("SELECT saddr, le| FROM packets", "length"),
        ("SELECT * FROM packets WHERE sa|", "saddr"),
        ("SELECT * FROM packets, ro|", "rooms"),
        ("SELECT p.l| FROM packets p", "length"),
        ("SELECT packets.s| FROM packets", "saddr"),
        ("SELECT * FROM packets WINDOW = INTERVAL 10 se|", "SECOND"),
        ("SELECT coun| FROM packets", "count"),
        ("CREATE CONTIN|", "CONTINUOUS QUERY"),
        ("SELECT * FROM odd|", "`odd name`"),
        ("CREATE STREAM s FROM |", "dataspace"),
        ("CREATE STREAM s FROM dataspace OPTIONS (|", "url"),
        ("CREATE STREAM s FROM dataspace OPTIONS (url 'grpc://a', t|", "token"),
        ("CREATE STREAM s (a INT) OPTIONS (segment_a|", "segment_age_seconds"),
        ("CREATE STREAM s AS SELECT * FROM p|", "packets"),
    ],
)
def test_the_first_offer_fits_the_place(text: str, first: str) -> None:
    assert offered(text)[0] == first


@pytest.mark.parametrize("text", ["SELECT 'sel|", "-- sel|", "/* sel|", "SELECT 'it''s sel|", ""])
def test_nothing_is_offered_inside_quotes_and_comments(text: str) -> None:
    assert offered(text + ("" if "|" in text else "|")) == []


def test_columns_of_other_streams_are_not_offered() -> None:
    assert "room" not in offered("SELECT r| FROM packets")
    assert offered("SELECT x.s| FROM packets p") == []


def test_the_whole_word_is_not_offered_again() -> None:
    assert "packets" not in offered("SELECT * FROM packets|")


def test_keywords_follow_the_case_that_is_typed() -> None:
    completer = SqlCompleter(lambda: NAMES)
    event = CompleteEvent(text_inserted=True)

    def words(text: str) -> list[str]:
        return [c.text for c in completer.get_completions(Document(text), event)]

    assert words("sel") == ["select", "select from archive"]
    assert words("SEL") == ["SELECT", "SELECT FROM ARCHIVE"]
    assert words("") == []


def test_odd_names_are_quoted() -> None:
    assert [quoted(n) for n in ("plain_1", "a b", "tick`s", "1st")] == ["plain_1", "`a b`", "`tick``s`", "`1st`"]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda each: each.name)
def test_every_word_of_every_statement_is_offered(statement: Syntax) -> None:
    words = {word for keyword in KEYWORDS for word in keyword.split()}
    assert set(re.findall(r"\b[A-Z]{2,}\b", f"{statement.name} {statement.syntax}")) <= words
    assert any(text == statement.name for text, _ in candidates(statement.name[:3], "", NAMES))


def test_every_function_that_may_be_called_is_offered() -> None:
    assert len(function_names()) > 500
    for name in (name for name in function_names() if len(name) > 1):
        assert name in [text for text, _ in candidates(f"SELECT {name[:-1]}", "", NAMES)]
    assert "median" in offered("SELECT med| FROM packets")

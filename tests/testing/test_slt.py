"""The runner of `.slt` files says what is wrong and where, and sees every difference."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.schema import TIME_TYPE
from anabranch.testing.slt import SPARKLESS_WAYS, Mismatch, SltError, parse, play_file
from anabranch.testing.slt.cells import shown, split, table_of
from anabranch.testing.sparkless import NeedsSpark

HEADER = "# name: a/b.slt\n# description: a test\n# group: a\n\n"
STREAM = "statement ok\nCREATE STREAM s (k STRING, v INT, ts TIMESTAMP) TIMESTAMP BY ts\n\n"
PUSH = "push s\nk | v | ts\na | 1 | 2026-01-01 00:00:00\nb | 2 | 2026-01-01 00:00:01\n\n"
QUERY = "statement ok\nCREATE CONTINUOUS QUERY q AS SELECT k, v FROM s\n\n"
RIGHT = "answers q\n----\nk | v | _time\na | 1 | 2026-01-01 00:00:00\nb | 2 | 2026-01-01 00:00:01\n"


def run(text: str, tmp_path: Path, way: int = 0) -> None:
    play_file(parse(HEADER + text, "f.slt"), SPARKLESS_WAYS[way], tmp_path / "db")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("selec ok\n", "'selec' is no record"),
        ("statement\nSELECT 1\n", "statement takes 1 to 2 words, got 0"),
        ("statement maybe\nSELECT 1\n", "a statement is ok or error NAME"),
        ("statement ok\n", "statement needs lines below it"),
        ("restart\nnow\n", "restart takes no lines below"),
        ("answers q\n", "answers has no expected rows"),
        ("query\nSELECT 1\n----\n", "query has no expected rows"),
    ],
)
def test_wrong_record_is_told_with_its_line(text: str, why: str) -> None:
    with pytest.raises(SltError, match=f"f.slt:5: {why}"):
        parse(HEADER + text, "f.slt")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("# name: a\n# group: b\n\n", "f.slt:1: the header lacks description"),
        ("# name: a\n# colour: b\n\n", "f.slt:2: the header takes name, description, group"),
    ],
)
def test_wrong_header_is_told(text: str, why: str) -> None:
    with pytest.raises(SltError, match=why):
        parse(text, "f.slt")


def test_records_know_their_lines_words_and_bodies() -> None:
    first, second = parse(HEADER + "# a comment\npush `a``b.c` error X\nv\n1\n\nanswers q\n----\nv\n").records
    assert (first.line, first.words, first.body) == (6, ("a`b.c", "error", "X"), ("v", "1"))
    assert (second.line, second.expected, second.expected_line) == (10, ("v",), 12)


@pytest.mark.parametrize("way", range(len(SPARKLESS_WAYS)), ids=[way.name for way in SPARKLESS_WAYS])
def test_right_answer_passes_and_a_wrong_one_does_not(tmp_path: Path, way: int) -> None:
    run(STREAM + QUERY + PUSH + RIGHT, tmp_path / "right", way)
    with pytest.raises(Mismatch, match=r"f.slt:16: answers q"):
        run(STREAM + QUERY + PUSH + RIGHT.replace("b | 2", "b | 3"), tmp_path / "wrong", way)


@pytest.mark.parametrize(
    "wrong",
    [
        RIGHT.replace("k | v", "k | w"),
        RIGHT.replace("v | _time", "_time | v"),
        RIGHT.replace("a | 1 | 2026-01-01 00:00:00\n", ""),
        RIGHT + "b | 2 | 2026-01-01 00:00:01\n",
        "answers q\n----\nk | v | _time\nb | 2 | 2026-01-01 00:00:01\na | 1 | 2026-01-01 00:00:00\n",
        RIGHT.replace("a |", "NULL |"),
        RIGHT.replace("a |", '"a " |'),
    ],
    ids=["name", "order of columns", "row missing", "row too many", "order of rows", "null", "blank"],
)
def test_every_difference_is_seen(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(Mismatch, match="the answer differs"):
        run(STREAM + QUERY + PUSH + wrong, tmp_path)


def test_difference_is_shown_as_a_diff(tmp_path: Path) -> None:
    with pytest.raises(Mismatch) as caught:
        run(STREAM + QUERY + PUSH + RIGHT.replace("b | 2", "b | 3"), tmp_path)
    assert str(caught.value) == (
        "f.slt:16: answers q\nthe answer differs:\n k | v | _time\n a | 1 | 2026-01-01 00:00:00\n"
        "-b | 3 | 2026-01-01 00:00:01\n+b | 2 | 2026-01-01 00:00:01"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("statement ok\nDROP STREAM t\n", "failed with STREAM_NOT_FOUND"),
        ("statement error STREAM_NOT_FOUND\nDROP STREAM IF EXISTS t\n", "but it went well"),
        ("statement error STREAM_IS_USED\nDROP STREAM t\n", "wanted error STREAM_IS_USED, got STREAM_NOT_FOUND"),
        ("statement error STREAM_NOT_FOUND\nDROP STREAM t\n----\nSTREAM_NOT_FOUND else\n", "the answer differs"),
        ("query contains\nDESCRIBE s\n----\nv | INT\nk | STRING\n", "'k | STRING' is missing"),
        ("push s error TYPE_MISMATCH\nk\nx\n", "but it went well"),
        ("answers nobody\n----\nk\n", "failed with QUERY_NOT_FOUND"),
    ],
)
def test_statement_that_goes_otherwise_is_seen(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(Mismatch, match=why.replace("|", r"\|")):
        run(STREAM + text, tmp_path)


def test_exact_error_may_be_broken_into_lines(tmp_path: Path) -> None:
    text = 'STREAM_NOT_FOUND stream "t" does not exist.\nHint: SHOW STREAMS lists them'
    run(STREAM + f"statement error STREAM_NOT_FOUND\nDROP STREAM t\n----\n{text}\n", tmp_path)


def test_row_of_the_wrong_length_is_a_fault_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(SltError, match=r"f.slt:8: push s: .*2 cells for 3 columns"):
        run(STREAM + "push s\nk | v | ts\na | 1\n", tmp_path)


def test_standing_query_for_spark_sql_is_not_played_without_spark(tmp_path: Path) -> None:
    with pytest.raises(NeedsSpark):
        run(STREAM + "statement ok\nCREATE CONTINUOUS QUERY q AS SELECT reverse(k) AS u FROM s\n", tmp_path)


def test_cells_go_there_and_back() -> None:
    table = pa.table(
        {
            "s": ["", "a|b", 'say "x"', '"', "NULL", None, " x ", "tab\t", "ünï"],
            "i": pa.array([0, -1, None, 2**62, 1, 2, 3, 4, 5], pa.int64()),
            "d": [0.5, None, float("inf"), float("-inf"), 1e300, -2.25, 0.0, 3.0, 4.0],
            "m": pa.array([Decimal("1.50"), None, *[Decimal("-0.01")] * 7], pa.decimal128(5, 2)),
            "b": [True, False, None, True, True, True, True, True, True],
            "raw": pa.array([b"", b"\x00\xff", None, *[b"|"] * 6], pa.binary()),
            "ts": pa.array([0, -1, None, 10**15, 10**15 + 500_000, 1, 2, 3, 4], pa.int64()).cast(TIME_TYPE),
        }
    )
    text = shown(table)
    lines = (" | ".join(text.names), *(" | ".join(row) for row in text.cells))
    assert table_of(lines, table.schema).equals(table)


def test_quotes_that_do_not_match_are_told() -> None:
    assert split('"a" | b') == ['"a"', "b"]
    with pytest.raises(ValueError, match="do not match"):
        split('"a | b')

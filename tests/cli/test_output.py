"""Rows on the way out: for people, pipes and programs."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import os
import pty

import pyarrow as pa
import pytest

from anabranch.cli.output import MAX_ROWS_ON_TERMINAL, Mode, RowPrinter, mode_of
from anabranch.cli.terminal import clock_time, has_color, is_terminal

MOMENT = datetime.datetime(2026, 11, 15, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
TABLE = pa.table(
    {
        "name": ["ada", None],
        "n": pa.array([7, 12345], pa.int64()),
        "ts": pa.array([MOMENT, MOMENT.replace(microsecond=0)], pa.timestamp("us", "UTC")),
    }
)


def printed(mode: Mode, table: pa.Table, *more: pa.Table) -> str:
    out = io.StringIO()
    printer = RowPrinter(mode, out)
    printer.print(table)
    for each in more:
        printer.print_more(each)
    return out.getvalue()


def test_a_pipe_gets_aligned_text() -> None:
    assert printed("plain", TABLE).splitlines() == [
        "name      n  ts",
        "ada       7  2026-11-15 12:00:00.250000",
        "NULL  12345  2026-11-15 12:00:00",
    ]


def test_rows_that_follow_have_no_second_header() -> None:
    assert printed("plain", TABLE, TABLE.slice(0, 1)).splitlines()[3:] == ["ada       7  2026-11-15 12:00:00.250000"]


def test_arrays_and_structs_are_told_from_text() -> None:
    table = pa.table({"a": [["it's", None, "1"], [], None], "s": [{"x": 1.5, "y": [True]}, {"x": None, "y": []}, None]})
    assert [line.split() for line in printed("plain", table).splitlines()[1:]] == [
        ["['it''s',", "NULL,", "'1']", "{x:", "1.5,", "y:", "[true]}"],
        ["[]", "{x:", "NULL,", "y:", "[]}"],
        ["NULL", "NULL"],
    ]
    first = json.loads(printed("json", table).splitlines()[0])
    assert first == {"a": ["it's", None, "1"], "s": {"x": 1.5, "y": [True]}}


def test_json_is_one_object_per_row() -> None:
    table = pa.table(
        {
            "d": pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 2)),
            "x": [float("nan")],
            "b": [b"\x00\xff"],
            "day": [datetime.date(2026, 11, 15)],
            "ts": pa.array([MOMENT], pa.timestamp("us", "UTC")),
            "s": ["ü"],
            "none": pa.nulls(1),
        }
    )
    assert json.loads(printed("json", table)) == {
        "d": "1.50",
        "x": "nan",
        "b": "AP8=",
        "day": "2026-11-15",
        "ts": "2026-11-15T12:00:00.250000Z",
        "s": "ü",
        "none": None,
    }


@pytest.mark.parametrize("mode", ["plain", "table"])
def test_values_cannot_drive_the_terminal(mode: Mode) -> None:
    text = printed(mode, pa.table({"s": ["a\x1b[2Jb\nc", "[red]x[/red]"]}))
    assert "\x1b[2J" not in text
    assert "\\x1b[2Jb\\nc" in text
    assert "[red]x[/red]" in text


def test_a_long_value_and_a_long_result_are_cut_for_people_only() -> None:
    long = pa.table({"s": ["x" * 500]})
    assert "x" * 100 not in printed("plain", long)
    assert "x" * 500 in printed("json", long)
    many = pa.table({"n": list(range(MAX_ROWS_ON_TERMINAL + 5))})
    assert "5 more rows" in printed("table", many)
    assert len(printed("plain", many).splitlines()) == MAX_ROWS_ON_TERMINAL + 6


def test_an_empty_result_still_has_its_header() -> None:
    assert printed("plain", TABLE.slice(0, 0)) == "name  n  ts\n"
    assert printed("json", TABLE.slice(0, 0)) == ""


def test_mode_follows_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        assert mode_of(False, terminal) == "table"
        assert mode_of(True, terminal) == "json"
        assert has_color(terminal)
        monkeypatch.setenv("NO_COLOR", "1")
        assert not has_color(terminal)
        monkeypatch.setenv("TERM", "dumb")
        assert not is_terminal(terminal)
    os.close(ours)
    assert mode_of(False, io.StringIO()) == "plain"


def test_a_stream_without_rows_has_no_time() -> None:
    assert clock_time(None) == clock_time(-(2**63)) == "-"
    assert clock_time(43_200_250_000) == "12:00:00.2"

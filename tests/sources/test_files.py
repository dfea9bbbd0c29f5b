"""Files as rows: every format, and everything that can be wrong with one."""

from __future__ import annotations

import datetime
import gzip
import io
import json
import sys
import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import DataError
from anabranch.schema import StreamSchema
from anabranch.sources import END, FORMATS, FileSource, NewValue, open_file, values_of

Write = Callable[[str, bytes | str], Path]
PACKETS = StreamSchema.of({"saddr": "STRING", "length": "INT", "ts": "TIMESTAMP"}, time="ts")
ARRIVAL = StreamSchema.of({"room": "STRING", "t": "DOUBLE"})
NOON = datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC)
ROWS: list[dict[str, Any]] = [
    {"saddr": "10.0.0.1", "length": 40, "ts": NOON},
    {"saddr": None, "length": 1500, "ts": NOON + datetime.timedelta(microseconds=1)},
]


def rows_of(path: Path | str, schema: StreamSchema = PACKETS, format: str | None = None) -> list[dict[str, object]]:
    return [row for table in open_file(str(path), schema, format) for row in table.to_pylist()]


def failure_of(path: Path | str, schema: StreamSchema = PACKETS, format: str | None = None) -> DataError:
    with pytest.raises(DataError) as caught:
        rows_of(path, schema, format)
    return caught.value


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def _write(name: str, content: bytes | str) -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return _write


def as_format(format: str) -> bytes:
    table = pa.Table.from_pylist(ROWS, schema=PACKETS.arrow)
    out = io.BytesIO()
    if format == "csv":
        return b"ts,saddr,length\n2026-11-15 12:00:00,10.0.0.1,40\n2026-11-15T12:00:00.000001Z,,1500\n"
    if format == "json":
        lines = [{**row, "ts": row["ts"].isoformat()} for row in ROWS]
        return "\n".join(json.dumps(line) for line in lines).encode()
    if format == "parquet":
        pq.write_table(table, out)
    else:
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("format", sorted(FORMATS))
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("named", [False, True], ids=["by content", "by name"])
def test_every_format_gives_the_same_rows(write: Write, format: str, packed: bool, named: bool) -> None:
    content = as_format(format)
    name = ("rows." + format if named else "rows") + (".gz" if packed else "")
    assert rows_of(write(name, gzip.compress(content) if packed else content)) == ROWS


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_standard_input_is_read_in_every_format(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    pipe = io.TextIOWrapper(io.BufferedReader(io.BytesIO(as_format(format))))
    monkeypatch.setattr(sys, "stdin", pipe)
    assert rows_of("-", format=format) == ROWS


def test_arrow_stream_format_is_read_like_the_file_format(write: Write) -> None:
    out = io.BytesIO()
    table = pa.Table.from_pylist(ROWS, schema=PACKETS.arrow)
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    assert rows_of(write("rows.arrow", out.getvalue())) == ROWS


class TestCsv:
    def test_header_may_differ_in_case_and_have_a_byte_order_mark(self, write: Write) -> None:
        assert rows_of(write("a.csv", b"\xef\xbb\xbfTS, Length \r\n2026-11-15T12:00:00Z,7\r\n")) == [
            {"ts": NOON, "length": 7}
        ]

    def test_unquoted_empty_is_null_and_quoted_empty_is_empty(self, write: Write) -> None:
        path = write("a.csv", 'saddr,ts\n,2026-11-15\n"",2026-11-15\n"a\nb",2026-11-15\n')
        assert [row["saddr"] for row in rows_of(path)] == [None, "", "a\nb"]

    def test_times_with_and_without_offset_and_finer_than_a_microsecond_mix(self, write: Write) -> None:
        path = write(
            "a.csv",
            "ts\n2026-11-15T14:00:00+02:00\n2026-11-15 12:00\n2026-11-15 12:00:00.000000999\n2026-11-15\n",
        )
        noon, midnight = NOON, NOON.replace(hour=0)
        assert [row["ts"] for row in rows_of(path)] == [noon, noon, noon, midnight]

    def test_no_header_is_refused_with_an_example(self, write: Write) -> None:
        error = failure_of(write("a.csv", "10.0.0.1,40,2026-11-15\n"))
        assert error.name == "HEADER_MISSING"
        assert "saddr,length,ts" in str(error.hint)

    def test_unknown_column_names_the_nearest_one(self, write: Write) -> None:
        error = failure_of(write("a.csv", "sadr,ts\nx,2026-11-15\n"))
        assert (error.name, error.hint) == ("COLUMN_NOT_FOUND", 'did you mean "saddr"?')

    def test_missing_time_column_is_refused(self, write: Write) -> None:
        assert failure_of(write("a.csv", "saddr\nx\n")).name == "COLUMN_MISSING"

    def test_a_column_twice_is_refused(self, write: Write) -> None:
        assert failure_of(write("a.csv", "ts,TS\n2026-11-15,2026-11-15\n")).name == "COLUMN_EXISTS"

    @pytest.mark.parametrize(
        ("row", "name", "says"),
        [
            ("x,many,2026-11-15", "TYPE_MISMATCH", 'line 3: column "length" is INT, got "many"'),
            ("x,9999999999,2026-11-15", "TYPE_MISMATCH", 'column "length" is INT, got "9999999999"'),
            ("x,1,yesterday", "TYPE_MISMATCH", 'line 3: column "ts" is TIMESTAMP, got "yesterday"'),
            ("x,1", "ROW_NOT_READABLE", "line 3: expected 3 columns, got 2"),
        ],
    )
    def test_a_bad_row_is_named_by_file_and_line(self, write: Write, row: str, name: str, says: str) -> None:
        path = write("a.csv", f"saddr,length,ts\nx,1,2026-11-15\n{row}\n")
        error = failure_of(path)
        assert error.name == name
        assert str(path) in error.message
        assert says in error.message

    def test_a_bad_row_far_down_still_has_its_line(self, write: Write) -> None:
        good = "x,1,2026-11-15T00:00:00Z\n"
        path = write("a.csv", "saddr,length,ts\n" + good * 400_000 + "x,?,2026-11-15T00:00:00Z\n")
        assert "line 400002:" in failure_of(path).message

    def test_invalid_utf8_is_named_by_line(self, write: Write) -> None:
        error = failure_of(write("a.csv", b"saddr,ts\n\xff\xfe,2026-11-15\n"))
        assert error.name == "TEXT_NOT_UTF8"
        assert "line 2" in error.message

    def test_an_open_quote_that_swallows_the_file_is_told(self, write: Write) -> None:
        path = write("a.csv", 'saddr,ts\n"' + "x,2026-11-15\n" * 700_000)
        assert failure_of(path).name == "ROW_TOO_LARGE"

    @pytest.mark.parametrize("content", ["", "\n\n", "saddr,length,ts\n", "saddr,length,ts"])
    def test_a_file_without_rows_gives_none(self, write: Write, content: str) -> None:
        assert rows_of(write("a.csv", content)) == []

    def test_arrival_time_is_left_to_the_stream(self, write: Write) -> None:
        assert rows_of(write("a.csv", "t,room\n1.5,kitchen\n"), ARRIVAL) == [{"t": 1.5, "room": "kitchen"}]


class TestJson:
    def test_an_array_is_read_like_lines(self, write: Write) -> None:
        path = write(
            "a.json", '\n[ {"ts": "2026-11-15T12:00:00Z",\n "saddr": "]é"} ,\n{"ts": "2026-11-15 12:00:00"}\n]\n'
        )
        assert rows_of(path) == [
            {"saddr": "]é", "length": None, "ts": NOON},
            {"saddr": None, "length": None, "ts": NOON},
        ]

    def test_an_array_across_blocks_loses_nothing(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("anabranch.sources.json_rows.BLOCK_BYTES", 7)
        items = [{"ts": "2026-11-15T12:00:00Z", "saddr": "ä€𝄞" * (i % 5), "length": i * 1111} for i in range(40)]
        path = write("a.json", json.dumps(items, ensure_ascii=False))
        assert [(row["saddr"], row["length"]) for row in rows_of(path)] == [(i["saddr"], i["length"]) for i in items]

    def test_lines_across_blocks_lose_nothing(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("anabranch.sources.json_rows.BLOCK_BYTES", 50)
        path = write("a.json", "".join(f'{{"ts": "2026-11-15T12:00:00Z", "length": {i}}}\n' for i in range(99)))
        assert [row["length"] for row in rows_of(path)] == list(range(99))

    @pytest.mark.parametrize("content", ["", "\n \n", "[]", " [ ] "])
    def test_a_file_without_rows_gives_none(self, write: Write, content: str) -> None:
        assert rows_of(write("a.json", content)) == []

    GOOD = '{"ts": "2026-11-15T12:00:00Z"}'

    @pytest.mark.parametrize(
        ("item", "name", "says"),
        [
            ('{"ts": "2026-11-15", "length": "40"}', "TYPE_MISMATCH", 'column "length" is INT, got "40"'),
            ('{"ts": "2026-11-15", "length": true}', "TYPE_MISMATCH", 'column "length" is INT, got true'),
            ('{"ts": "2026-11-15", "length": 1.5}', "TYPE_MISMATCH", 'column "length" is INT, got 1.5'),
            ('{"ts": "2026-11-15", "length": 5000000000}', "TYPE_MISMATCH", "got 5000000000"),
            ('{"ts": 1763208000}', "TYPE_MISMATCH", 'column "ts" is TIMESTAMP, got 1763208000'),
            ('{"ts": "soon"}', "TYPE_MISMATCH", 'got "soon"'),
            ('{"ts": "2026-11-15", "sadr": "x"}', "COLUMN_NOT_FOUND", 'column "sadr" is not in the stream'),
            ("[1]", "ROW_NOT_READABLE", "got an array where an object is wanted"),
            ('{"ts": ', "ROW_NOT_READABLE", "not JSON"),
            ("{bad}", "ROW_NOT_READABLE", "not JSON"),
        ],
    )
    @pytest.mark.parametrize("array", [False, True], ids=["lines", "array"])
    def test_a_bad_item_is_named_by_line(self, write: Write, array: bool, item: str, name: str, says: str) -> None:
        content = f"[{self.GOOD},\n{item},\n{self.GOOD}]" if array else f"{self.GOOD}\n{item}\n{self.GOOD}\n"
        error = failure_of(write("a.json", content))
        assert error.name == name
        assert says in error.message
        assert "line 2" in error.message or (array and "line 3" in error.message)

    def test_an_array_that_stops_in_the_middle_is_told(self, write: Write) -> None:
        assert failure_of(write("a.json", f"[{self.GOOD},")).name == "ROW_NOT_READABLE"

    @pytest.mark.parametrize("before", ["", "["])
    def test_invalid_utf8_is_named_by_line(self, write: Write, before: str) -> None:
        content = before.encode() + self.GOOD.encode() + b'\n{"ts": "2026-11-15", "saddr": "\xff"}\n'
        error = failure_of(write("a.json", content))
        assert error.name == "TEXT_NOT_UTF8"
        assert "line 2" in error.message

    def test_arrival_time_is_left_to_the_stream(self, write: Write) -> None:
        assert rows_of(write("a.json", '{"room": "kitchen"}\n'), ARRIVAL) == [{"room": "kitchen", "t": None}]

    def test_every_type_has_a_json_form(self, write: Write) -> None:
        schema = StreamSchema.of(
            {"b": "BOOLEAN", "d": "DATE", "n": "DECIMAL(10, 2)", "x": "BINARY", "f": "FLOAT", "ts": "TIMESTAMP"},
            time="ts",
        )
        line = '{"b": true, "d": "2026-11-15", "n": 1.5, "x": "ab", "f": 0.5, "ts": "2026-11-15T12:00:00Z"}'
        (row,) = rows_of(write("a.json", line), schema)
        assert [str(row[name]) for name in "bdnxf"] == ["True", "2026-11-15", "1.50", "b'ab'", "0.5"]
        assert rows_of(write("b.json", f"[{line}]"), schema) == [row]


NESTED = StreamSchema.of(
    {"l": "ARRAY<DECIMAL(5,1)>", "o": "STRUCT<a: INT, at: TIMESTAMP, d: ARRAY<DATE>>", "ts": "TIMESTAMP"}, time="ts"
)
NESTED_LINES = """{"l": [1.5, null], "o": {"a": 1, "at": "2026-11-15T12:00Z", "d": ["2026-11-15"]}, "ts": "2026-11-15"}
{"l": [], "o": null, "ts": "2026-11-16"}
{"o": {"d": [null]}, "ts": "2026-11-17"}
"""


class TestNested:
    def test_arrays_and_structs_are_read_from_json(self, write: Write) -> None:
        rows = rows_of(write("a.json", NESTED_LINES), NESTED)
        at = datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC)
        assert [row["l"] for row in rows] == [[Decimal("1.5"), None], [], None]
        assert rows[0]["o"] == {"a": 1, "at": at, "d": [datetime.date(2026, 11, 15)]}
        assert [row["o"] for row in rows[1:]] == [None, {"a": None, "at": None, "d": [None]}]
        assert rows_of(write("b.json", f"[{NESTED_LINES.strip().replace(chr(10), ',')}]"), NESTED) == rows

    @pytest.mark.parametrize("name", ["parquet", "arrow"])
    def test_and_from_files_that_have_them(self, write: Write, name: str) -> None:
        wanted = rows_of(write("a.json", NESTED_LINES), NESTED)
        table, out = pa.Table.from_pylist(wanted, schema=NESTED.arrow), io.BytesIO()
        if name == "parquet":
            pq.write_table(table, out)
        else:
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
        assert rows_of(write(f"a.{name}", out.getvalue()), NESTED) == wanted

    @pytest.mark.parametrize("array", [False, True])
    @pytest.mark.parametrize(
        "wrong", ['"o": {"b": 1}', '"o": [1]', '"l": 1', '"l": [true]', '"o": {"a": 1.5}', '"o": {"at": "noon"}']
    )
    def test_a_part_that_does_not_fit_is_told(self, write: Write, wrong: str, array: bool) -> None:
        text = NESTED_LINES + f'{{"ts": "2026-11-18", {wrong}}}'
        if array:
            text = "[" + text.replace("\n", ",\n") + "]"
        problem = failure_of(write("a.json", text), NESTED)
        assert problem.name == "TYPE_MISMATCH"
        assert "line 4" in problem.message

    def test_csv_does_not_hold_them(self, write: Write) -> None:
        problem = failure_of(write("a.csv", "l,ts\n1,2026-11-15\n"), NESTED)
        assert problem.name == "TYPE_NOT_SUPPORTED"
        assert problem.hint is not None
        assert rows_of(write("b.csv", "ts\n2026-11-15\n"), NESTED)


class TestBinaryFormats:
    @pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
    @pytest.mark.parametrize("content", [b"", b"not at all"])
    def test_what_is_no_such_file_is_told(self, write: Write, name: str, content: bytes) -> None:
        assert failure_of(write(name, content)).name == "FILE_NOT_READABLE"

    def test_a_truncated_parquet_file_is_told(self, write: Write) -> None:
        assert failure_of(write("a.parquet", as_format("parquet")[:-20])).name == "FILE_NOT_READABLE"

    def test_unknown_and_missing_columns_are_refused(self, write: Write) -> None:
        for columns, name in (({"sadr": ["x"]}, "COLUMN_NOT_FOUND"), ({"saddr": ["x"]}, "COLUMN_MISSING")):
            out = io.BytesIO()
            pq.write_table(pa.table(columns), out)
            assert failure_of(write("a.parquet", out.getvalue())).name == name


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert failure_of(tmp_path / "none.csv").name == "FILE_NOT_FOUND"
    assert failure_of(tmp_path).name == "FILE_NOT_READABLE"


def test_a_truncated_gzip_file_is_told(write: Write) -> None:
    packed = gzip.compress(("ts\n" + "2026-11-15T12:00:00Z\n" * 1000).encode())
    assert failure_of(write("a.csv.gz", packed[:-10])).name == "FILE_NOT_READABLE"


def test_an_unknown_format_is_told(write: Write) -> None:
    error = failure_of(write("a.csv", "ts\n"), format="cvs")
    assert (error.name, error.hint) == ("FORMAT_NOT_KNOWN", 'did you mean "csv"?')


def test_memory_does_not_grow_with_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.sources.csv_rows.BLOCK_BYTES", 1 << 16)

    def highest(rows: int) -> int:
        path = write("a.csv", "saddr,length,ts\n" + "10.0.0.1,40,2026-11-15T12:00:00Z\n" * rows)
        before, peak, seen = pa.total_allocated_bytes(), 0, 0
        tracemalloc.start()
        for table in open_file(str(path), PACKETS):
            seen += table.num_rows
            peak = max(peak, pa.total_allocated_bytes() - before)
        peak += tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert seen == rows
        return peak

    assert highest(900_000) < 1.5 * highest(300_000)


def test_file_source_gives_tables_and_then_the_end(write: Write) -> None:
    with FileSource(PACKETS, str(write("a.csv", as_format("csv")))) as source:
        (value,) = values_of(source)
        assert isinstance(value, NewValue)
        assert value.time is None
        assert source.read_stream() is END

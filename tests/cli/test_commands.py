"""append, tail, top and sql on a real database, without Spark."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.cli.append import in_batches
from anabranch.cli.main import main
from anabranch.cli.top import Speeds

Run = Callable[..., tuple[int, str, str]]
CREATE = "CREATE STREAM packets (saddr STRING, length INT, ts TIMESTAMP) TIMESTAMP BY ts"


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "river"
    monkeypatch.setenv("ANABRANCH_DB", str(path))
    assert main(["sql", "-c", CREATE]) == 0
    capsys.readouterr()
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def _run(*argv: str) -> tuple[int, str, str]:
        code = main(argv)
        out, err = capsys.readouterr()
        return code, out, err

    return _run


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("saddr,length,ts\n" + "".join(f"10.0.0.{i},{i},2026-11-15T12:00:{i:02}Z\n" for i in range(30)))
    return path


def test_append_says_how_many_rows_and_tail_shows_them(db: Path, run: Run, csv: Path) -> None:
    code, out, err = run("append", "packets", str(csv), "--batch", "7")
    assert (code, err) == (0, "")
    assert out.startswith("30 rows appended to packets in ")
    code, out, err = run("tail", "packets", "-n", "2", "--json")
    assert [json.loads(line)["length"] for line in out.splitlines()] == [28, 29]
    assert run("tail", "packets", "-n", "1")[1].splitlines()[1].startswith("10.0.0.29      29  2026-11-15 12:00:29")


def test_append_reads_standard_input(db: Path, run: Run, csv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(csv.read_bytes()))))
    code, out, _ = run("append", "packets", "-", "--json")
    summary = json.loads(out)
    assert (code, summary["rows"], summary["rejected"]) == (0, 30, 0)


def test_append_reports_rejects_and_keeps_them(db: Path, run: Run, csv: Path) -> None:
    run("append", "packets", str(csv))
    csv.write_text("saddr,length,ts\nlate,1,2026-11-15T11:00:00Z\nfine,2,2026-11-15T13:00:00Z\n")
    code, out, _ = run("append", "packets", str(csv))
    assert code == 0
    assert out.startswith("1 row appended")
    assert "1 row rejected: anabranch tail packets.rejects says why" in out
    assert json.loads(run("tail", "packets.rejects", "--json")[1])["saddr"] == "late"


def test_append_stops_at_a_bad_row_and_says_what_is_in(db: Path, run: Run, csv: Path) -> None:
    csv.write_text(csv.read_text() + "x,many,2026-11-15T13:00:00Z\n")
    code, _, err = run("append", "packets", str(csv), "--batch", "10")
    assert code == 1
    assert err.startswith(f'TYPE_MISMATCH: {csv}, line 32: column "length" is INT, got "many"')


def test_append_to_a_stream_that_is_not_there_is_told(db: Path, run: Run, csv: Path) -> None:
    code, _, err = run("append", "packet", str(csv))
    assert code == 1
    assert 'Hint: did you mean "packets"?' in err


def test_commands_do_not_make_a_database_by_accident(tmp_path: Path, run: Run) -> None:
    for argv in (["append", "s", "f.csv"], ["tail", "s"], ["top"]):
        code, _, err = run(*argv, "--db", str(tmp_path / "none"))
        assert code == 1
        assert err.startswith("DATABASE_NOT_FOUND")
    assert not (tmp_path / "none").exists()


def test_sql_prints_each_result_and_stops_at_the_first_error(db: Path, run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(
        "INSERT INTO packets VALUES ('a', 1, TIMESTAMP '2026-11-15 12:00:00');\nSHOW STREAMS;\n\n"
        "  DESCRIBE STREAM packet;\nSHOW QUERIES;"
    )
    code, out, err = run("sql", str(script))
    assert code == 1
    assert out.splitlines()[0] == "1 row inserted"
    assert "packets" in out
    assert "STREAM_NOT_FOUND" in err
    assert 'did you mean "packets"?' in err


def test_a_syntax_error_in_a_file_is_underlined_where_it_is(db: Path, run: Run, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text("SHOW STREAMS;\n\n  SHOW TABLEZ;\n")
    code, _, err = run("sql", str(script))
    assert code == 1
    assert "(line 3, column 8)" in err.splitlines()[0]
    assert err.splitlines()[1:3] == ["   3 | SHOW TABLEZ", "     |      ^^^^^^"]


def test_sql_reads_standard_input_and_gives_json(db: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("SHOW STREAMS"))
    code, out, _ = run("sql", "-", "--json")
    assert code == 0
    assert json.loads(out)["stream"] == "packets"


def test_sql_of_a_file_that_is_not_there_is_told(db: Path, run: Run) -> None:
    code, _, err = run("sql", "none.sql")
    assert (code, err.splitlines()[0]) == (1, "FILE_NOT_READABLE: none.sql could not be read")


def test_top_prints_once_into_a_pipe(db: Path, run: Run, csv: Path) -> None:
    run("append", "packets", str(csv))
    code, out, _ = run("top")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("packets"))
    assert "30" in line.split()
    overview = json.loads(run("top", "--once", "--json")[1])
    assert [s["rows"] for s in overview["streams"]] == [30]


def test_no_command_here_imports_spark(db: Path, run: Run, csv: Path) -> None:
    before = set(sys.modules)
    run("append", "packets", str(csv))
    run("tail", "packets")
    run("top")
    assert not [name for name in set(sys.modules) - before if name.split(".")[0] == "pyspark"]


def test_speeds_are_rows_over_time_and_leave_answers_out() -> None:
    speeds = Speeds()

    def look(rows: int, now: float) -> list[dict[str, object]]:
        streams = [{"name": "s", "rows": rows}, {"name": "q", "rows": rows, "kind": "query"}]
        return speeds.added_to({"streams": streams, "queries": []}, now)["streams"]

    assert look(0, 10.0) == [{"name": "s", "rows": 0}]
    assert look(50, 10.5)[0]["rows_per_second"] == 100
    assert look(150, 11.0)[0]["rows_per_second"] == 150
    assert look(150, 30.0)[0]["rows_per_second"] == 0


@pytest.mark.parametrize("rows", [1, 3, 10, 11, 100])
def test_batches_have_exactly_the_rows_asked_for(rows: int) -> None:
    tables = [pa.table({"n": list(range(a, b))}) for a, b in ((0, 4), (4, 4), (4, 11), (11, 25))]
    batches = list(in_batches(iter(tables), rows))
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == list(range(25))
    assert all(batch.num_rows == rows for batch in batches[:-1])

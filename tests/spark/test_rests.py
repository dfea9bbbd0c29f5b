"""On Spark: members with a rest in Spark SQL answer what they answer alone, whoever else is in the host."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.database import Database
from anabranch.errors import QueryError
from anabranch.testing import processes
from anabranch.testing.sparkless import SparklessDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BASE = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
COLUMNS = (
    "k INT, b BIGINT, i SMALLINT, j TINYINT, x DOUBLE, f FLOAT, t STRING, bytes BINARY, flag BOOLEAN, d DATE, "
    "m DECIMAL(20, 4), at TIMESTAMP"
)
Row = dict[str, Any]


def number_in(row: Row) -> str:
    found = re.search("n([0-9])", row["t"] or "")
    return found[1] if found else ""


def word(row: Row) -> Row:
    return {"n": number_in(row) if row["t"] is not None else None, "k": row["k"], "at": row["at"]}


def computed(row: Row) -> Row:
    t = "-".join(str(part) for part in (row["t"], row["k"]) if part is not None)
    return {"t": t, "y": row["x"] / row["k"] if row["k"] else None, "m": row["m"] * 3, "at": row["at"]}


ASKED: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "word": (
        "SELECT regexp_extract(t, 'n([0-9])', 1) AS n, k, at FROM s WHERE k < 40",
        lambda row: word(row) if row["k"] < 40 else None,
    ),
    "word_again": (
        "SELECT regexp_extract(t, 'n([0-9])', 1) AS n, k, at FROM s WHERE k >= 40",
        lambda row: word(row) if row["k"] >= 40 else None,
    ),
    "all_types": (
        "SELECT k, b, i, j, x, f, t, bytes, flag, d, m, date_format(at, 'HH:mm') AS clock, at FROM s",
        lambda row: {**row, "clock": row["at"].strftime("%H:%M")},
    ),
    "computed": ("SELECT concat_ws('-', t, k) AS t, x / k AS y, m * 3 AS m, at FROM s", computed),
    "only_some": (
        "SELECT t FROM s WHERE regexp_extract(t, 'n([0-9])', 1) < 4 AND k > 10",
        lambda row: (
            {"t": row["t"], "_time": row["at"]}
            if number_in(row) and int(number_in(row)) < 4 and row["k"] > 10
            else None
        ),
    ),
    "none": ("SELECT k FROM s WHERE regexp_extract(t, 'n(.)', 1) = 'nothing'", lambda row: None),
    "lambda": (
        "SELECT aggregate(sequence(1, k), 0, (x, y) -> x + y) AS x, at FROM s WHERE k > 0 AND k < 9",
        lambda row: {"x": row["k"] * (row["k"] + 1) // 2, "at": row["at"]} if 0 < row["k"] < 9 else None,
    ),
    "plain": ("SELECT k, at FROM s WHERE k = 7", lambda row: {"k": 7, "at": row["at"]} if row["k"] == 7 else None),
}
"""Members, and what they answer for a row."""
PAIRS = "FROM s a, s b WINDOW = INTERVAL 6 SECONDS WHERE a.k = b.k AND a.x < b.x"
TEXTS = {name: text for name, (text, _) in ASKED.items()} | {
    "joined": f"SELECT upper(a.t) AS t, format_string('%d-%d', a.k, b.i) AS pair, a.at {PAIRS}"
}


def joined(path: Path, count: int) -> list[Row]:
    with SparklessDatabase(path, settings={"alone_queries": 0}) as db:
        db.sql(f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY at")
        db.append("s", rows(0, count))
        pairs = db.query(f"SELECT a.t, a.k, b.i, a.at {PAIRS}", name="pairs")
        db.catch_up()
        return [
            {
                "t": row["t"] and row["t"].upper(),
                "pair": f"{row['k']}-{row['i']}",
                "at": row["at"],
                "_time": row["_time"],
            }
            for row in pairs.table().to_pylist()
        ]


def rows(first: int, end: int) -> list[Row]:
    return [
        {
            "k": i % 50,
            "b": i * 2**40,
            "i": i % 1000,
            "j": i % 100,
            "x": float(i % 97) / 7,
            "f": float(i % 31) / 3,
            "t": None if i % 11 == 0 else f"än{i % 7}",
            "bytes": str(i).encode(),
            "flag": i % 3 == 0,
            "d": dt.date(2026, 1, 1 + i % 28),
            "m": Decimal(i) / 8,
            "at": BASE + dt.timedelta(milliseconds=100 * i),
        }
        for i in range(first, end)
    ]


def fed(path: Path) -> Database:
    db = ab.open(path, settings={"batch_rows": 3000, "warm_up": 0})
    db.sql(f"CREATE STREAM s ({COLUMNS}) TIMESTAMP BY at")
    db.append("s", rows(0, 5000))
    return db


def test_they_answer_what_each_does_alone(tmp_path: Path, spark: SparkSession) -> None:
    play(tmp_path, lambda: None)


@pytest.mark.long  # `test_together.py` loses a JVM, too
@pytest.mark.xdist_group("killed")
@pytest.mark.timeout(600)
def test_they_outlive_the_jvm(tmp_path: Path) -> None:
    play(tmp_path, lambda: processes.kill(processes.jvm()))


def play(path: Path, meanwhile: Callable[[], None]) -> None:
    with fed(path / "river") as db:
        first = dict(list(TEXTS.items())[:5])
        db.create_queries(first)
        db.get_query("word").wait(240)
        db.create_queries({name: text for name, text in TEXTS.items() if name not in first})
        db.append("s", rows(5000, 7000))
        db.get_query("word_again").wait(240)
        meanwhile()
        db.append("s", rows(7000, 9000))
        for name in TEXTS:
            db.get_query(name).wait(240)
        answers = {name: db.get_query(name).table() for name in TEXTS}
        assert "computed together with the rests of others" in " ".join(db.get_query("word").explain().split())
    for name, (text, answer) in ASKED.items():
        expected = [said for row in rows(0, 9000) if (said := answer(row)) is not None]
        assert answers[name].equals(pa.Table.from_pylist(expected, answers[name].schema)), text
    assert answers["none"].num_rows == 0
    assert answers["joined"].num_rows > 8000
    assert answers["joined"].to_pylist() == joined(path / "alone", 9000)


def test_one_whose_rest_fails_is_stopped_alone(tmp_path: Path, spark: SparkSession) -> None:
    fails = "SELECT element_at(array(k), CAST(k AS INT) - 30) AS v, at FROM s WHERE k = 30"
    with fed(tmp_path / "river") as db:
        asked = {"fails": fails, "word": TEXTS["word"], "same": fails.replace("= 30", "= 31"), "plain": TEXTS["plain"]}
        db.append("s", rows(5000, 5020))
        db.create_queries(asked)
        for name in ("word", "same", "plain"):
            db.get_query(name).wait(240)
        failed = db.get_query("fails")
        with pytest.raises(QueryError, match=r"INVALID_INDEX_OF_ZERO|index 0"):
            failed.wait(60)
        assert failed.status == "failed"
        assert db.get_query("same").table().column("v").to_pylist() == [31] * 100
        assert db.get_query("plain").table().num_rows == 101
        assert db.get_query("word").table().num_rows == 4020


def test_what_makes_several_rows_of_one_stands_alone(tmp_path: Path, spark: SparkSession) -> None:
    with fed(tmp_path / "river") as db:
        text = "SELECT explode(split(t, 'n')) AS part, at FROM s WHERE k = 3"
        with pytest.raises(QueryError, match=r"MUST_STAND_ALONE.*explode\(\)"):
            db.sql(f"CREATE CONTINUOUS QUERY parts ON HOST host AS {text}")
        with pytest.raises(ab.AnabranchError, match="FUNCTION_NOT_REPEATABLE"):
            db.create_queries({"clock": "SELECT hour(concat(t, '')) AS h, at FROM s"})
        db.sql(f"CREATE CONTINUOUS QUERY parts AS {text}")
        db.get_query("parts").wait(120)
        assert db.get_query("parts").table().num_rows > 100

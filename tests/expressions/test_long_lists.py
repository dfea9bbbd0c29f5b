"""A long list behind IN is one leaf of the tree, and means what its values mean."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from anabranch.expressions import compile
from anabranch.expressions.reading import many_values, read, texts_of, whole_numbers_of
from anabranch.sql.reading.parser import parse
from anabranch.testing.sparkless import SparklessDatabase

TABLE = pa.table(
    {
        "i": pa.array([0, 7, -3, None, 2**31 - 1], pa.int32()),
        "l": pa.array([0, 7, -3, None, 2**40], pa.int64()),
        "d": pa.array([0.0, -0.0, 7.5, None, float("nan")]),
        "f": pa.array([16777216.0, 7.0, -3.0, None, float("nan")], pa.float32()),
        "m": pa.array(["0", "7", "-3", None, "0.5"]).cast(pa.decimal128(10, 2)),
        "s": ["k1", "it's", "a\\b\n", None, "'"],
    }
)


def in_short_lists(operand: str, values: list[str]) -> str:
    """The same question in lists that are not long."""
    return " OR ".join(f"{operand} IN ({', '.join(values[at : at + 50])})" for at in range(0, len(values), 50))


@pytest.mark.parametrize("operand", ["i", "l", "d", "f", "m", "i + 1", "l * 2"])
@pytest.mark.parametrize("most", [150, 2**31, 2**41, 16777217 + 75])
def test_whole_numbers_mean_the_same_in_a_long_list(operand: str, most: int) -> None:
    values = [str(number) for number in range(most - 150, most)] + ["-3", "0"]
    sql = f"{operand} IN ({', '.join(values)})"
    assert many_values(read(sql)) is not None
    long, short = compile(sql, TABLE.schema), compile(in_short_lists(operand, values), TABLE.schema)
    assert long.evaluate(TABLE).to_pylist() == short.evaluate(TABLE).to_pylist()


def test_texts_mean_the_same_in_a_long_list() -> None:
    values = [f"'v{number}'" for number in range(150)] + [r"'it\'s'", r"'a\\b\n'", r"'\''"]
    long, short = (compile(sql, TABLE.schema) for sql in (f"s IN ({', '.join(values)})", in_short_lists("s", values)))
    assert long.evaluate(TABLE).to_pylist() == short.evaluate(TABLE).to_pylist() == [False, True, True, None, True]


@pytest.mark.slow
@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=100, max_size=130))
def test_any_texts_are_read_as_they_were_written(texts: list[str]) -> None:
    sql = f"s IN ({', '.join(exp.Literal.string(text).sql('spark') for text in texts)})"
    leaf = many_values(read(sql))
    assert leaf is not None
    assert texts_of(leaf) == texts
    assert texts_of(many_values(read(read(sql).sql("spark"))) or exp.Var()) == texts


@pytest.mark.parametrize("odd", ["NULL", "1.5", "5L", "i", "'x'", "1 + 1", "CAST(1 AS INT)", "9" * 19])
def test_a_list_with_anything_else_in_it_stays_a_list(odd: str) -> None:
    values = [str(number) for number in range(150)]
    tree = read(f"i IN ({', '.join([*values, odd])})")
    assert many_values(tree) is None
    assert len(tree.expressions) == 151


def test_a_list_that_does_not_end_is_a_syntax_error() -> None:
    with pytest.raises(Exception, match="SYNTAX_ERROR"):
        parse(f"SELECT * FROM s WHERE i IN ({', '.join(map(str, range(200)))} 7)")


@pytest.mark.slow
def test_a_hundred_thousand_values_take_seconds_not_a_minute(tmp_path: Path) -> None:
    values = [number * 3 for number in range(-5, 100_000)]
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (a BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("s", [{"a": number, "ts": f"2026-01-01 00:00:0{number}"} for number in range(10)])
        began = time.process_time()
        query = db.query(f"SELECT a, ts FROM s WHERE a IN ({', '.join(map(str, values))})", name="q")
        db.catch_up()
        seconds = time.process_time() - began
        assert query.table().column("a").to_pylist() == [0, 3, 6, 9]
    leaf = many_values(read(f"a IN ({', '.join(map(str, values))})"))
    assert leaf is not None
    assert whole_numbers_of(leaf) == values
    assert seconds < 20
    print(f"{seconds:.1f} s")

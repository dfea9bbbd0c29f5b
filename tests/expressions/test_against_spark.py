"""Every expression that is accepted gives what Spark gives: the same type, the same values, to the bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import exp

from anabranch.column_types import is_nested, own_type
from anabranch.expressions import NotEvaluable, compile
from anabranch.kernels.nested import as_bytes
from anabranch.sql import parse
from anabranch.sql.checking.safety import spark_text
from anabranch.sql.standing.columns import sql_of
from anabranch.sql.statements import SelectOnce
from tests.expressions import nasty
from tests.expressions.generate import Generator

pytestmark = pytest.mark.spark

LISTED = [
    line
    for line in (Path(__file__).parent / "accepted.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
COLUMNS_PER_SELECT = 50
SEEDS = (1, 2, 3)
PER_SEED = 150


@pytest.fixture(scope="module")
def plain_spark(spark: Any) -> Iterator[Any]:
    """A session of its own on the shared Spark, with the settings the meaning is defined by."""
    session = spark.newSession()
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.createDataFrame(nasty.table().combine_chunks()).createOrReplaceTempView("nasty")
    yield session
    session.catalog.dropTempView("nasty")


def bits(values: pa.Array) -> pa.Array:
    """Floating values as something in which -0.0 is not 0.0 and one NaN equals another."""
    if is_nested(values.type):
        return as_bytes(values, exactly=True)
    if not pa.types.is_floating(values.type):
        return values
    whole = pa.int32() if values.type.bit_width == 32 else pa.int64()
    plain = pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)
    return pa.concat_arrays([plain]).view(whole)


def flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def parsed(select: str) -> exp.Expr:
    """The tree of a SELECT, as queries have it."""
    statement = parse(select)[0]
    assert isinstance(statement, SelectOnce)
    return statement.select.tree


def carried(sql: str) -> str:
    """An expression as operators carry it, after the parser has had it in its hands."""
    return sql_of(parsed(f"SELECT {sql} FROM nasty").expressions[0])


def differences(spark: Any, expressions: list[str]) -> list[str]:
    """What is wrong, one line per expression that differs."""
    table, wrong = nasty.table(), []
    for start in range(0, len(expressions), COLUMNS_PER_SELECT):
        part = expressions[start : start + COLUMNS_PER_SELECT]
        select = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(part))
        answer = spark.sql(f"SELECT {select} FROM nasty").toArrow()
        for n, sql in enumerate(part):
            compiled = compile(carried(sql), table.schema)
            mine, theirs = flat(compiled.evaluate(table)), flat(answer.column(n))
            if not (compiled.type.equals(mine.type) and mine.type.equals(own_type(theirs.type))):
                wrong.append(f"{sql}: said {compiled.type}, gave {mine.type}, Spark {theirs.type}")
            elif len(mine) != len(theirs):
                wrong.append(f"{sql}: {len(mine)} rows, Spark {len(theirs)}")
            elif not bits(mine).equals(bits(theirs.cast(mine.type))):
                theirs = theirs.cast(mine.type)
                row = next(r for r in range(len(mine)) if not bits(mine.slice(r, 1)).equals(bits(theirs.slice(r, 1))))
                inputs = {name: table.column(name)[row] for name in compiled.columns}
                wrong.append(f"{sql}: row {row} {mine[row]!r}, Spark {theirs[row]!r} with {inputs}")
    return wrong


def test_listed_expressions_equal_spark(plain_spark: Any) -> None:
    wrong = differences(plain_spark, LISTED)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_expressions_equal_spark(plain_spark: Any, seed: int) -> None:
    generator = Generator(random.Random(seed))
    expressions: list[str] = []
    refused = 0
    while len(expressions) < PER_SEED:
        sql = generator.expression()
        try:
            compile(carried(sql), nasty.table().schema)
        except NotEvaluable:
            refused += 1
            continue
        expressions.append(sql)
    assert refused < PER_SEED, "the generator should mostly write what is evaluated"
    wrong = differences(plain_spark, expressions)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_left_to_spark_means_what_was_written(plain_spark: Any, seed: int) -> None:
    generator = Generator(random.Random(1000 + seed))
    for _ in range(4):
        part = [generator.expression() for _ in range(COLUMNS_PER_SELECT)]
        select = "SELECT " + ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(part)) + " FROM nasty"
        written, sent = plain_spark.sql(select).toArrow(), plain_spark.sql(spark_text(parsed(select))).toArrow()
        for n, sql in enumerate(part):
            assert written.schema.field(n).type == sent.schema.field(n).type, sql
            assert bits(flat(written.column(n))).equals(bits(flat(sent.column(n)))), sql


@pytest.mark.slow
def test_letters_of_unicode_equal_spark(plain_spark: Any) -> None:
    """Each character alone, and between letters and the one that looks around itself."""
    codes = [*range(1, 0xD800), *range(0xE000, 0x20000), *range(0xE0000, 0xE0200)]  # in others nothing has a case
    characters = list(map(chr, codes))
    plain_spark.createDataFrame(pa.table({"c": characters})).createOrReplaceTempView("characters")
    texts = ["c", "concat('aΣ', c)", "concat('a', c, 'Σ')", "concat(c, 'Σ')", "concat('aΣ', c, 'b')"]
    asked = [f"{name}({text})" for text in texts for name in ("lower", "upper")]
    select = ", ".join(f"{sql} AS c{n}" for n, sql in enumerate(asked))
    answer = plain_spark.sql(f"SELECT c, {select} FROM characters").toArrow()
    plain_spark.catalog.dropTempView("characters")
    table = answer.select(["c"])
    for n, sql in enumerate(asked):
        mine, theirs = flat(compile(carried(sql), table.schema).evaluate(table)), flat(answer.column(f"c{n}"))
        differ = pc.not_equal(mine, theirs)
        assert not pc.any(differ).as_py(), f"{sql}: {table.filter(differ).column(0).to_pylist()[:20]}"


DIGITS = [((10, 2), (5, 3)), ((18, 6), (9, 0)), ((30, 2), (4, 1)), ((7, 7), (7, 7)), ((22, 2), (20, 0))]


@pytest.mark.parametrize("types", DIGITS)
def test_quotients_of_decimals_equal_spark(plain_spark: Any, types: tuple[tuple[int, int], tuple[int, int]]) -> None:
    chance = random.Random(str(types))

    def drawn(precision: int, scale: int) -> Decimal:
        digits = chance.randint(1, precision)
        number = chance.choice([10**digits - 1, 10 ** (digits - 1), 1, 5, chance.randrange(10**digits)])
        return Decimal(chance.choice([-number, number])).scaleb(-scale)

    def column(precision: int, scale: int) -> pa.Array:
        values = [chance.choice([None, Decimal(0), *[drawn(precision, scale)] * 8]) for _ in range(4000)]
        return pa.array(values, pa.decimal128(precision, scale))

    with localcontext(prec=80):
        table = pa.table({name: column(*type_) for name, type_ in zip("ab", types, strict=True)})
    plain_spark.createDataFrame(table).createOrReplaceTempView("decimals")
    theirs = flat(plain_spark.sql("SELECT a / b AS q FROM decimals").toArrow().column(0))
    plain_spark.catalog.dropTempView("decimals")
    mine = flat(compile(carried("a / b"), table.schema).evaluate(table))
    assert mine.type == theirs.type
    assert mine.is_null().equals(theirs.is_null())
    differ = pc.fill_null(pc.not_equal(mine, theirs), False)
    assert not pc.any(differ).as_py(), table.filter(differ).slice(0, 3).to_pylist()

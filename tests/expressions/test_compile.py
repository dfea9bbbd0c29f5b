"""What is read, what is refused, and what errors say."""

from __future__ import annotations

import pyarrow as pa
import pytest
import sqlglot

from anabranch.errors import SqlError
from anabranch.expressions import NotEvaluable, compile
from anabranch.expressions.functions import SCALARS
from anabranch.expressions.reading import read
from anabranch.expressions.rules import RULES
from tests.expressions import nasty

SCHEMA = nasty.table().schema


def test_names_are_found_whatever_their_case_and_qualifier() -> None:
    schema = pa.schema([("Length", pa.int32()), ("saddr", pa.string())])
    compiled = compile("p.LENGTH > 1000 AND db.p.saddr LIKE '10.%' AND length < 9000", schema)
    assert compiled.columns == ("Length", "saddr")
    assert compiled.type == pa.bool_()


def test_text_is_compiled_once_per_schema() -> None:
    same = pa.schema(list(SCHEMA))
    assert compile("i + 1", SCHEMA) is compile("i + 1", same)
    assert compile("i + 1", pa.schema([("i", pa.int64())])).type == pa.int64()


def test_a_parsed_tree_is_compiled_as_its_text() -> None:
    table = nasty.table()
    tree = sqlglot.parse_one("i + 1 > l", read="spark")
    compiled = compile(tree, table.schema)
    assert compiled.sql == "i + 1 > l"
    assert compiled.evaluate(table).equals(compile("i + 1 > l", table.schema).evaluate(table))


def test_unknown_column_says_where_and_what_was_meant() -> None:
    with pytest.raises(SqlError) as caught:
        compile("i > 0 AND\n  p.missin = 1", SCHEMA)
    assert str(caught.value) == (
        'COLUMN_NOT_FOUND (line 2, column 5) column "missin" does not exist. Hint: did you mean "missing"?'
    )


def test_a_name_that_fits_two_columns_is_an_error() -> None:
    with pytest.raises(SqlError) as caught:
        compile("A", pa.schema([("a", pa.int32()), ("A", pa.int32())]))
    assert caught.value.name == "COLUMN_AMBIGUOUS"


@pytest.mark.parametrize("text", ["i +", "(i", "CASE WHEN", "", "i AND AND b", "'open"])
def test_text_that_is_no_expression_is_an_error(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        compile(text, SCHEMA)
    assert caught.value.name == "SYNTAX_ERROR"


REFUSED = """
EXP(d)
LN(d)
LOG10(d)
LOG2(d)
LOG(3, d)
SIN(d)
POWER(d, 3)
POWER(d, d2)
ROUND(d, 2)
ROUND(i, -1)
ROUND(n)
ROUND(1.5)
FLOOR(n)
FLOOR(1.5)
CEIL(d, 1)
SQRT(n)
SQRT('4')
SOUNDEX(s)
SPLIT_PART(s, '.', 0)
SPLIT_PART(s, s2, 1)
SPLIT_PART(s, '.', i)
SUBSTRING_INDEX(s, 'aa', 2)
SUBSTRING_INDEX(s, s2, 2)
s ILIKE 'a'
s RLIKE 'a'
s LIKE s2
s LIKE 'a/%' ESCAPE '/'
s LIKE 'a\\\\%'
s LIKE ANY ('a', 'b')
i LIKE '1%'
'a' 'b'
'it''s'
CONCAT(s, d)
CONCAT(s, ts)
LENGTH(i)
SUBSTRING(s, i)
TRIM(i)
REPLACE(s, s2, 'x')
CONTAINS(s, s2)
i = '1'
i = b
s = 1
b = 1
d = 'NaN'
ts = s
ts = 'yesterday'
ts = '2020'
ts = '2020-13-01'
ts = i
dt = '2020-1-1'
ts IN ('2020-01-01')
i IN ('1')
i IN (SELECT 1)
i IN ()
l < 99999999999999999999
i + '1'
i + b
s + s2
ts + 1
ts - ts2
dt + 1
dt + INTERVAL 1 DAY
ts + INTERVAL 1 MONTH
ts + INTERVAL 1 YEAR
ts + INTERVAL '1 02:00:00' DAY TO SECOND
INTERVAL 1 DAY
NULL + NULL
-NULL
-s
-b
n / m
n / l
w / 2
w / w
n % 2
i % 2.5
n * CAST(1 AS BIGINT)
n * +1
n * -(1)
n * - -1
128Y
1e3L
1.5S
9223372036854775808L
(1 + 1) * 1.5
d DIV 2
b & b2
i << 1
i AND b
CASE WHEN i THEN 1 END
CASE WHEN NULL THEN 1 END
CASE WHEN b THEN 'a' ELSE 1 END
IF(b, 1)
COALESCE(s, 1)
GREATEST(i)
GREATEST(i, s)
GREATEST(n, n)
isnan(i)
i BETWEEN SYMMETRIC 2 AND 1
CAST(s AS INT)
CAST(s AS DOUBLE)
CAST(s AS TIMESTAMP)
CAST(d AS STRING)
CAST(ts AS STRING)
CAST(dt AS STRING)
CAST(ts AS INT)
CAST(i AS TIMESTAMP)
CAST(n AS INT)
CAST(i AS DECIMAL(5, 2))
CAST(s AS BINARY)
CAST(ts AS TIMESTAMP_NTZ)
TRY_CAST(l AS INT)
date_format(ts, 'yy')
date_format(ts, s)
EXTRACT(SECOND FROM ts)
EXTRACT(WEEK FROM ts)
date_format(ts, "yyyy-MM-dd'T")
date_format(s, 'yyyy')
to_date(s)
YEAR(s)
HOUR(i)
UNIX_MICROS(dt)
UNIX_TIMESTAMP(s)
UNIX_TIMESTAMP()
CURRENT_TIMESTAMP()
RAND()
COUNT(i)
COUNT(*)
SUM(i) OVER ()
(SELECT 1)
SELECT 1
i AS x
*
s[0]
X'1F'
reflect('java.lang.System', 'exit', '1')
i & 1 | 2
i | i2 ^ 3
s || i + 1
i = i2 = b
i < i2 = b
i = i2 IN (TRUE)
b = NOT b2
1e400
999999999999999999999999999999999999999
l * 1.0000000000000000000
""".strip().split("\n")


@pytest.mark.parametrize("text", REFUSED)
def test_what_could_differ_from_spark_is_refused(text: str) -> None:
    with pytest.raises(NotEvaluable) as caught:
        compile(text, SCHEMA)
    assert caught.value.reason


@pytest.mark.parametrize(
    "type",
    [pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.map_(pa.string(), pa.int32()), pa.list_(pa.uint8()), pa.uint8()],
)
def test_columns_of_foreign_types_are_refused(type: pa.DataType) -> None:
    with pytest.raises(NotEvaluable):
        compile("x IS NULL", pa.schema([("x", type)]))


def test_an_expression_too_deep_for_the_stack_is_refused() -> None:
    with pytest.raises(NotEvaluable):
        compile("i" + " + 1" * 400, SCHEMA)


@pytest.mark.slow
def test_a_long_chain_of_conditions_is_no_deep_expression() -> None:
    table = nasty.table()
    chain = " OR ".join(f"i = {n}" for n in range(2000))
    assert compile(chain, SCHEMA).evaluate(table).equals(compile("i BETWEEN 0 AND 1999", SCHEMA).evaluate(table))


def test_every_kind_of_node_in_the_table_is_compared_with_spark() -> None:
    from tests.expressions.test_against_spark import LISTED

    kinds: set[type[sqlglot.exp.Expr]] = set()
    names: set[str] = set()
    for text in LISTED:
        tree = read(text)
        kinds.update(type(node) for node in tree.walk())
        names.update(node.name.lower() for node in tree.find_all(sqlglot.exp.Anonymous))
    assert set(RULES) - kinds == set()
    assert {name for name, row in SCALARS.items() if sqlglot.exp.Anonymous in row.rules} - names == set()

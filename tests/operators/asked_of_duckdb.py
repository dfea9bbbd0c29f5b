"""DuckDB in the place of Spark SQL, for questions that both understand once they are translated."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pyarrow as pa
import sqlglot

from anabranch.errors import QueryError

_MACROS = (
    "CREATE MACRO try_sum(x) AS CAST(sum(x) AS BIGINT)",
    "CREATE MACRO raise_error(x) AS error(x)",
)


def answered(sql: str, views: Mapping[str, pa.Table]) -> pa.Table:
    """The answer of a SELECT of Spark's."""
    with duckdb.connect(config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for macro in _MACROS:
            duck.execute(macro)
        for name, rows in views.items():
            duck.register(name, rows)
        try:
            return duck.sql(translated(sql)).to_arrow_table()
        except duckdb.Error as problem:
            raise QueryError("QUERY_FAILED", str(problem)) from problem


def translated(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]

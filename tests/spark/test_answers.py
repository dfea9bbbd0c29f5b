"""One-time answers that pass through files are those that Spark itself would have given."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import QueryError
from anabranch.log.storage import Storage
from anabranch.spark.answers import Answers

EVERY_TYPE = """
SELECT id, CAST(id AS TINYINT) AS t, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i, CAST(id AS FLOAT) AS f,
  CAST(id AS DOUBLE) AS d, CAST(id AS DECIMAL(38, 10)) / 3 AS m, id % 2 = 0 AS b,
  IF(id % 3 = 0, NULL, string(id)) AS text,
  CAST(string(id) AS BINARY) AS bytes, timestamp_seconds(id) AS at,
  CAST(timestamp_seconds(id) AS TIMESTAMP_NTZ) AS plain,
  date_add(DATE '2026-01-01', CAST(id % 1000 AS INT)) AS day, array(id, NULL) AS list, map(string(id), id) AS pairs,
  named_struct('a', id, 'b', array(string(id))) AS both, make_dt_interval(1, 2, 3, id) AS span, NULL AS nothing, id
FROM range(0, 5000, 1, 3)
"""


@pytest.mark.parametrize("inline_bytes", [1, 1 << 20])
@pytest.mark.parametrize(
    "sql", [EVERY_TYPE, f"SELECT * EXCEPT (pairs) FROM ({EVERY_TYPE}) ORDER BY text DESC, 1", "SELECT id FROM range(0)"]
)
def test_all_types_in_their_order(spark: Any, tmp_path: Path, sql: str, inline_bytes: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    if "EXCEPT" in sql:
        sql = sql.replace(", NULL AS nothing, id\n", ", NULL AS nothing\n")
    frame = session.sql(sql)
    found = Answers(Storage(str(tmp_path)), 0, inline_bytes).collect(frame, sys.maxsize)
    expected = frame.toArrow()
    assert found.schema == expected.schema
    assert found.combine_chunks().equals(expected.combine_chunks())
    assert os.listdir(tmp_path) == [], "files are deleted as soon as they are mapped"


def test_one_that_is_too_large_is_refused_and_leaves_nothing_behind(spark: Any, tmp_path: Path) -> None:
    answers = Answers(Storage(str(tmp_path)), 100_000, 10_000)
    frame = spark.sql("SELECT id, repeat('x', 100) AS text FROM range(0, 20000, 1, 2)")
    with pytest.raises(QueryError, match="RESULT_TOO_LARGE the answer has more than 100000 bytes"):
        answers.collect(frame, sys.maxsize)
    assert answers.collect(frame.limit(20), sys.maxsize).num_rows == 20
    assert os.listdir(tmp_path) == []

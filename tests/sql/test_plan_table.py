"""The table of plans: each shape of a standing query is one row, and what it gives is plain data."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch import operators
from anabranch.errors import AnabranchError, CatalogError
from anabranch.schema import StreamSchema
from anabranch.sql import StandingPlan, parse, plan_standing
from anabranch.sql.standing import plan as table
from anabranch.sql.statements import CreateQuery, CreateStream, CreateStreamAs, CreateTable, SelectOnce
from anabranch.tables.declaration import TableInfo
from anabranch.testing.slt import File, read
from anabranch.testing.sparkless import SparklessDatabase
from tests.sql.first_rows import is_of_first_rows, plan_first_rows
from tests.sql.written_down import read_again

FILES = [read(path) for path in sorted((Path(__file__).parents[1] / "slt").rglob("*.slt"))]


def plans_of(file: File) -> Iterator[tuple[str, StandingPlan]]:
    """The standing queries of a file that can be planned: the shape and the plan of each."""
    schemas: dict[str, StreamSchema] = {}

    def find(name: str) -> StreamSchema:
        if name.lower() not in schemas:
            raise CatalogError("STREAM_NOT_FOUND", name)
        return schemas[name.lower()]

    for record in file.records:
        try:
            statements = parse("\n".join(record.body)) if record.kind in ("statement", "query") else []
        except AnabranchError:
            continue
        for statement in statements:
            if isinstance(statement, CreateStream):
                with contextlib.suppress(AnabranchError):
                    schemas[statement.name.lower()] = StreamSchema.of(dict(statement.columns), time=statement.time)
            elif isinstance(statement, CreateTable):
                with contextlib.suppress(AnabranchError):
                    table_info = TableInfo.declare(statement.name, statement.columns, statement.key)
                    schemas[table_info.changes.lower()] = replace(table_info.stream().schema, key=table_info.key)
            elif isinstance(statement, CreateQuery | CreateStreamAs | SelectOnce):
                try:
                    plan = plan_standing(statement.select, find)
                except AnabranchError:
                    continue
                yield next(kind.name for kind in table.PLANS if kind.matches(statement.select)), plan
                if not isinstance(statement, SelectOnce) and plan.schema is not None:
                    schemas[statement.name.lower()] = plan.schema


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_plans_of_text_tests_are_the_same_after_they_were_written_down(file: File) -> None:
    for _, plan in plans_of(file):
        read_again(plan)


@pytest.mark.slow
def test_the_text_tests_have_every_shape_but_one() -> None:
    """Joins with the past need an archive, which text tests do not declare; `test_archives` has them."""
    shapes = collections.Counter(shape for file in FILES for shape, _ in plans_of(file))
    assert sum(shapes.values()) > 150
    assert set(shapes) == {kind.name for kind in table.PLANS} - {"join with the past"}


# -- a shape of one's own --------------------------------------------------------------------------


def test_a_row_in_each_table_is_all_that_a_new_shape_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql("CREATE STREAM s (v BIGINT, ts TIMESTAMP) TIMESTAMP BY ts")
        with pytest.raises(AnabranchError, match="no last row to stop at"):
            db.query("SELECT * FROM s LIMIT 3", name="first")
        monkeypatch.setattr(table, "PLANS", (table.PlanKind("first", is_of_first_rows, plan_first_rows), *table.PLANS))
        monkeypatch.setitem(operators.OPERATORS, "first_rows", "tests.sql.first_rows:FirstRows")
        query = db.query("SELECT * FROM s LIMIT 3", name="first")
        for v in range(5):
            db.append("s", [{"v": v, "ts": f"2024-01-01 00:00:0{v}"}])
            db.catch_up()
        assert query.table().column("v").to_pylist() == [0, 1, 2]
        assert "└─ stream s\n      filter pushed to the read: number < 3" in query.explain()
    with SparklessDatabase(tmp_path / "db") as db:
        assert db.get_query("first").table().column("v").to_pylist() == [0, 1, 2]

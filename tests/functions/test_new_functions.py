"""A new function is a row and a file: with nothing but its row in the table it works everywhere."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from anabranch.cli.completion import Names, candidates
from anabranch.errors import AnabranchError
from anabranch.expressions.functions import SCALARS
from anabranch.functions.aggregates import AGGREGATES
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.docs import functions_page
from tests.functions.test_tables import answer_in_a_window, value_of
from tests.functions.toys import CELSIUS, PRODUCT

STREAM = "CREATE STREAM s (k STRING, v DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts"
PRODUCTS = "SELECT k, product(v) AS p FROM s WINDOW = INTERVAL 20 SECONDS SLIDE INTERVAL 10 SECONDS GROUP BY k"
ROWS = [(1, "a", 2.0), (3, "b", 5.0), (7, "a", None), (12, "a", 3.5), (14, "c", None), (18, "b", -1.0), (25, "a", 4.0)]


@pytest.fixture
def product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AGGREGATES, PRODUCT.name, PRODUCT)


@pytest.fixture
def celsius(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALARS, CELSIUS.name, CELSIUS)


def failure(db: SparklessDatabase, text: str) -> AnabranchError:
    with pytest.raises(AnabranchError) as caught:
        db.sql(text)
    return caught.value


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


def naive_products(end: int) -> dict[str, float | None]:
    """The answer to PRODUCTS for the window that ends there."""
    window = [(k, v) for second, k, v in ROWS if end - 20 <= second < end]
    values = {k: [v for key, v in window if key == k and v is not None] for k, _ in window}
    return {k: math.prod(found) if found else None for k, found in values.items()}


def offered(word: str) -> list[tuple[str, str]]:
    return list(candidates(f"SELECT {word}", " FROM s", Names({"s": ("k",)})))


@pytest.mark.parametrize("unkindness", [Unkindness(), Unkindness(forget=True, replay=True), Unkindness(faults=True)])
@pytest.mark.usefixtures("product")
def test_a_new_aggregate_is_answered_by_a_standing_query(unkindness: Unkindness, tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db", unkindness=unkindness) as db:
        db.sql(STREAM)
        query = db.query(PRODUCTS, name="q")
        for second, k, v in [*ROWS, (59, "end", 1.0)]:
            db.append("s", [{"k": k, "v": v, "ts": at(second)}])
            db.catch_up()
        answers = query.table().to_pylist()
    found = [(row["_time"].second, row["k"], row["p"]) for row in answers]
    assert found == [(end, k, p) for end in (10, 20, 30, 40) for k, p in sorted(naive_products(end).items())]


@pytest.mark.usefixtures("product")
def test_a_new_aggregate_is_explained_refused_and_hinted_at_as_the_others(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(STREAM)
        plan = "\n".join(db.sql(f"EXPLAIN {PRODUCTS}").table().column("plan").to_pylist())
        assert "aggregates: product(v)" in plan
        assert "class: incremental: combined from partial answers of basic windows" in plan
        assert failure(db, PRODUCTS.replace("(v)", "(DISTINCT v)")).name == "AGGREGATE_NOT_AVAILABLE"
        assert failure(db, PRODUCTS.replace("(v)", "(k)")).name == "AGGREGATE_TYPE_MISMATCH"
        assert "product" in (failure(db, PRODUCTS.replace("product", "kurtosis")).hint or "")
        assert failure(db, "SELECT produkt(v) FROM s").hint == 'did you mean "product"?'
        # Spark does not have it, and is never asked for it
        assert failure(db, "SELECT product(v) AS p FROM s").name == "FUNCTION_NOT_ALLOWED"
        assert answer_in_a_window(db, PRODUCT) == 28.0
    assert ("product", "function") in offered("prod")
    assert "| `product(x)` | The product. | numbers |" in functions_page.written()


@pytest.mark.usefixtures("celsius")
def test_a_new_function_is_evaluated_where_rows_are_read(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(STREAM)
        warm = db.query("SELECT k, celsius(v) AS c, ts FROM s WHERE celsius(v) > 0", name="warm")
        highest = db.query("SELECT max(celsius(v)) AS c FROM s WINDOW = INTERVAL 10 SECONDS", name="highest")
        plan = "\n".join(db.sql("EXPLAIN SELECT celsius(v) AS c, ts FROM s").table().column("plan").to_pylist())
        assert "celsius(v) AS c" in plan
        assert "spark sql" not in plan
        for second, degrees in enumerate((212.0, 14.0, 50.0)):
            db.append("s", [{"k": "a", "v": degrees, "ts": at(second)}])
        db.append("s", [{"k": "end", "v": None, "ts": at(30)}])
        db.catch_up()
        assert warm.table().column("c").to_pylist() == [100.0, 10.0]
        assert highest.table().column("c").to_pylist() == [100.0]
        assert failure(db, "SELECT celcius(v) FROM s").hint == 'did you mean "celsius"?'
    assert value_of(CELSIUS) == 100.0
    assert ("celsius", "function") in offered("cel")
    assert (
        "| `celsius` | Degrees of Fahrenheit in those of Celsius. | Arrow: number: DOUBLE |" in functions_page.written()
    )


def test_without_their_rows_there_are_no_such_functions(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(STREAM)
        assert failure(db, PRODUCTS).name == "FUNCTION_NOT_ALLOWED"
        assert (
            failure(db, "CREATE CONTINUOUS QUERY q AS SELECT celsius(v) AS c, ts FROM s").name == "FUNCTION_NOT_ALLOWED"
        )
    assert offered("prod") == []

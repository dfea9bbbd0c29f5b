"""Questions that are asked anew as a whole: after every micro-batch their changes come to what is asked then.

DuckDB answers in Spark's place, over the rows that are read for it; the truth is what it answers over the rows that
were put in, as far as the micro-batch goes.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import AnabranchError, QueryError
from anabranch.operators import operator_from_json
from anabranch.operators.offset import Offset, offsets_from_json
from anabranch.operators.whole import Whole
from anabranch.queries.query import Query
from anabranch.tables import keeping
from anabranch.tables.declaration import NUMBER
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase, Unkindness
from tests.operators.asked_of_duckdb import answered, translated
from tests.sampling import sampled

BEGIN = 1_767_225_600_000_000
NASTY = [0.0, -0.0, math.nan, math.inf, 1.5, None]
DECLARED = (
    "CREATE STREAM sales (n BIGINT, item STRING, x DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts",
    "CREATE STREAM visits (item STRING, n BIGINT, at TIMESTAMP) TIMESTAMP BY at",
    "CREATE TABLE items (item STRING PRIMARY KEY, kind STRING, price INT, weight DOUBLE)",
)
VIEWS = {
    "per_item": "SELECT reverse(item) AS item, count(*) AS n, max(x) AS x FROM sales GROUP BY reverse(item)",
    "rows_alone": "SELECT reverse(item) AS item, x FROM sales WHERE x > 0.2 OR x IS NULL",
    "joined": "SELECT s.n, reverse(i.kind) AS kind, i.weight FROM sales s JOIN items i "
    "ON reverse(s.item) = reverse(i.item)",
    "total": "SELECT max(reverse(item)) AS last, count(*) AS n, sum(price) AS price FROM items",
    "kinds": "SELECT reverse(kind) AS kind, weight, count(*) AS n FROM items GROUP BY reverse(kind), weight",
    "nasty": "SELECT reverse(kind) AS kind, weight FROM items",
    "lists": "SELECT array_join(collect_list(n), ',') AS sold FROM sales",
    "unsold": "SELECT item FROM items i WHERE NOT EXISTS (SELECT 1 FROM sales s "
    "WHERE reverse(s.item) = reverse(i.item))",
    "both": "SELECT reverse(item) AS item FROM sales UNION ALL SELECT reverse(item) FROM visits",
    "recent": "SELECT reverse(item) AS item, n FROM sales EXPIRE AFTER INTERVAL 20 SECONDS",
    "recent_of_both": "SELECT reverse(s.item) AS item, count(*) AS n FROM sales s JOIN visits v ON s.item = v.item "
    "GROUP BY reverse(s.item) EXPIRE AFTER INTERVAL 15 SECONDS",
}
TIMES = {"sales": "ts", "visits": "at"}
Bag = Counter[tuple[Any, ...]]


class Shop:
    """What is appended and changed, drawn from a seed."""

    def __init__(self, db: SparklessDatabase, chance: random.Random, now: int = BEGIN) -> None:
        self.db, self.chance, self.now = db, chance, now

    def go_on(self) -> None:
        chance = self.chance
        self.now += chance.choice([0, 1, 5]) * 1_000_000
        if chance.random() < 0.8:
            count = chance.randrange(5)
            times = sorted(self.now + chance.randrange(3) * 1_000_000 for _ in range(count))
            self.now = max([self.now, *times])
            rows = {
                "n": [chance.randrange(100) for _ in range(count)],
                "item": pa.array([chance.choice(["ab", "ba", "b", None]) for _ in range(count)], pa.string()),
                "x": pa.array([chance.choice([*NASTY, chance.random()]) for _ in range(count)], pa.float64()),
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            self.db.append("sales", rows)
        if chance.random() < 0.5:
            at = pa.array([self.now], pa.timestamp("us", "UTC"))
            self.db.append(
                "visits", {"item": [chance.choice(["ab", "b", "c"])], "n": [self.now // 1_000_000 % 1000], "at": at}
            )
        if chance.random() < 0.6:
            items = chance.sample(["ab", "ba", "b", "c"], 2)
            rows = {
                "item": items,
                "kind": [chance.choice(["xy", "yx", None]) for _ in items],
                "price": [chance.randrange(9) for _ in items],
                "weight": pa.array([chance.choice(NASTY) for _ in items], pa.float64()),
            }
            self.db.upsert("items", rows)
        if chance.random() < 0.3:
            self.db.delete("items", {"item": [chance.choice(["ab", "b", "c"])]})
        if chance.random() < 0.2:  # time goes on, and nothing comes
            self.now += chance.choice([3, 30]) * 1_000_000
            for stream in TIMES:
                self.db.advance(stream, dt.datetime.fromtimestamp(self.now / 1e6, dt.UTC))


def opened(path: Path, **more: Any) -> SparklessDatabase:
    more = {"evaluator": answered, "clock": ManualClock(BEGIN), **more}
    return SparklessDatabase(path, settings={"batch_rows": 5, "segment_bytes": 500, "segment_parts": 2}, **more)


def made(db: SparklessDatabase, *names: str, retain: str = "") -> None:
    for statement in DECLARED:
        db.sql(statement)
    for name in names:
        text = VIEWS[name] if "EXPIRE" in VIEWS[name] else f"{VIEWS[name]} ACCEPT UNBOUNDED"
        db.sql(f"CREATE MATERIALIZED VIEW {name} {retain}AS {text}")


def bag(rows: pa.Table) -> Bag:
    """Rows that are compared as SQL does: NaN is NaN, and -0.0 is 0.0."""
    return Counter(tuple(map(_compared, row.values())) for row in rows.to_pylist())


def _compared(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def truth(db: SparklessDatabase, operator: Whole, name: str, at: Mapping[str, Offset]) -> Bag:
    """What is asked, over the rows that were put in up to some offsets."""
    reached = min((at[s].time for s in TIMES if s in at), default=BEGIN)
    tables: dict[str, pa.Table] = {}
    for stream, time in TIMES.items():
        if stream in at:
            rows = db.reader(stream).read(0, at[stream].row)
            if operator.after is not None:
                times = rows.column(time).cast(pa.int64()).to_numpy()
                rows = rows.filter(pa.array(times >= reached - operator.after))
            tables[stream] = rows
    if "items.changes" in at:
        log: Any = db.catalog.open_stream("items.changes")
        log.refresh()
        tables["items"] = log.state_at(at["items.changes"].row).table
    return bag(answered(re.sub(r" EXPIRE AFTER .*", "", VIEWS[name]), tables))


def micro_batches(query: Query) -> Iterator[dict[str, Offset]]:
    """The offsets at which micro-batches ended, as the engine wrote them down."""
    offsets = query._member.storage.child("checkpoint", "offsets")
    for number in sorted(int(file) for file in offsets.files()):
        text = offsets.read_bytes(str(number))
        assert text is not None
        yield offsets_from_json(json.loads(text.decode().splitlines()[-1]))


def check_each(db: SparklessDatabase, name: str) -> None:
    """The changes up to each version come to what is asked of the rows up to there; each fits what was there."""
    query = db.view(name).query
    operator = query._member.operator
    assert isinstance(operator, Whole)
    reader = db.reader(f"{name}.changes")
    changes = reader.read(0, reader.end().row).to_pylist()
    last = {sum(offset.row for offset in at.values()): at for at in micro_batches(query)}
    there: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    done = 0
    for version, at in last.items():
        while done < len(changes) and changes[done]["_version"] <= version:
            change = changes[done]
            key = tuple(_compared(change[column]) for column in operator.answer_key)
            row = tuple(_compared(change[column]) for column in operator.columns)
            if change["_change"] in ("insert", "update_after"):
                assert key not in there
                there[key] = row
            else:
                assert there.pop(key) == row
            done += 1
        assert Counter(there.values()) == truth(db, operator, name, at), f"{name} at {at}"
    assert done == len(changes)
    assert bag(db.table(name)) == Counter(there.values())


UNKIND = {
    "kind": Unkindness(),
    "replayed": Unkindness(forget=True, replay=True),
    "faults": Unkindness(replay=True, faults=True),
}


@pytest.mark.slow
@pytest.mark.parametrize("unkind", UNKIND)
@pytest.mark.parametrize("seed", sampled(range(30), 2, "whole"))
def test_the_changes_of_every_micro_batch_come_to_what_is_asked(seed: int, unkind: str, tmp_path: Path) -> None:
    chance, clock = random.Random(seed), ManualClock(BEGIN)
    names, now = chance.sample(list(VIEWS), 4), BEGIN
    with opened(tmp_path, clock=clock) as db:
        made(db, *names)
    for _ in range(3):
        with opened(tmp_path, unkindness=UNKIND[unkind], clock=clock) as db:
            shop = Shop(db, chance, now)
            for _ in range(5):
                shop.go_on()
                now = shop.now
                clock.set(dt.datetime.fromtimestamp(now / 1e6, dt.UTC))
                if chance.random() < 0.6:
                    db.catch_up()
    with opened(tmp_path, clock=clock) as db:
        db.catch_up()
        for name in names:
            assert db.view(name).query.status == "running", db.view(name).query.failure
            check_each(db, name)
        assert db.check().fine


# -- when the engine is asked ------------------------------------------------------------------------


class Asked:
    """Counts questions, and answers doubles a little otherwise each time if it is `noisy`."""

    def __init__(self, *, noisy: bool = False) -> None:
        self.count, self._noisy = 0, noisy

    def __call__(self, sql: str, views: Mapping[str, pa.Table]) -> pa.Table:
        self.count += 1
        rows = answered(sql, views)
        if not self._noisy:
            return rows
        columns = [
            pa.chunked_array([np.nextafter(column.to_numpy(), self.count % 2 * 1e9)])
            if pa.types.is_floating(column.type)
            else column
            for column in rows.columns
        ]
        return pa.Table.from_arrays(columns, schema=rows.schema)


def sold(db: SparklessDatabase, *items: str, x: float = 0.5, at: int = BEGIN) -> None:
    times = pa.array([at] * len(items), pa.timestamp("us", "UTC"))
    db.append("sales", {"n": list(range(len(items))), "item": list(items), "x": [x] * len(items), "ts": times})


def test_it_is_asked_once_for_a_micro_batch_and_not_when_nothing_has_changed(tmp_path: Path) -> None:
    asked = Asked()
    with opened(tmp_path, evaluator=asked) as db:
        made(db, "recent", "per_item")
        sold(db, "a", "b")
        db.catch_up()
        planned = asked.count
        db.advance("sales", dt.datetime.fromtimestamp(BEGIN / 1e6 + 10, dt.UTC))
        db.catch_up()
        assert asked.count == planned
        sold(db, "c", at=BEGIN + 11_000_000)
        db.catch_up()
        assert asked.count == planned + 2
        db.advance("sales", dt.datetime.fromtimestamp(BEGIN / 1e6 + 21, dt.UTC))
        db.catch_up()
        assert asked.count == planned + 3
        assert db.table("recent").column("item").to_pylist() == ["c"]
        assert db.table("per_item").num_rows == 3


def test_rows_expire_in_silence_when_the_clock_says_so(tmp_path: Path) -> None:
    clock = ManualClock(BEGIN)
    with opened(tmp_path, clock=clock) as db:
        db.sql("CREATE STREAM logins (name STRING)")
        db.sql(
            "CREATE MATERIALIZED VIEW here AS SELECT reverse(name) AS name FROM logins EXPIRE AFTER INTERVAL 1 MINUTE"
        )
        db.append("logins", {"name": ["ann"]})
        db.catch_up()
        assert db.table("here").to_pylist() == [{"name": "nna"}]
        clock.advance(dt.timedelta(minutes=2))
        db.catch_up()
        assert db.table("here").num_rows == 0


@pytest.mark.parametrize("unkind", ["kind", "replayed"])
def test_an_engine_whose_last_digits_differ_is_believed_once_for_each_micro_batch(unkind: str, tmp_path: Path) -> None:
    with opened(tmp_path, evaluator=Asked(noisy=True), unkindness=UNKIND[unkind]) as db:
        made(db, "per_item")
        for second in range(4):
            sold(db, "a", at=BEGIN + second * 1_000_000)
            db.catch_up()
        changes = [(row["_change"], row["n"]) for row in db.reader("per_item.changes").read(0, 7).to_pylist()]
        assert changes[0] == ("insert", 1)
        assert changes[1:] == [change for n in (1, 2, 3) for change in (("update_before", n), ("update_after", n + 1))]
        assert db.reader("per_item.changes").end().row == 7
        sold(db, "b", at=BEGIN + 9_000_000)  # what is told of the other group is what was told before, and what is now
        db.catch_up()
        rows = db.reader("per_item.changes").read(7, db.reader("per_item.changes").end().row).to_pylist()
        assert [(row["_change"], row["item"]) for row in rows] in (
            [("insert", "b")],
            [("update_before", "a"), ("update_after", "a"), ("insert", "b")],
        )


# -- what it is made of ------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_whose_changes_are_gone_is_compared_with_what_it_was(tmp_path: Path) -> None:
    clock = ManualClock(BEGIN)
    with opened(tmp_path, clock=clock) as db:
        made(db)
        db.sql(
            f"CREATE CONTINUOUS QUERY changing RETAIN INTERVAL 1 MICROSECOND AS {VIEWS['rows_alone']} "
            "EMIT CHANGES ACCEPT UNBOUNDED"
        )
        for second in range(70):
            sold(db, "a", "b", x=second / 70, at=BEGIN + second * 1_000_000)
            db.catch_up()
            clock.advance(dt.timedelta(seconds=1))
        end = db.reader("changing").end().row
    with opened(tmp_path, clock=clock) as db:
        assert 0 < db.reader("changing").first_row() <= end
        for second in range(70, 73):
            sold(db, "c", x=0.7, at=BEGIN + second * 1_000_000)
            db.catch_up()
        assert db.reader("changing").end().row == end + 3
        (change,) = db.reader("changing").read(end + 2, end + 3).to_pylist()
        assert (change["_change"], change["item"], change["_number"]) == ("insert", "c", 2)


def test_a_question_that_fails_keeps_what_there_is_and_goes_on_once_the_cause_is_gone(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        made(db)
        db.sql("CREATE TABLE big (k INT PRIMARY KEY, v BIGINT)")
        db.sql("CREATE MATERIALIZED VIEW summed AS SELECT reverse('s') AS name, sum(v) AS v FROM big")
        db.upsert("big", {"k": [1, 2], "v": [1, 2]})
        db.catch_up()
        db.upsert("big", {"k": [3, 4], "v": [2**62, 2**62]})
        db.catch_up()
        assert db.view("summed").query.status == "failed"
        assert db.table("summed").to_pylist() == [{"name": "s", "v": 3}]
        (shown,) = [row for row in db.sql("SHOW VIEWS") if row["view"] == "summed"]
        assert shown["status"] == "failed"
        assert "range" in shown["note"].lower()
        db.delete("big", {"k": [4]})
        db.sql("START QUERY summed.changes")
        db.catch_up()
        assert db.table("summed").to_pylist() == [{"name": "s", "v": 2**62 + 3}]


def test_views_over_views_of_either_kind(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        made(db, "per_item")
        db.sql("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS items, sum(n) AS n FROM per_item")
        db.sql(
            "CREATE MATERIALIZED VIEW named AS SELECT concat(reverse(reverse(item)), '!') AS item, n "
            "FROM per_item WHERE n > 1"
        )
        assert {db.view(v).query._member.operator.kind for v in ("per_item", "named")} == {"whole"}
        assert db.view("counted").query._member.operator.kind == "tree"
        sold(db, "ab", "ab", "b")
        db.catch_up()
        assert db.table("counted").to_pylist() == [{"items": 2, "n": 3}]
        assert db.table("named").to_pylist() == [{"item": "ba!", "n": 2}]
        with pytest.raises(AnabranchError, match="per_item"):
            db.sql("DROP VIEW per_item")
        db.sql("DROP VIEW per_item CASCADE")
        assert [row["view"] for row in db.sql("SHOW VIEWS")] == []


def test_a_view_begins_with_a_table_whose_first_changes_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 10)
    clock = ManualClock(BEGIN)
    with opened(tmp_path, clock=clock) as db:
        db.sql(DECLARED[2] + " RETAIN INTERVAL 1 MICROSECOND")
        for price in range(40):
            clock.advance(dt.timedelta(seconds=1))
            db.upsert("items", {"item": ["a", "b"], "kind": ["xy", "z"], "price": [price] * 2, "weight": [0.5] * 2})
        db.catch_up()
        db._queries.look_after()
        assert db.reader("items.changes").first_row() > 0
        db.sql(f"CREATE MATERIALIZED VIEW kinds AS {VIEWS['kinds']}")
        db.catch_up()
        assert bag(db.table("kinds")) == Counter([("yx", 0.5, 1), ("z", 0.5, 1)])


@pytest.mark.slow
def test_what_is_read_again_is_held_and_shown(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        db.sql(
            "CREATE STREAM sales (n BIGINT, item STRING, x DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts "
            "RETAIN INTERVAL 1 SECOND"
        )
        for name in ("recent", "lists"):
            text = VIEWS[name] if "EXPIRE" in VIEWS[name] else f"{VIEWS[name]} ACCEPT UNBOUNDED"
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        for second in range(100):
            sold(db, "a", at=BEGIN + second * 1_000_000)
        db.catch_up()
        said = {
            name: {row["property"]: row["value"] for row in db.sql(f"DESCRIBE QUERY {name}.changes")}
            for name in ("recent", "lists")
        }
        assert said["recent"]["scratch.rows"] == "21"
        assert said["recent"]["scratch.why"] == "all rows of sales, which are read again"
        assert said["lists"]["scratch.rows"] == "100"
        assert db.table("lists").to_pylist() == [{"sold": ",".join(["0"] * 100)}]
        db.sql("DROP VIEW lists")
        for second in range(100, 200):
            sold(db, "a", at=BEGIN + second * 1_000_000)
        db.catch_up()
        assert db.table("recent").num_rows == 21
        assert db.reader("sales").first_row() > 0


# -- what is said of it, and refused -----------------------------------------------------------------


def test_explain_says_that_it_is_re_evaluated_and_why(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        made(db)
        text = "\n".join(row["plan"] for row in db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {VIEWS['recent']}"))
        assert "re-evaluated: asked anew of Spark SQL" in text
        assert "because: reverse() needs Spark SQL" in text
        assert "keeps: all rows of sales, which are read again" in text
        assert not list(db.catalog.views())


@pytest.mark.parametrize(
    ("select", "error"),
    [
        ("SELECT reverse(item) AS a, n AS a FROM sales ACCEPT UNBOUNDED", 'COLUMN_EXISTS .* "a" comes twice'),
        ("SELECT reverse(item) AS _change FROM items", 'COLUMN_RESERVED .* "_change"'),
        ("SELECT reverse(item) AS a, NULL AS b FROM items", "TYPE_NOT_SUPPORTED|JOIN"),
        ("SELECT map('a', reverse(item)) AS l FROM items", "TYPE_NOT_SUPPORTED .* array_join"),
        ("SELECT reverse(item) AS item FROM sales", "STATE_UNBOUNDED .*EXPIRE AFTER.*CREATE STREAM"),
        ("SELECT reverse(nothing) AS item FROM sales ACCEPT UNBOUNDED", "COLUMN_NOT_FOUND"),
        ("SELECT reverse(item), rand() AS r FROM items", "FUNCTION_NOT_REPEATABLE"),
        (
            "SELECT reverse(item) AS item FROM items QUALIFY row_number() OVER (ORDER BY item) = 1",
            "EXPRESSION_NEEDS_SPARK",
        ),
        (
            "SELECT reverse(item) AS i, count(*) AS n FROM sales WINDOW = INTERVAL 1 MINUTE GROUP BY reverse(item)",
            "NOT_IN_THE_LANGUAGE|EXPRESSION",
        ),
        (
            "SELECT reverse(n) AS i FROM (SELECT item AS n FROM sales WINDOW = INTERVAL 1 MINUTE) s",
            "EXPRESSION_NEEDS_SPARK",
        ),
        ("SELECT sum(item) AS s FROM items", "AGGREGATE_TYPE_MISMATCH"),
        ("SELECT reverse(item) AS item FROM items CLUSTER BY item", "NEEDS_SPARK|NOT_IN_THE_LANGUAGE"),
        ("SELECT item FROM items EMIT FINAL", "NOT_IN_THE_LANGUAGE"),
        ("SELECT soundex(item) AS s FROM items", r"(?s)soundex.*Detail: it is asked of Spark SQL.* soundex\(\) needs"),
        ("SELECT i.item FROM items i JOIN sales s ON i.item = s.n ACCEPT UNBOUNDED", "JOIN_KEYS_DIFFER"),
    ],
)
def test_what_cannot_be_asked_anew_is_refused(select: str, error: str, tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        made(db)
        for statement in (f"CREATE MATERIALIZED VIEW v AS {select}", f"EXPLAIN CREATE MATERIALIZED VIEW v AS {select}"):
            with pytest.raises(AnabranchError, match=error):
                db.sql(statement)


def test_it_is_no_dataframe_and_no_member_of_a_host(tmp_path: Path) -> None:
    select = f"{VIEWS['per_item']} EMIT CHANGES ACCEPT UNBOUNDED"
    with opened(tmp_path) as db:
        made(db)
        with pytest.raises(QueryError, match="no DataFrame"):
            db.dataframe(select)
        with pytest.raises(QueryError, match="MUST_STAND_ALONE"):
            db.sql(f"CREATE CONTINUOUS QUERY q ON HOST host AS {select}")


def test_it_is_plain_data(tmp_path: Path) -> None:
    with opened(tmp_path) as db:
        made(db, *VIEWS)
        for name in VIEWS:
            operator = db.view(name).query._member.operator
            assert operator_from_json(json.loads(json.dumps(operator.to_json()))) == operator


@pytest.mark.parametrize(
    ("select", "key"),
    [
        ("SELECT reverse(item) AS i, n FROM sales", ("i", "n", NUMBER)),
        ("SELECT reverse(item) AS i, n, count(*) AS c FROM sales GROUP BY reverse(item), n", ("i", "n")),
        ("SELECT reverse(item) AS i, count(*) AS c FROM sales GROUP BY 1", ("i",)),
        ("SELECT reverse(item) AS i, count(*) AS c FROM sales GROUP BY i", ("i",)),
        ("SELECT count(*) AS c FROM sales GROUP BY reverse(item)", ("c", NUMBER)),
        ("SELECT max(reverse(item)) AS item, n AS k FROM sales GROUP BY item, n", ("item", "k", NUMBER)),
        (
            "SELECT reverse(a) AS b, c FROM (SELECT item AS a, n AS b, x AS c FROM sales) s GROUP BY b, a, c",
            ("b", "c", NUMBER),
        ),
        (
            "SELECT reverse(item) AS i, n, count(*) AS c FROM sales GROUP BY CUBE (reverse(item), n)",
            ("i", "n", "c", NUMBER),
        ),
        ("SELECT max(reverse(item)) AS i FROM sales", (NUMBER,)),
        ("SELECT max(reverse(item)) AS i FROM sales HAVING count(*) > 2", (NUMBER,)),
        ("SELECT (SELECT max(reverse(item)) FROM sales) AS m, kind FROM items", ("m", "kind", NUMBER)),
    ],
)
def test_columns_are_a_key_only_where_each_group_is_surely_one_row(
    select: str, key: tuple[str, ...], tmp_path: Path
) -> None:
    with opened(tmp_path) as db:
        made(db)
        db.sql(f"CREATE MATERIALIZED VIEW v AS {select} ACCEPT UNBOUNDED")
        operator = db.view("v").query._member.operator
        assert operator.kind == "whole"
        assert operator.answer_key == key


def test_duckdb_is_asked_what_spark_would_be() -> None:
    assert translated("SELECT `a` FROM `v` AS `t`") == 'SELECT "a" FROM "v" AS "t"'

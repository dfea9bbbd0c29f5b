"""Archives and hybrid queries on Spark itself: runs written and read by tasks, queries that go on after a restart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import anabranch as ab
from anabranch import execution
from anabranch.engine.options import ArchivedFiles
from anabranch.kernels.sampling import kept, lots_between
from anabranch.queries.archived_files import archived_files
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.sql.once import OncePlan, plan_once
from anabranch.sql.reading.parser import parse
from anabranch.sql.statements import SelectOnce

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

BASE, DAY = 1_767_225_600_000_000, 86_400_000_000
SETTINGS = {"archive_local_bytes": 0, "archive_age_seconds": 3600.0}
LANDMARK = (
    "SELECT exit, count(*) AS cars, sum(speed) AS total FROM cars SINCE TIMESTAMP '2026-01-03 00:00:00' {reduce} "
    "GROUP BY exit EMIT EVERY INTERVAL 12 HOURS"
)
COMMUTERS = (
    "SELECT c.exit, count(*) AS n FROM cars c "
    "JOIN ARCHIVE cars h LAST 3 INTERVAL 1 DAY WITHIN INTERVAL 2 HOURS {reduce} "
    "ON c.plate = h.plate AND c.exit = h.exit GROUP BY c.exit EMIT EVERY INTERVAL 6 HOURS"
)


def cars(day: int, rows: int = 20_000) -> pa.Table:
    chance = np.random.default_rng(day)
    plates = chance.integers(0, 200, rows)
    return pa.table(
        {
            "plate": pa.array([f"p{plate}" for plate in plates]),
            "exit": pa.array((plates % 4).astype(np.int32)),
            "speed": pa.array(chance.integers(40, 180, rows).astype(np.int32)),
            "ts": pa.array(np.sort(chance.integers(BASE + day * DAY, BASE + (day + 1) * DAY, rows))).cast(TIME_TYPE),
        }
    )


def commuters(table: pa.Table) -> dict[tuple[int, int], int]:
    """Rows whose plate and exit were there within two hours on each of the three days before, by exit and period."""
    times = table.column("ts").cast(pa.int64()).to_numpy()
    plates = np.array([int(plate[1:]) for plate in table.column("plate").to_pylist()])
    found: dict[tuple[int, int], int] = {}
    period = DAY // 4
    for plate in np.unique(plates):
        own = times[plates == plate]
        seen = np.ones(len(own), bool)
        for days in (1, 2, 3):
            low = np.searchsorted(own, own - days * DAY - 2 * 3_600_000_000, side="left")
            high = np.searchsorted(own, own - days * DAY + 2 * 3_600_000_000, side="right")
            seen &= high > low
        for time in own[seen]:
            key = (int(plate % 4), int((time // period + 1) * period))
            found[key] = found.get(key, 0) + 1
    return found


@pytest.mark.long
def test_history_and_live_on_spark(tmp_path: Path) -> None:
    path = tmp_path / "river"
    tables = [cars(day) for day in range(6)]
    with ab.open(path, settings=SETTINGS) as db:
        db.sql("""CREATE STREAM cars (plate STRING, exit INT, speed INT, ts TIMESTAMP) TIMESTAMP BY ts;
                  CREATE ARCHIVE ON cars USING randomize_then_sort OPTIONS (run_rows 15000, blocks 20, seed 7);
                  CREATE ARCHIVE by_plate ON cars USING randomize_then_sort BY plate
                    OPTIONS (run_rows 15000, blocks 20)""")
        for table in tables[:4]:
            db.append("cars", table)
        for name in ("randomize_then_sort", "by_plate"):
            assert db.archive("cars", name).append() == 80_000
        everything = pa.concat_tables(tables[:4])
        total = pc.sum(everything.column("speed")).as_py()

        # One-time: by tasks, the same rows as the oracle's, with bounds around the truth.
        (row,) = (
            db.sql("SELECT sum(speed) AS s, count(*) AS n FROM ARCHIVE cars REDUCE BY uniform(0.75)")
            .table()
            .to_pylist()
        )
        assert row["n"] == row["n_low"] == row["n_high"] == 80_000
        assert row["s_low"] <= total <= row["s_high"]
        assert row["_fraction"] == pytest.approx(0.25, abs=0.02)
        chosen = everything.filter(pa.array(kept(lots_between(0, 80_000, 7), 0.25)))
        frame = db.dataframe("SELECT plate, speed, ts FROM ARCHIVE cars REDUCE BY uniform(0.75)")
        sample = frame.orderBy("ts", "plate", "speed").toArrow()
        assert sample.select(["plate", "speed"]).to_pylist() == (
            chosen.sort_by([("ts", "ascending"), ("plate", "ascending"), ("speed", "ascending")])
            .select(["plate", "speed"])
            .to_pylist()
        )
        assert db.sql("SELECT count(*) AS n, sum(speed) AS s FROM cars").table().to_pylist() == [
            {"n": 80_000, "s": total}
        ]

        # Standing: begins in the past.
        queries = {
            "exact": LANDMARK.format(reduce=""),
            "reduced": LANDMARK.format(reduce="REDUCE BY uniform(0.5)"),
            "seen": COMMUTERS.format(reduce=""),
            "some": COMMUTERS.format(reduce="REDUCE BY by_key(plate, 0.5)"),
        }
        for name, sql in queries.items():
            db.query(sql, name=name)
        db.append("cars", tables[4])
        for name in queries:
            db.get_query(name).wait(300)
    # And goes on after a restart, without a gap or a row twice.
    with ab.open(path, settings=SETTINGS) as db:
        db.append("cars", tables[5])
        db.archive("cars", "by_plate").append()
        for name in queries:
            db.get_query(name).wait(300)
        answers = {name: db.get_query(name).table() for name in queries}

    everything = pa.concat_tables(tables)
    times = everything.column("ts").cast(pa.int64()).to_numpy()
    exits, speeds = everything.column("exit").to_numpy(), everything.column("speed").to_numpy()
    since = BASE + 2 * DAY
    exact = {
        (r["exit"], int(r["_time"].timestamp() * 1e6)): (r["cars"], r["total"]) for r in answers["exact"].to_pylist()
    }
    ends = [since + i * DAY // 2 for i in range(1, 8)]
    assert exact == {
        (leave, end): (int(mask.sum()), int(speeds[mask].sum()))
        for leave in range(4)
        for end in ends
        if (mask := (exits == leave) & (times >= since) & (times < end)).any()
    }
    inside = 0
    for r in answers["reduced"].to_pylist():
        cars_there, total = exact[r["exit"], int(r["_time"].timestamp() * 1e6)]
        inside += (r["cars_low"] <= cars_there <= r["cars_high"]) + (r["total_low"] <= total <= r["total_high"])
    assert answers["reduced"].num_rows == len(exact)
    assert inside >= 0.85 * 2 * len(exact)

    truth = commuters(everything)
    last = max(int(r["_time"].timestamp() * 1e6) for r in answers["seen"].to_pylist())
    found = {(r["exit"], int(r["_time"].timestamp() * 1e6)): r["n"] for r in answers["seen"].to_pylist() if r["n"]}
    assert found == {key: n for key, n in truth.items() if key[1] <= last}
    hits = [
        r["n_low"] <= truth.get((r["exit"], int(r["_time"].timestamp() * 1e6)), 0) <= r["n_high"]
        for r in answers["some"].to_pylist()
    ]
    assert np.mean(hits) >= 0.85


ALL_TYPES = (
    "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f32 FLOAT, f64 DOUBLE, d DECIMAL(20, 4), s STRING, "
    "x BINARY, day DATE, at TIMESTAMP, ts TIMESTAMP"
)
IN_FULL = (
    "SELECT count(*), count(b), max(b), sum(i8), sum(i16), sum(i32), sum(i64), min(f32), max(f64), sum(d), max(s), "
    "max(x), min(day), max(at), max(ts) FROM {table}",
    "SELECT count(*) FROM {table}",
    "SELECT i8, count(*), avg(i64), stddev(i32) FROM {table} WHERE i16 > 10 AND s LIKE 'a%' GROUP BY i8 ORDER BY i8",
    "SELECT count(*), sum(t.i32) FROM {table} t JOIN other o ON o.i32 = t.i32",
)
NOT_ARCHIVED_YET = "ARCHIVE s BETWEEN TIMESTAMP '2026-01-01 00:00:59' AND TIMESTAMP '2026-01-01 00:10:00'"
TABLES = (
    "s",
    "ARCHIVE s",
    "ARCHIVE dealt ON s",
    "ARCHIVE s BETWEEN TIMESTAMP '2026-01-01 00:00:10' AND TIMESTAMP '2026-01-01 00:00:35.5'",
    NOT_ARCHIVED_YET,
)


def rows_of_all_types(first: int, rows: int) -> pa.Table:
    """Rows a tenth of a second apart, some of whose values are NULL."""
    n = range(first, first + rows)
    old = dt.date(1, 1, 1)  # before the calendars changed
    return pa.table(
        {
            "b": pa.array([None if i % 5 == 0 else i % 2 == 0 for i in n]),
            "i8": pa.array([i % 200 - 100 for i in n], pa.int8()),
            "i16": pa.array([i % 60_000 - 30_000 if i % 7 else 11 for i in n], pa.int16()),
            "i32": pa.array([i * 1000 for i in n], pa.int32()),
            "i64": pa.array([None if i % 11 == 0 else i << 40 for i in n], pa.int64()),
            "f32": pa.array([i / 2 for i in n], pa.float32()),
            "f64": pa.array([i / 4 for i in n], pa.float64()),
            "d": pa.array([Decimal(i * 10**10 + 1).scaleb(-4) for i in n], pa.decimal128(20, 4)),
            "s": pa.array(["ab"[i % 2] + str(i) for i in n]),
            "x": pa.array([bytes([i % 256]) for i in n]),
            "day": pa.array([old + dt.timedelta(days=i) for i in n]),
            "at": pa.array([-62_000_000_000_000_000 + i for i in n]).cast(TIME_TYPE),
            "ts": pa.array([BASE + i * 100_000 for i in n]).cast(TIME_TYPE),
        }
    )


@pytest.mark.long
def test_what_is_added_up_in_full_is_read_by_spark_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[bool] = []

    def found(plan: OncePlan, history: Any) -> dict[str, ArchivedFiles]:
        files = archived_files(plan, history)
        used.append(bool(files))
        return files

    def both(sql: str) -> list[pa.Table]:
        answers = []
        finds: list[Callable[[OncePlan, Any], dict[str, ArchivedFiles]]] = [lambda plan, history: {}, found]
        for find in finds:
            monkeypatch.setattr(execution, "archived_files", find)
            answers.append(db.sql(sql).table())
        return answers

    settings = {**SETTINGS, "segment_bytes": 20_000}
    with ab.open(tmp_path / "a river", settings=settings) as db:
        db.archives.close()
        db.sql(f"CREATE STREAM s ({ALL_TYPES}) TIMESTAMP BY ts RETAIN INTERVAL 5 SECONDS")
        db.sql(f"CREATE STREAM other ({ALL_TYPES}) TIMESTAMP BY ts")
        db.append("other", rows_of_all_types(100, 200))
        db.sql("""CREATE ARCHIVE ON s USING plain OPTIONS (run_rows 256);
                  CREATE ARCHIVE dealt ON s USING randomize_then_sort OPTIONS (run_rows 256, blocks 4)""")
        for first in range(0, 600, 100):
            db.append("s", rows_of_all_types(first, 100))
            if first < 400:
                for name in ("plain", "dealt"):
                    db.archive("s", name).append()
        assert db.reader("s").first_logged_row() > 0, "some rows are only in archives"
        for table in TABLES:
            used.clear()
            for sql in IN_FULL:
                by_us, by_spark = both(sql.format(table=table))
                assert by_spark.equals(by_us), sql.format(table=table)
            assert used == [table != NOT_ARCHIVED_YET] * len(IN_FULL)
        for answer in both("SELECT count(*) AS n FROM s"):
            assert answer.to_pylist() == [{"n": 600}]

        # A column that is younger than the files.
        db.sql("ALTER STREAM s ADD COLUMN later INT")
        for answer in both("SELECT count(*) AS n, count(later) AS m FROM ARCHIVE s"):
            assert answer.to_pylist() == [{"n": 600, "m": 0}]

        # A file that goes away between the look and the read.
        def gone(plan: OncePlan, history: Any) -> dict[str, ArchivedFiles]:
            files = archived_files(plan, history)
            for each in files.values():
                each.paths.append(f"{each.paths[0]}-gone")
            return files

        monkeypatch.setattr(execution, "archived_files", gone)
        assert db.sql("SELECT count(*) AS n FROM s").table().to_pylist() == [{"n": 600}]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM s", True),
        ("SELECT i8, sum(i32) FROM s GROUP BY i8 HAVING count(*) > 1", True),
        ("SELECT approx_count_distinct(i8) FROM s", True),
        ("SELECT i8 FROM s", False),
        ("SELECT first(i8) FROM s", False),
        ("SELECT collect_list(i8) FROM s", False),
        ("SELECT mode(i8) FROM s", False),
        ("SELECT sum(n) FROM (SELECT i8 AS n FROM s LIMIT 3)", False),
        ("SELECT count(*), row_number() OVER (ORDER BY i8) FROM s GROUP BY i8", False),
    ],
)
def test_what_depends_on_the_order_of_rows(sql: str, expected: bool) -> None:
    (statement,) = parse(sql)
    assert isinstance(statement, SelectOnce)
    schema = StreamSchema.of([("i8", "TINYINT"), ("i32", "INT"), ("ts", "TIMESTAMP")], "ts")
    assert plan_once(statement.select, lambda name: schema).in_any_order == expected

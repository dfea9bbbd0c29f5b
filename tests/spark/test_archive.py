"""Archives and hybrid queries on Spark itself: runs written and read by tasks, queries that go on after a restart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import anabranch as ab
from anabranch.kernels.sampling import kept, lots_between
from anabranch.schema import TIME_TYPE

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

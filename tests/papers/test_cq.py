"""Babu, S. and Widom, J. (2001). Continuous Queries over Data Streams. SIGMOD Record 30(3), 109-120.

The paper's network: packet headers of a customer's link (PTc) and a backbone link (PTb), here
simulated. Q1 asks for the load on the backbone per minute where it is above a threshold. A query's
answer is kept in four places: *Stream* (what stays true), *Store* (what is true now), *Scratch* (what is
needed to go on), *Throw* (what is needed no more).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from anabranch.database import Database
from anabranch.sources import Packets
from anabranch.sources.generator import Link
from anabranch.testing import ManualClock
from anabranch.testing.sparkless import SparklessDatabase

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND, MINUTE = 1_000_000, 60_000_000
BEGIN = 1_767_225_600_000_000
"""2026-01-01 00:00:00 UTC."""
RATE = 100
CREATE = "CREATE STREAM PTb (saddr STRING, daddr STRING, id BIGINT, length INT, ts TIMESTAMP) TIMESTAMP BY ts"
Q1 = "SELECT getminute(ts) AS minute, sum(length) AS load FROM PTb GROUP BY getminute(ts) HAVING sum(length) > {t}"


def packets(seconds: int, seed: int = 1) -> Any:
    return Packets(seed).batch(BEGIN, BEGIN + seconds * SECOND, RATE)


def arrays(table: Any) -> tuple[Any, Any]:
    return table.column("ts").cast("int64").to_numpy(), table.column("length").to_numpy().astype(np.int64)


def load_per_minute(table: Any) -> dict[int, int]:
    """By the number of the minute, recomputed from all packets."""
    times, lengths = arrays(table)
    load: Counter[int] = Counter()
    for minute, length in zip((times // MINUTE).tolist(), lengths.tolist(), strict=True):
        load[minute] += length
    return dict(load)


def answered(table: Any) -> list[tuple[int, int]]:
    minutes = (table.column("minute").cast("int64").to_numpy() // MINUTE).tolist()
    return list(zip(minutes, table.column("load").to_pylist(), strict=True))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGIN + 86_400 * SECOND)


def test_q1_equals_a_recomputation_from_all_packets(tmp_path: Path, clock: ManualClock, spark: SparkSession) -> None:
    data = packets(seconds=400)
    load = load_per_minute(data)
    complete = sorted(load)[:-1]
    threshold = int(np.median([load[m] for m in complete]))
    wanted = [(m, load[m]) for m in complete if load[m] > threshold]
    assert 1 < len(wanted) < len(complete)
    with Database(tmp_path / "db", clock=clock) as db:
        db.sql(CREATE)
        db.append("PTb", data.slice(0, 7_000))
        query = db.query(Q1.format(t=threshold), name="q1")
        for at in range(7_000, data.num_rows, 9_999):
            db.append("PTb", data.slice(at, 9_999))
        assert answered(query.wait(120).table()) == wanted


def test_q1_is_answered_as_soon_as_a_minute_is_over(tmp_path: Path, clock: ManualClock) -> None:
    data = packets(seconds=190)
    times, _ = arrays(data)
    load = load_per_minute(data)
    with SparklessDatabase(tmp_path / "db", clock=clock) as db:
        db.sql(CREATE)
        query = db.query(Q1.format(t=0), name="q1")
        at = 0
        for end in np.searchsorted(times, BEGIN + np.arange(10, 200, 10) * SECOND).tolist():
            db.append("PTb", data.slice(at, end - at))
            at = end
            db.catch_up()
            over = [m for m in sorted(load) if (m + 1) * MINUTE <= times[at - 1]]
            assert answered(query.table()) == [(m, load[m]) for m in over]


def test_store_of_q1_is_the_newest_minute(tmp_path: Path, clock: ManualClock) -> None:
    data = packets(seconds=190)
    load = load_per_minute(data)
    with SparklessDatabase(tmp_path / "db", clock=clock) as db:
        db.sql(CREATE)
        query = db.query(Q1.format(t=0), name="q1")
        db.append("PTb", data)
        db.catch_up()
        newest = sorted(load)[-2]
        assert answered(query.store()) == [(newest, load[newest])]


def test_every_packet_of_a_selection_is_in_stream_or_throw(tmp_path: Path, clock: ManualClock) -> None:
    data = packets(seconds=30)
    _, lengths = arrays(data)
    with SparklessDatabase(tmp_path / "db", clock=clock, settings={"batch_rows": 700}) as db:
        db.sql(CREATE)
        query = db.query("SELECT saddr, length FROM PTb WHERE length > 1000", name="big")
        for at in range(0, data.num_rows, 1_000):
            db.append("PTb", data.slice(at, 1_000))
            db.catch_up()
            seen = lengths[: at + 1_000]
            stats = query.stats()
            assert stats["rows_in"] == len(seen) == stats["stream"]["rows"] + stats["throw"]["rows"]
            assert stats["stream"]["rows"] == np.count_nonzero(seen > 1000)
            assert (stats["store"]["rows"], stats["scratch"]["rows"], stats["behind_rows"]) == (0, 0, 0)


def test_every_packet_of_an_aggregate_is_in_stream_scratch_or_throw(tmp_path: Path, clock: ManualClock) -> None:
    data = packets(seconds=50)
    times, lengths = arrays(data)
    sql = "SELECT saddr, count(*) AS n FROM PTb WINDOW = INTERVAL 10 SECONDS WHERE length > 100 GROUP BY saddr"
    with SparklessDatabase(tmp_path / "db", clock=clock, settings={"batch_rows": 900}) as db:
        db.sql(CREATE)
        query = db.query(sql, name="counts")
        for at in range(0, data.num_rows, 1_100):
            db.append("PTb", data.slice(at, 1_100))
            db.catch_up()
            seen, kept = times[: at + 1_100], lengths[: at + 1_100] > 100
            opened = seen[-1] // (10 * SECOND) * (10 * SECOND)
            waiting = kept & (seen >= opened)
            stats = query.stats()
            in_stream = sum(query.table().column("n").to_pylist())
            assert stats["rows_in"] == len(seen) == in_stream + np.count_nonzero(waiting) + stats["throw"]["rows"]
            assert stats["throw"]["rows"] == np.count_nonzero(~kept)
            senders = set(data.column("saddr").slice(0, len(seen)).filter(waiting).to_pylist())
            assert stats["scratch"]["rows"] >= len(senders)
        total_groups = len(set(data.column("saddr").to_pylist()))
        assert stats["scratch"]["rows"] <= 3 * total_groups, "scratch is bounded by groups, not by packets"


def test_counts_outlive_the_process_and_count_nothing_twice(tmp_path: Path, clock: ManualClock) -> None:
    data = packets(seconds=20)
    for at in range(0, data.num_rows, 1_500):
        with SparklessDatabase(tmp_path / "db", clock=clock) as db:
            if at == 0:
                db.sql(CREATE)
                db.query("SELECT id FROM PTb WHERE length > 1000", name="big")
            db.append("PTb", data.slice(at, 1_500))
            db.catch_up()
            stats = db.get_query("big").stats()
    assert stats["rows_in"] == data.num_rows
    assert stats["stream"]["rows"] + stats["throw"]["rows"] == data.num_rows


Q2 = (
    "SELECT (SELECT count(*) FROM PTc AS C, PTb AS B WINDOW = INTERVAL 10 SECONDS "
    "WHERE C.saddr = B.saddr AND C.daddr = B.daddr AND C.id = B.id) / "
    "(SELECT count(*) FROM PTb) AS fraction EMIT EVERY INTERVAL 1 MINUTE"
)


def common_packets(customer: Any, backbone: Any) -> Counter[int]:
    """Packets that were on both links at most ten seconds apart, by the number of the minute of the later one."""
    seen: dict[Any, list[int]] = {}
    columns = ("saddr", "daddr", "id")
    times = customer.column("ts").cast("int64").to_pylist()
    for *key, time in zip(*(customer.column(c).to_pylist() for c in columns), times, strict=True):
        seen.setdefault(tuple(key), []).append(time)
    found: Counter[int] = Counter()
    times = backbone.column("ts").cast("int64").to_pylist()
    for *key, time in zip(*(backbone.column(c).to_pylist() for c in columns), times, strict=True):
        for other in seen.get(tuple(key), []):
            if abs(other - time) <= 10 * SECOND:
                found[max(other, time) // MINUTE] += 1
    return found


@pytest.mark.parametrize("batch_rows", [100_000, 3_001])
def test_q2_is_the_customers_share_of_the_backbone(tmp_path: Path, clock: ManualClock, batch_rows: int) -> None:
    seen_on: dict[str, Link] = {"PTc": "customer", "PTb": "backbone"}
    links = {name: Packets(3).batch(BEGIN, BEGIN + 200 * SECOND, RATE, link) for name, link in seen_on.items()}
    common, all_packets = common_packets(links["PTc"], links["PTb"]), Counter[int]()
    for time in links["PTb"].column("ts").cast("int64").to_pylist():
        all_packets[time // MINUTE] += 1
    complete = sorted(all_packets)[:-1]
    with SparklessDatabase(tmp_path / "db", clock=clock, settings={"batch_rows": batch_rows}) as db:
        for name in links:
            db.sql(CREATE.replace("PTb", name))
        query = db.query(Q2, name="q2")
        for at in range(0, 40_000, 5_000):
            for name, rows in links.items():
                db.append(name, rows.slice(at, 5_000))
            db.catch_up()
        got = query.table()
        minutes = [time // MINUTE - 1 for time in got.column("_time").cast("int64").to_pylist()]
        assert minutes == complete
        fractions = got.column("fraction").to_pylist()
        assert fractions == [common[minute] / all_packets[minute] for minute in complete]
        assert all(0.2 < fraction < 0.6 for fraction in fractions)


Q3 = """
With Load As
  (Select saddr, daddr, sum(length) as traffic
   From PTb WINDOW = INTERVAL 1 MINUTE
   Group By saddr, daddr)
Select saddr, daddr, traffic
From Load As L1
Where (Select count(*)
       From Load as L2
       Where L2.traffic < L1.traffic) >
      (Select 0.95 * count(*) From Load)
Order By traffic
"""


def busiest(rows: Any, minute: int) -> set[tuple[str, str, int]]:
    """The pairs of which more than 95 of 100 had less traffic in a minute."""
    times, lengths = arrays(rows)
    load: Counter[tuple[str, str]] = Counter()
    pairs = zip(rows.column("saddr").to_pylist(), rows.column("daddr").to_pylist(), strict=True)
    for pair, time, length in zip(pairs, times.tolist(), lengths.tolist(), strict=True):
        if time // MINUTE == minute:
            load[pair] += length
    amounts = np.sort(np.fromiter(load.values(), np.int64))
    return {(*pair, n) for pair, n in load.items() if np.searchsorted(amounts, n) > 0.95 * len(amounts)}


@pytest.mark.slow
@pytest.mark.parametrize("batch_rows", [100_000, 1_999])
def test_q3_is_the_busiest_pairs_of_the_minute_that_is_over(
    tmp_path: Path, clock: ManualClock, batch_rows: int
) -> None:
    rows = packets(250, seed=4)
    with SparklessDatabase(tmp_path / "db", clock=clock, settings={"batch_rows": batch_rows}) as db:
        db.sql(CREATE)
        db.sql(f"CREATE MATERIALIZED VIEW q3 AS {Q3}")
        seen = 0
        for at in range(0, rows.num_rows, 7_000):
            db.append("PTb", rows.slice(at, 7_000))
            db.catch_up()
            known = rows.slice(0, at + 7_000)
            minute = int(arrays(known)[0][-1]) // MINUTE - 1
            wanted = busiest(known, minute)
            assert {tuple(row.values()) for row in db.table("q3").to_pylist()} == wanted
            seen += len(wanted)
    assert seen > 100

"""The demo's answers computed a second time, from the streams' rows alone, with plain Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.apps.network import BIG, load_threshold, talker_threshold
from anabranch.sources.generator import SECOND

if TYPE_CHECKING:
    from anabranch.database import Database

_MOST_ROWS = 3_000_000
_SECONDS = 5
"""How many of the newest answers about whole seconds are computed again where that takes long."""


@dataclass(frozen=True)
class Check:
    """What came of computing a query's answer a second time, from the stream's rows alone."""

    query: str
    compared: int
    equal: bool
    what: str


def check(db: Database, rate: int) -> Iterator[Check]:
    """Compute answers again with plain Arrow over what the streams hold, and compare.

    At most the last few million rows of a stream are looked at; the feeder must have stopped and
    the queries have caught up.
    """
    backbone, customer = (db.tail(stream, rows=_MOST_ROWS) for stream in ("PTb", "PTc"))
    yield _check_load(db, backbone, rate)
    yield _check_talkers(db, backbone, rate)
    yield _check_big(db, customer)
    yield _check_share(db, customer, backbone)


def _check_load(db: Database, rows: pa.Table, rate: int) -> Check:
    first, last = _whole_seconds(rows)
    seconds = pc.add(pc.divide(_us(rows.column("ts")), SECOND), 1)
    sums = pa.table({"end": seconds, "length": rows.column("length")}).group_by("end").aggregate([("length", "sum")])
    wanted = sorted(
        (end * SECOND, total)
        for end, total in zip(sums.column("end").to_pylist(), sums.column("length_sum").to_pylist(), strict=True)
        if first < end * SECOND <= last and total > load_threshold(rate)
    )
    answer = db.tail("load", rows=_MOST_ROWS)
    ends = _us(answer.column("window_end")).to_pylist()
    got = [
        (end, total) for end, total in zip(ends, answer.column("bytes").to_pylist(), strict=True) if first < end <= last
    ]
    whole = max(0, (last - first) // SECOND)
    return Check("load", whole, got == wanted, f"{whole} seconds, {len(wanted)} above the threshold")


def _check_talkers(db: Database, rows: pa.Table, rate: int) -> Check:
    """The newest window only: it is the one people look at."""
    answer = db.tail("talkers", rows=100_000)
    if not answer.num_rows:
        return Check("talkers", 0, True, "no answer yet")
    end = _us(answer.column("_time"))[-1].as_py()
    newest = answer.filter(pc.equal(_us(answer.column("_time")), end))
    times = _us(rows.column("ts"))
    window = rows.filter(pc.and_(pc.greater_equal(times, end - 10 * SECOND), pc.less(times, end)))
    groups = window.group_by("saddr").aggregate([("length", "count"), ("length", "sum")])
    columns = (groups.column(name).to_pylist() for name in ("saddr", "length_count", "length_sum"))
    wanted = {row for row in zip(*columns, strict=True) if row[1] > talker_threshold(rate)}
    got = list(zip(*(newest.column(name).to_pylist() for name in ("saddr", "packets", "bytes")), strict=True))
    equal = len(got) == len(wanted) and set(got) == wanted
    return Check("talkers", len(wanted), equal, f"{len(wanted)} hosts of the newest window")


def _check_big(db: Database, rows: pa.Table) -> Check:
    wanted = rows.filter(pc.greater(rows.column("length"), BIG)).select(["saddr", "daddr", "length", "ts"])
    got = db.tail("big", rows=wanted.num_rows)
    return Check("big", wanted.num_rows, got.equals(wanted), f"{wanted.num_rows:,} packets")


def _check_share(db: Database, customer: pa.Table, backbone: pa.Table) -> Check:
    """The newest seconds: packets that were on both links, by Arrow's own join."""
    answer = db.tail("share", rows=_SECONDS)
    ends = _us(answer.column("_time")).to_pylist()
    if len(ends) < 2:
        return Check("share", 0, True, "no answer yet")
    since = ends[0] - 3 * SECOND
    links = [_renamed(rows, since, side) for rows, side in ((customer, "c"), (backbone, "b"))]
    both = links[0].join(links[1], ["saddr", "daddr", "id"], join_type="inner")
    c, b = both.column("c"), both.column("b")
    both = both.filter(pc.less_equal(pc.abs(pc.subtract(c, b)), SECOND))
    seen = pc.add(pc.divide(pc.max_element_wise(both.column("c"), both.column("b")), SECOND), 1)
    pairs, packets = (
        {row["values"] * SECOND: row["counts"] for row in pc.value_counts(seconds).to_pylist()}
        for seconds in (seen, pc.add(pc.divide(links[1].column("b"), SECOND), 1))
    )
    wanted = [pairs.get(end, 0) / packets[end] for end in ends]
    got = answer.column("fraction").to_pylist()
    return Check("share", len(ends), got == wanted, f"{len(ends)} seconds, {wanted[-1]:.0%} in the last")


def _renamed(rows: pa.Table, since: int, side: str) -> pa.Table:
    times = _us(rows.column("ts"))
    columns = {name: rows.column(name) for name in ("saddr", "daddr", "id")}
    return pa.table({**columns, side: times}).filter(pc.greater_equal(times, since))


def _whole_seconds(rows: pa.Table) -> tuple[int, int]:
    """The first second that is there from its beginning (its start) and the last that is over (its end)."""
    if not rows.num_rows:
        return 0, 0
    times = _us(rows.column("ts"))
    first, last = times[0].as_py(), times[-1].as_py()
    return (first // SECOND + 1) * SECOND, last // SECOND * SECOND


def _us(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.int64())

"""Figure 7 of STEAM: service time per tuple, by 1,000 tuples, of 2-, 3- and 4-way joins on shop transactions.

M. A. Hammad, W. G. Aref, A. K. Elmagarmid et al., "STEAM" (2002), §6.2.4. The paper's transactions are those of real
shops; ours are made: each day shops open, become busy, and close; some items are sold more often than others. Rows of
different shops join if they are of the same item and within an hour of each other. Time is processor time, as other
work on the machine would blur what is compared.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.schema import TIME_TYPE
from benchmarks.harness import check, median, say
from benchmarks.window_join.data import PRIME, START, Answer, Ints
from benchmarks.window_join.figure7_joins import make_sides, run
from benchmarks.window_join.oracle import equal_keys

HOUR = 3_600_000
OPENS, CLOSES = 8 * HOUR, 21 * HOUR
BLOCK = 1000
PURGE_EVERY = 10_000
BUCKETS = 1 << 10
FLAT = 1.25
"""A curve is flat if the last day's tuples cost at most this much more than the second day's."""


@dataclass(frozen=True)
class Join:
    """One of the four algorithms."""

    name: str
    hashing: bool
    purge_every: int


JOINS = (
    Join("NLW-join", hashing=False, purge_every=0),
    Join("ripple join", hashing=False, purge_every=PURGE_EVERY),
    Join("HW-join", hashing=True, purge_every=0),
    Join("XJoin", hashing=True, purge_every=PURGE_EVERY),
)
PAIRS = (("NLW-join", "ripple join"), ("HW-join", "XJoin"))


@dataclass(frozen=True)
class FigureSizes:
    """How much is run through."""

    days: int
    sales: int
    """Rows of a shop and day."""
    items: int = 5000
    streams: tuple[int, ...] = (2, 3, 4)
    rounds: int = 3
    capacity: int = 1 << 19
    """Tuples one side of a stage has room for."""


@dataclass(frozen=True)
class Curve:
    """The service time (µs per tuple) of each block of 1,000 tuples."""

    join: str
    streams: int
    micros: list[float]
    days: list[float]
    """The same per day."""
    results: int

    @property
    def mean(self) -> float:
        return float(np.mean(self.micros))

    @property
    def growth(self) -> float:
        """The last day over the second: on the first, buffers fill."""
        return self.days[-1] / self.days[min(1, len(self.days) - 1)]


@dataclass(frozen=True)
class Claim:
    """Something the paper says of the figure, and whether it is so here."""

    claim: str
    holds: bool
    seen: str


def sales(shop: int, days: int, per_day: int, items: int) -> pa.Table:
    """The transactions of a shop: (k, v, ts), most of them around midday and in the afternoon."""
    random = np.random.default_rng([7, shop])
    weights = (np.arange(items) + 100.0) ** -0.7
    times = []
    for day in range(days):
        share = np.concatenate([random.beta(4, 5, per_day // 2), random.beta(5, 3, per_day - per_day // 2)])
        times.append(day * 24 * HOUR + OPENS + np.sort(share) * (CLOSES - OPENS))
    stamps = START // (24 * HOUR) * 24 * HOUR + np.concatenate(times).astype(np.int64)
    sold = random.choice(items, len(stamps), p=weights / weights.sum())
    values = random.integers(1, PRIME, len(stamps))
    return pa.table({"k": sold, "v": values, "ts": pa.array(stamps * 1000).cast(TIME_TYPE)})


def merged(shops: list[pa.Table]) -> NDArray[np.int64]:
    """Rows (stream, key, time, mark) of all shops in order of time."""
    parts = []
    for number, shop in enumerate(shops):
        stamps = shop.column("ts").cast(pa.int64()).to_numpy() // 1000
        columns = [np.full(len(stamps), number), shop.column("k").to_numpy(), stamps, shop.column("v").to_numpy()]
        parts.append(np.column_stack(columns))
    rows = np.concatenate(parts)
    return np.ascontiguousarray(rows[np.argsort(rows[:, 2], kind="stable")])


def serve(join: Join, rows: Ints, streams: int, sizes: FigureSizes) -> tuple[Answer, list[float]]:
    """Take all rows in, and give the answer and the service time of each block."""
    sides = make_sides(streams, sizes.capacity, BUCKETS)
    count = total = 0
    micros = []
    for low in range(0, len(rows), BLOCK):
        block = rows[low : low + BLOCK]
        began = time.thread_time()
        found, marks = run(block, sides, HOUR, join.hashing, join.purge_every, low)
        micros.append((time.thread_time() - began) * 1e6 / len(block))
        count, total = count + found, total + marks
    return Answer(count, total), micros


def curve(join: Join, rows: Ints, streams: int, sizes: FigureSizes, expected: Answer) -> Curve:
    """The least of all rounds for each block, so that what else runs on the machine shows as little as possible."""
    serve(join, rows[: 2 * BLOCK], streams, sizes)  # compiles
    taken = []
    for _ in range(sizes.rounds):
        answer, micros = serve(join, rows, streams, sizes)
        check(answer == expected, f"{join.name} of {streams} streams answered {answer}, not {expected}")
        taken.append(micros)
    least = np.min(taken, axis=0)
    day = rows[: len(least) * BLOCK : BLOCK, 2] // (24 * HOUR)
    per_day = [float(least[day == each].mean()) for each in np.unique(day)]
    say(f"{join.name}, {streams} streams: {least.mean():.2f} µs per tuple, {answer.rows:,} results")
    return Curve(join.name, streams, [round(float(each), 3) for each in least], per_day, answer.rows)


def measure(sizes: FigureSizes) -> list[Curve]:
    """All curves of the figure, each with the answer of the oracle."""
    shops = [sales(shop, sizes.days, sizes.sales, sizes.items) for shop in range(max(sizes.streams))]
    found = []
    for streams in sizes.streams:
        pairs = {(i, j): HOUR for j in range(streams) for i in range(j)}
        expected = equal_keys(shops[:streams], pairs)
        check(expected.rows > 0, "no two sales join")
        rows = merged(shops[:streams])
        found += [curve(join, rows, streams, sizes, expected) for join in JOINS]
    return found


def claims(curves: list[Curve]) -> list[Claim]:
    """What the paper says of its Figure 7."""
    by = {(curve.join, curve.streams): curve for curve in curves}
    found = []
    for ours, other in PAIRS:
        for streams in sorted({curve.streams for curve in curves}):
            own, peer = by[ours, streams], by[other, streams]
            wins = float(np.mean(np.asarray(own.micros) < np.asarray(peer.micros)))
            seen = f"{own.mean:.2f} against {peer.mean:.2f} µs ({peer.mean / own.mean:.1f}×), in {wins:.0%} of blocks"
            found.append(Claim(f"{ours} faster than {other}, {streams} streams", own.mean < peer.mean, seen))
    for ours, _ in PAIRS:
        worst = max((c for c in curves if c.join == ours), key=lambda c: c.growth)
        seen = f"last day {worst.growth:.2f} of the second day ({worst.streams} streams)"
        found.append(Claim(f"{ours} does not become slower over time", worst.growth <= FLAT, seen))
    return found


def as_dicts(curves: list[Curve]) -> list[dict[str, Any]]:
    return [asdict(curve) for curve in curves]


def summary(curves: list[Curve]) -> dict[str, str]:
    """Mean and median service times, for the notes of the report."""
    return {f"{c.join}, {c.streams} streams": f"{c.mean:.2f} µs, median {median(c.micros):.2f}" for c in curves}

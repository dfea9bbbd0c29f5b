"""Which storage, index and ring a window is to have: a small model of their costs.

After Table 1 of L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data
Streams" (2003), with constants in nanoseconds measured on one core of a 2020s server. Their ratios decide, and these
differ little between machines. Only structures with exact answers are chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

BUILD = {"LIST": 0.0, "AGGR": 3.0, "HASH": 12.0}
"""Per tuple; AGGR: per tuple and value passed, half of those in the basic window."""
LOCATE = {"L": 4.0, "T": 2.5, "H": 18.0}
"""Per entry; L: and value passed, half of those in the window; T: and level of the tree."""
COUNT = 4.5
"""Per entry: count it when it comes and uncount it when it goes."""
ASK = {"L": 60_000.0, "T": 12_000.0, "H": 110_000.0}
"""Per question."""
QUERY = {
    "histogram": {"L": 10.0, "T": 9.0, "H": 40.0},
    "quantile": {"L": 12.0, "T": 8.0, "H": 41.0},
    "mode": {"L": 12.5, "T": 8.0, "H": 43.0},
}
"""Per question and value in the window."""
FREE = frozenset({"count"})
"""What is counted all the time: tuples, distinct values, the frequency of one value."""
TUPLES = frozenset({"sorted", "lookup", "join"})
"""What needs a ring."""


@dataclass(frozen=True)
class Choice:
    """Names for `SlidingWindow`, and the reason in words."""

    storage: str
    index: str
    ring: str | None
    why: str


def maintenance(storage: str, index: str, tuples: float, distinct: float, basic_windows: int) -> float:
    """Nanoseconds per tuple to keep a window of `tuples` tuples and `distinct` values up to date."""
    b = max(1.0, tuples / basic_windows)
    d = expected_distinct(distinct, b)
    build = BUILD[storage] * (d / 2 if storage == "AGGR" else 1)
    factor = {"L": distinct / 2, "T": math.log2(distinct + 1), "H": 1.0}[index]
    entries = 1.0 if storage == "LIST" else d / b
    return build + entries * (LOCATE[index] * factor + COUNT)


def choose(
    tuples: float, distinct: float, basic_windows: int, needs: Iterable[str] = ("histogram", "quantile", "mode")
) -> Choice:
    """The cheapest exact structures for a window, all told: keeping it and asking it once per basic window.

    >>> choose(100_000, 10_000, 100).storage, choose(10_000_000, 10_000, 100).storage
    ('LIST', 'HASH')
    >>> choose(100_000, 10_000, 100).index, choose(100_000, 10_000, 100, needs=["count"]).index
    ('T', 'H')
    >>> choose(100_000, 1_000, 100, needs=["sorted"]).ring
    'DB'
    """
    wanted = set(needs)
    unknown = wanted - set(QUERY) - FREE - TUPLES
    if unknown:
        raise ValueError(f"needs are {', '.join([*QUERY, *FREE, *sorted(TUPLES)])}, not {', '.join(sorted(unknown))}")
    ring = "DB" if wanted & TUPLES else None
    asked = (wanted & set(QUERY)) | ({"histogram"} if "sorted" in wanted else set())
    b = max(1.0, tuples / basic_windows)

    def cost(storage: str, index: str) -> float:
        queries = sum(ASK[index] + QUERY[need][index] * distinct for need in asked) / b
        return maintenance(storage, index, tuples, distinct, basic_windows) + queries

    # Rings are made of tuples, so only LIST will do.
    storages = ["LIST"] if ring else list(BUILD)
    best = min(((s, i) for s in storages for i in LOCATE), key=lambda pair: cost(*pair))
    why = (
        f"about {cost(*best):.0f} ns per tuple for basic windows of {b:.0f} tuples with "
        f"{expected_distinct(distinct, b):.0f} of {distinct:.0f} distinct values"
    )
    return Choice(*best, ring, why)


def expected_distinct(distinct: float, draws: float) -> float:
    """How many of `distinct` equally frequent values so many draws are expected to show."""
    return distinct * -math.expm1(-draws / distinct)


def estimated_distinct(seen: int, draws: int, most: float) -> float:
    """How many values there are if so many draws showed `seen` of them; at most `most`.

    >>> round(estimated_distinct(952, 1000, most=1e6))
    10081
    """
    low, high = float(max(seen, 1)), max(most, float(seen), 1.0)
    while high - low > 1:
        middle = (low + high) / 2
        low, high = (middle, high) if expected_distinct(middle, draws) < seen else (low, middle)
    return high

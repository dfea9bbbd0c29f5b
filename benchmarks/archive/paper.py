"""What the paper says: the formulas of Table 1, its parameters (§4.1.5), and what its text gives of Figures 11 to 18.

The figures are plots without numbers, so of the measured ones only what the text says is here. A Pentium III at
1390 MHz with 512 MB, and one disk that gives 60 MB/s.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from benchmarks.archive.data import COPIED, HYBRIDS, LAZY, VACUUMED

INSERT_SECONDS = 430.0
"""20 million tuples into the strawman."""
QUERY_SECONDS = 20.0
"""count(*) over them."""
BLOCKS = 108_000
"""Of 8192 bytes, as the strawman has them."""
INSERT_SECONDS_WITH_QUERIES = 1500.0
"""The strawman with three queries and more (Figure 13)."""
QUERIES_COMPLETED = {1: 13, 2: 25, 4: 30, 8: 30, 16: 30}
"""The strawman at 25 % reduction, by how many run at a time (Figure 15); it stays at around 30 from three on."""
LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Reductions of the copies of the eager design."""
BLOCKS_OF_RUN = {"blocks_10": 10, "blocks_100": 100, "blocks_500": 500}

WRITES: dict[str, float] = {
    "plain": 1.0,
    "on_write_replicate": 1.0 + sum(1 - level for level in LEVELS),
    LAZY: 1.0,
    COPIED: 2.0,
    **dict.fromkeys(HYBRIDS, 1.0),
}
"""Table 1, cost of writes in B; I/S is nearly zero."""


def _copy(keep: float) -> float:
    """g: the smallest copy that holds as much."""
    return min((1 - level for level in LEVELS if 1 - level >= keep - 1e-9), default=1.0)


def _run(blocks: int) -> Callable[[float], float]:
    return lambda keep: math.ceil(blocks * keep - 1e-9) / blocks


READS: dict[str, Callable[[float], float]] = {
    "plain": lambda keep: 1.0,
    "on_write_replicate": _copy,
    f"{LAZY}_first": lambda keep: 1.0 + math.ceil(1 - keep - 1e-9),
    LAZY: lambda keep: 1.0,
    VACUUMED: lambda keep: keep,
    **{name: _run(blocks) for name, blocks in BLOCKS_OF_RUN.items()},
}
"""Table 1, cost of reads in B by the fraction that is kept; of the lazy design the first, second and later ones."""


def insert_seconds(name: str) -> float:
    """Figure 9."""
    return INSERT_SECONDS * WRITES[name]


def query_seconds(name: str, reduction: float) -> float:
    """Figure 10."""
    return QUERY_SECONDS * READS[name](1 - reduction)

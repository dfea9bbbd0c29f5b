"""What the paper measured: Tables 1 to 4 of M. Mazzucco et al. (2002).

Two machines with Pentium III at 1 GHz and one with a Pentium 4, between Amsterdam and Chicago, on a line of 622 Mbit/s.
"""

from __future__ import annotations

from typing import NamedTuple

SHARES = (0.02, 0.10, 0.20, 0.33)
"""How much of the file is out of order."""
STEPS = (0.2, 0.4, 0.8)
"""K for a window of N records is this part of N."""
SECONDS_OF_RTM = 0.475
MERGED_MB_PER_SECOND = 34
LINE_MBIT, FETCHED_MBIT = 622, 520
ROUND_TRIP = 0.1
"""Seconds, about that between Amsterdam and Chicago."""


class PaperCell(NamedTuple):
    """A line of Table 1 or 2."""

    match: int
    fetch: float
    merge: float
    total: float


CGM: dict[tuple[int, float], tuple[PaperCell, ...]] = {
    (5000, 0.02): (
        PaperCell(100, 0.639, 0.587, 1.228),
        PaperCell(100, 0.639, 0.593, 1.233),
        PaperCell(100, 0.639, 0.596, 1.236),
    ),
    (5000, 0.10): (
        PaperCell(99, 0.638, 1.068, 1.71),
        PaperCell(99, 0.637, 1.067, 1.699),
        PaperCell(87, 0.638, 0.576, 1.216),
    ),
    (5000, 0.20): (
        PaperCell(99, 0.637, 1.1034, 1.741),
        PaperCell(99, 0.637, 1.086, 1.723),
        PaperCell(72, 0.638, 0.652, 1.291),
    ),
    (5000, 0.33): (
        PaperCell(99, 0.64, 1.445, 2.085),
        PaperCell(89, 0.64, 1.288, 1.928),
        PaperCell(48, 0.639, 0.669, 1.309),
    ),
    (10000, 0.02): (
        PaperCell(100, 0.638, 0.647, 1.285),
        PaperCell(100, 0.639, 0.646, 1.285),
        PaperCell(100, 0.638, 0.64, 1.279),
    ),
    (10000, 0.10): (
        PaperCell(99, 0.637, 0.767, 1.404),
        PaperCell(99, 0.638, 0.769, 1.407),
        PaperCell(87, 0.638, 0.643, 1.281),
    ),
    (10000, 0.20): (
        PaperCell(97, 0.637, 1.268, 1.905),
        PaperCell(97, 0.637, 1.261, 1.899),
        PaperCell(72, 0.638, 0.691, 1.329),
    ),
    (10000, 0.33): (
        PaperCell(99, 0.636, 1.477, 2.114),
        PaperCell(92, 0.64, 1.292, 1.932),
        PaperCell(49, 0.638, 0.727, 1.365),
    ),
}
"""By window and share out of order; one for each step."""

RTM: dict[tuple[int, float], tuple[int, float]] = {
    (5000, 0.02): (86, 0.475),
    (5000, 0.10): (74, 0.472),
    (5000, 0.20): (70, 0.478),
    (5000, 0.33): (69, 0.471),
    (10000, 0.02): (92, 0.485),
    (10000, 0.10): (82, 0.487),
    (10000, 0.20): (79, 0.484),
    (10000, 0.33): (71, 0.482),
}
"""Match % and total seconds."""

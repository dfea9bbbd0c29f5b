"""What the paper says of its tables and figures, held against ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.merge.paper import STEPS
from benchmarks.merge.ranges import RangeCell
from benchmarks.merge.tables import Cell, Point

NEAR = 10
"""Points of match % that a cell may differ."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, whether it holds here, and what was seen."""

    claim: str
    holds: bool
    seen: str


def claims(
    cells: Sequence[Cell], figure_4: Sequence[Point], figure_5: Sequence[Point], ranges: Sequence[RangeCell]
) -> list[Claim]:
    return [
        _near("Tables 1 and 2", [(cell.match, cell.paper[0]) for cell in cells]),
        _near("Tables 3 and 4", [(cell.difference, cell.paper[0]) for cell in ranges]),
        _small_steps(cells),
        _disorder_costs(figure_4),
        _matches_cost(figure_5),
        _both_at_once(cells),
        _ranges_do_not_care(ranges),
        _ranges_merge_less(cells, ranges),
    ]


def _near(name: str, pairs: Sequence[tuple[float, float]]) -> Claim:
    far = [abs(ours - paper) for ours, paper in pairs]
    inside = sum(each <= NEAR for each in far)
    seen = f"{inside} of {len(far)} cells; at most {max(far):.1f} points, {sum(far) / len(far):.1f} on average"
    return Claim(f"{name}: match % within {NEAR} points in every cell", inside == len(far), seen)


def _small_steps(cells: Sequence[Cell]) -> Claim:
    """Records that have not merged stay longer if the step is small."""
    least = min(cell.match for cell in cells if cell.step <= STEPS[0] * cell.window)
    most = max(cell.match for cell in cells if cell.step > STEPS[1] * cell.window and cell.share == cells[-1].share)
    seen = f"K/N = 0.2: {least:.0f} % and more; K/N = 0.8 and 33 % out of order: {most:.0f} % and less"
    return Claim(
        "small steps merge nearly everything, large ones lose what is out of order", least > 95 > 60 > most, seen
    )


def _disorder_costs(curve: Sequence[Point]) -> Claim:
    """Figure 4."""
    first, last = curve[0], curve[-1]
    seen = f"{1000 * first.seconds:.0f} ms with {first.share:.0%}, {1000 * last.seconds:.0f} ms with {last.share:.0%}"
    return Claim("merging takes longer the more is out of order (Figure 4)", first.seconds < last.seconds, seen)


def _matches_cost(curve: Sequence[Point]) -> Claim:
    """Figure 5."""
    first, last = curve[0], curve[-1]
    seen = f"{first.match:.0f} % in {1000 * first.seconds:.0f} ms, {last.match:.0f} % in {1000 * last.seconds:.0f} ms"
    return Claim("merging more records takes longer (Figure 5)", first.seconds > last.seconds, seen)


def _both_at_once(cells: Sequence[Cell]) -> Claim:
    """What the paper expected once its client had threads."""
    over = [cell.total / max(cell.fetch, cell.merge) for cell in cells]
    ordered = sorted(over)
    seen = f"{ordered[len(over) // 2]:.2f} of the longer in the middle, {ordered[0]:.2f} to {ordered[-1]:.2f}"
    return Claim(
        "with two buffers the total is near the longer of fetching and merging", ordered[len(over) // 2] < 1.25, seen
    )


def _ranges_do_not_care(ranges: Sequence[RangeCell]) -> Claim:
    spread = max(
        max(times) / min(times)
        for times in (
            [cell.difference_seconds for cell in ranges if cell.window == window]
            for window in {cell.window for cell in ranges}
        )
    )
    seen = f"the slowest file takes {spread:.2f} times as long as the fastest, at most"
    return Claim("the time of RTM does not depend on how much is out of order", spread < 1.5, seen)


def _ranges_merge_less(cells: Sequence[Cell], ranges: Sequence[RangeCell]) -> Claim:
    best = {(cell.window, cell.share): cell.match for cell in cells if cell.step == int(STEPS[0] * cell.window)}
    less = [best[cell.window, cell.share] - cell.difference for cell in ranges]
    seen = f"{min(less):.0f} to {max(less):.0f} points fewer with the paper's question; asked for the rest, all merge"
    return Claim("RTM merges fewer records than CGM with small steps", min(less) > 0, seen)

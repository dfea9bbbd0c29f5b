"""The windows of a join: which pairs of its sources are bound to each other, and how closely."""

from __future__ import annotations

from itertools import combinations

from anabranch.operators.join.windows import latest, unbound
from anabranch.sql.joins.scope import JoinSource
from anabranch.sql.reading.window_clause import Unit, refuse_slide
from anabranch.sql.tree import Pair, Select

Constraint = tuple[int, int, int, int]
"""(i, j, low, high) with i < j: the time of source j minus that of source i is from low to high; in ROWS both are n."""


def windows_of(select: Select, sources: tuple[JoinSource, ...]) -> tuple[Unit, tuple[Constraint, ...]]:
    """Time or rows, and the constraints between the sources."""
    window = select.window
    if window is not None:
        if window.slide_start is not None:
            raise refuse_slide(select.text, window.slide_start)
        low = -window.size if window.unit == "time" else window.size
        return window.unit, tuple((i, j, low, window.size) for i, j in combinations(range(len(sources)), 2))
    return _pairwise(select, sources)


def _pairwise(select: Select, sources: tuple[JoinSource, ...]) -> tuple[Unit, tuple[Constraint, ...]]:
    constraints: dict[tuple[int, int], Constraint] = {}
    for pair in select.pairs:
        constraint = _constraint(select, pair, sources)
        key = constraint[:2]
        if key in constraints:
            raise select.error(
                "WINDOW_PAIR_INVALID",
                f"the window of {pair.first} and {pair.second} is given twice",
                start=pair.start,
                hint="leave one of them out",
            )
        constraints[key] = constraint
    _check_units(select, len(sources))
    windows = tuple(constraints[key] for key in sorted(constraints))
    _check_connected(select, sources, windows)
    if select.pairs[0].unit == "time":
        _check_possible(select, sources, windows)
    return select.pairs[0].unit, windows


def _constraint(select: Select, pair: Pair, sources: tuple[JoinSource, ...]) -> Constraint:
    i, j = (_place(select, pair, name, sources) for name in (pair.first, pair.second))
    if i == j:
        raise select.error(
            "WINDOW_PAIR_INVALID",
            f"a window of {pair.first} with itself binds nothing",
            start=pair.start,
            hint="name two streams of FROM; one that comes twice has two aliases",
        )
    if i < j or pair.unit == "rows":
        return min(i, j), max(i, j), pair.low, pair.high
    return j, i, -pair.high, -pair.low


def _place(select: Select, pair: Pair, name: str, sources: tuple[JoinSource, ...]) -> int:
    for place, source in enumerate(sources):
        if source.alias.lower() == name.lower():
            return place
    raise select.error(
        "WINDOW_PAIR_INVALID",
        f'"{name}" of WINDOW({pair.first}, {pair.second}) is not in FROM',
        start=pair.start,
        hint=f"there are: {', '.join(source.alias for source in sources)}",
    )


def _check_units(select: Select, count: int) -> None:
    """All pairs in time, or all there are with the same number of rows."""
    first = select.pairs[0]
    second = next((pair for pair in select.pairs if pair.unit != first.unit), None)
    if second is not None:
        raise select.error(
            "WINDOW_UNITS_DIFFER", "the windows of a join must all be time or all ROWS", start=second.start
        )
    for pair in select.pairs:
        if pair.unit == "rows" and (pair.high != first.high or len(select.pairs) < count * (count - 1) // 2):
            raise select.error(
                "WINDOW_PAIR_INVALID",
                "windows of ROWS are the same for all pairs",
                start=pair.start if pair.high != first.high else first.start,
                hint=f"write WINDOW = {first.high} ROWS",
            )


def _check_connected(select: Select, sources: tuple[JoinSource, ...], windows: tuple[Constraint, ...]) -> None:
    groups = [[sources[i].alias for i in group] for group in unbound(len(sources), windows)]
    if len(groups) == 1:
        return
    names = [", ".join(group) for group in groups]
    said = f"{names[0]} to {names[1]}" if len(groups) == 2 else f"these to each other: {'; '.join(names)}"
    raise select.error(
        "WINDOWS_NOT_CONNECTED",
        f"nothing binds {said}",
        start=select.pairs[0].start,
        detail="Rows of one group would be kept forever, for rows of the other to come.",
        hint=f"add AND WINDOW({groups[0][-1]}, {groups[1][0]}) = INTERVAL …",
    )


def _check_possible(select: Select, sources: tuple[JoinSource, ...], windows: tuple[Constraint, ...]) -> None:
    """Windows that no rows can fulfil all at once are a mistake: a source would have to be later than itself."""
    shortest = latest(len(sources), windows)
    if any(shortest[i][i] < 0 for i in range(len(sources))):
        raise select.error(
            "WINDOW_PAIR_INVALID",
            "no rows can be in all of these windows",
            start=select.pairs[0].start,
            hint="each is the time of the second stream minus that of the first",
        )

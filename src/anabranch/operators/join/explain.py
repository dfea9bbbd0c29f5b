"""What EXPLAIN says of a join."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.operators.join.order import order_of
from anabranch.operators.windows.explain import measure

if TYPE_CHECKING:
    from anabranch.operators.join.operator import WindowJoin
    from anabranch.operators.join.program import JoinProgram


def explain_join(join: WindowJoin, program: JoinProgram | None, most: list[list[int]]) -> dict[str, Any]:
    """Sources, windows, conditions and how each source is found; with a program also in which order."""
    names = [alias for alias, _, _ in join.sources]
    told: dict[str, Any] = {
        "sources": {alias: stream + (f" WHERE {where}" if where else "") for alias, stream, where in join.sources},
        "windows": {f"{names[i]}, {names[j]}": _window(join.unit, low, high) for i, j, low, high in join.windows},
        "conditions": list(join.conditions),
        "order": "time" if join.ordered else "arrival",
    }
    if join.unit == "time":
        given = {frozenset(window[:2]) for window in join.windows}
        told["windows_that_follow"] = {
            f"{names[i]}, {names[j]}": _window("time", -most[j][i], most[i][j])
            for i in range(len(names))
            for j in range(i + 1, len(names))
            if frozenset((i, j)) not in given
        }
    if join.memory is not None:
        told["memory"] = f"{join.memory} bytes, shed {join.shed or 'random'}"
    if program is not None:
        told["algorithms"] = _algorithms(join, program)
    return told


def _window(unit: str, low: int, high: int) -> str:
    if unit == "rows":
        return measure("rows", high)
    if low == -high:
        return measure("time", high)
    return f"from {_signed(low)} to {_signed(high)}"


def _signed(time: int) -> str:
    return f"-{measure('time', -time)}" if time < 0 else measure("time", time)


def _algorithms(join: WindowJoin, program: JoinProgram) -> dict[str, str]:
    """For new rows of each source, which other is searched first and how."""
    order = order_of(repr(join), program)
    told = {}
    for driver, alias in enumerate(program.aliases):
        placed, steps = [driver], []
        for source in order.of(driver):
            equalities, bands, comparisons = program.finders(source, placed)
            how = "hash" if equalities else "band" if bands else "merge" if comparisons else "nested loop"
            steps.append(f"{program.aliases[source]} by {how}")
            placed.append(source)
        told[f"new rows of {alias}"] = ", then ".join(steps)
    return told

"""What the members of a host cost it, as it was last counted by the process that runs it."""

from __future__ import annotations

from anabranch.operators.together.costs import KIND, Costs
from anabranch.queries.query import Query


def costs_of(host: Query) -> Costs:
    """Of the members of a host."""
    return Costs(host._counted().counts.reports.get(KIND))


def heaviest(host: Query) -> list[tuple[int, float, float]]:
    """Its members that took most time lately: their numbers, share of the micro-batch's time, and milliseconds."""
    return costs_of(host).heaviest()

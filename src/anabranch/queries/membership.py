"""What can be a member of a host, and what its plan must say for that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from anabranch.catalog import Catalog
from anabranch.engine.options import options_for
from anabranch.engine.protocol import Engine
from anabranch.errors import QueryError
from anabranch.queries.member import plain
from anabranch.schema import StreamSchema
from anabranch.settings import Settings
from anabranch.sql.standing.rest import makes_several_rows
from anabranch.sql.standing.standing_plan import StandingPlan

MOST_RESTS = 100
"""So many different rests in Spark SQL one host has at most: they are one plan, and a row is compared with each."""


def why_alone(plan: StandingPlan) -> str | None:
    """Why a query must stand alone; None: it can be a member."""
    operator = plan.operator
    several = None if plan.residual_sql is None else makes_several_rows(plan.residual_sql)
    if several is not None:
        return f"{several}() may make several rows of one, which Spark SQL cannot do beside the rests of others"
    if operator.why_alone is not None:
        return operator.why_alone
    if operator.reduction() is not None:
        return (
            "REDUCE BY says before each of its micro-batches how much of history that reads, by how far behind it is, "
            "and those of a host are the same for all"
        )
    return None


def refuse_alone(plan: StandingPlan) -> None:
    """An error if a query cannot be a member."""
    why = why_alone(plan)
    if why is not None:
        raise QueryError("MUST_STAND_ALONE", f"the query cannot be a member of a host: {why}", hint="leave out host")


def completed(plan: StandingPlan, catalog: Catalog, settings: Settings, engine: Callable[[], Engine]) -> StandingPlan:
    """A plan that says the columns of its answer; of one with a rest only Spark can tell them."""
    if plan.schema is not None:
        return plan
    assert plan.residual_sql is not None
    options = options_for(plan.operator, catalog, settings, parallelism=1)
    schema = engine().answer_schema(options, plan.residual_sql)
    return replace(plan, schema=StreamSchema(plain(schema), plan.time))


def rests_of(texts: Iterable[str | None]) -> set[str]:
    """The different rests among those of some queries."""
    return {text for text in texts if text is not None}

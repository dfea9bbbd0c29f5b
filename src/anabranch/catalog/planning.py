"""Plans of queries, with what the catalog knows of the streams they read."""

from __future__ import annotations

from dataclasses import replace

from anabranch.catalog.catalog import Catalog
from anabranch.log.stream import DATASPACE
from anabranch.operators.landmark import Landmark
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.sql.once import OncePlan, plan_once
from anabranch.sql.plan import StandingPlan, plan_standing
from anabranch.sql.tree import Select


def plan_query(select: Select, catalog: Catalog, live_from: int | None = None) -> StandingPlan:
    """The plan of a standing query; `live_from` is what one that was planned before has."""
    return _placed(plan_standing(select, catalog.schema, catalog.reducers()), catalog, live_from=live_from)


def plan_question(select: Select, catalog: Catalog) -> OncePlan:
    """The plan of a SELECT that is asked once."""
    plan = plan_once(select, catalog.schema, catalog.reducers())
    return plan if plan.standing is None else replace(plan, standing=_placed(plan.standing, catalog, once=True))


def _placed(plan: StandingPlan, catalog: Catalog, *, once: bool = False, live_from: int | None = None) -> StandingPlan:
    """Range queries on a data server, or asked once, are about all there is; other streams are waited for.

    What is history for a query with SINCE is decided when it is made.
    """
    operator = plan.operator
    if isinstance(operator, Landmark):
        here = catalog.open_stream(operator.stream).end().row if live_from is None else live_from
        return replace(plan, operator=replace(operator, live_from=here))
    if not isinstance(operator, RangeMerge):
        return plan
    if once or catalog.stream(operator.sources[1][1]).origin == DATASPACE:
        return replace(plan, operator=replace(operator, waits=False))
    times = tuple(f"`{alias}.{catalog.schema(stream).time}`" for alias, stream in operator.sources)
    lags = [tolerance for left, right, tolerance in operator.keys[0] if (left, right) == times]
    return replace(plan, operator=replace(operator, lag=int(min(lags, default=0))))

"""Plans of queries, with what the catalog knows of the streams they read."""

from __future__ import annotations

from dataclasses import replace

from anabranch.catalog.catalog import Catalog
from anabranch.connectors import connector_of
from anabranch.log.offset import End
from anabranch.sql.once import OncePlan, plan_once
from anabranch.sql.standing.plan import plan_standing
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees import standing as trees


def plan_query(select: Select, catalog: Catalog) -> StandingPlan:
    """The plan of a standing query that is made now."""
    return _settled(plan_standing(select, catalog.schema, catalog.reducers()), catalog)


def plan_view(select: Select, catalog: Catalog) -> StandingPlan:
    """The plan of a view that is made now."""
    return trees.plan_view(select, catalog.schema, catalog.reducers())


def plan_question(select: Select, catalog: Catalog) -> OncePlan:
    """The plan of a SELECT that is asked once."""
    plan = plan_once(select, catalog.schema, catalog.reducers(), catalog.table_schema)
    return plan if plan.standing is None else replace(plan, standing=_settled(plan.standing, catalog, once=True))


def _settled(plan: StandingPlan, catalog: Catalog, *, once: bool = False) -> StandingPlan:
    return replace(plan, operator=plan.operator.settled(_Known(catalog), once=once))


class _Known:
    """What operators want to know of streams (`operators.base.KnownStreams`)."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def end_of(self, stream: str) -> End:
        return self._catalog.open_stream(stream).end()

    def time_of(self, stream: str) -> str:
        return self._catalog.schema(stream).time

    def is_elsewhere(self, stream: str) -> bool:
        return not connector_of(self._catalog.stream(stream)).logged

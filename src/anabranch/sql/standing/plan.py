"""A SELECT as a standing query: which operator runs it, and what is left to Spark SQL.

What is put together of several questions is planned as a tree (`trees.composed`), whose parts are shapes. A shape reads
one stream (a set operation two, a join or merge several) and can say, row by row or window by window, that an answer
is final; what cannot say so is refused by the family whose shape it has, with what to write instead. `PLANS` is the
table of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from anabranch.sql.checking.inner_clauses import refuse_bounding, refuse_inner
from anabranch.sql.checking.safety import check_tree, too_large
from anabranch.sql.history.joins import is_history_join, plan_history_join
from anabranch.sql.history.landmarks import is_landmark, plan_landmark
from anabranch.sql.joins.aggregates import is_join_aggregate, plan_join_aggregate
from anabranch.sql.joins.combinations import is_combination, plan_combination
from anabranch.sql.joins.join import is_join, plan_join
from anabranch.sql.joins.outer import is_outer_rows, plan_outer_join
from anabranch.sql.joins.tables import is_table_join, plan_table_join
from anabranch.sql.merges.merge import is_merge, plan_merge
from anabranch.sql.reading.reduce_by import NONE_REGISTERED, Registered
from anabranch.sql.standing.columns import selects_all
from anabranch.sql.standing.rows import is_of_rows, plan_rows
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select, WindowForm
from anabranch.sql.trees.composed import is_composed, reads_a_table
from anabranch.sql.trees.standing import is_of_changes, plan_changes, plan_composed
from anabranch.sql.windows.aggregates import is_window_aggregate, plan_window_aggregate
from anabranch.sql.windows.rows import is_of_window_rows, plan_window_rows
from anabranch.sql.windows.sets import is_of_sets, plan_sets


class PlanKind(NamedTuple):
    """One shape of a standing query: how it is recognised, and how it is planned; both only look at the query."""

    name: str
    matches: Callable[[Select], bool]
    plan: Callable[[Select, Lookup, Registered], StandingPlan]
    windows: frozenset[WindowForm] = frozenset({"sliding"})
    """The forms of windows it can have."""
    is_tree: bool = False
    """Whether it is planned as a tree, of parts that are shapes themselves."""


_OF_ONE_LENGTH: frozenset[WindowForm] = frozenset({"sliding", "table function"})
_ALL_FORMS: frozenset[WindowForm] = _OF_ONE_LENGTH | {"session", "last rows"}


COMPOSITION = PlanKind("composition", is_composed, plan_composed, _ALL_FORMS, is_tree=True)

PLANS: tuple[PlanKind, ...] = (
    PlanKind("join with the past", is_history_join, plan_history_join),
    PlanKind("aggregates since a time", is_landmark, plan_landmark),
    PlanKind("join with a table", is_table_join, plan_table_join),
    PlanKind("changes of an answer", is_of_changes, plan_changes, _ALL_FORMS, is_tree=True),
    COMPOSITION,
    PlanKind("merge", is_merge, plan_merge),
    PlanKind("combination of aggregates", is_combination, plan_combination),
    PlanKind("aggregates over a join", is_join_aggregate, plan_join_aggregate),
    PlanKind("outer join", is_outer_rows, plan_outer_join),
    PlanKind("join", is_join, plan_join),
    PlanKind("set operation of windows", is_of_sets, plan_sets, _OF_ONE_LENGTH),
    PlanKind("aggregates of windows", is_window_aggregate, plan_window_aggregate, _ALL_FORMS),
    PlanKind("rows of windows", is_of_window_rows, plan_window_rows, _OF_ONE_LENGTH),
    PlanKind("rows", is_of_rows, plan_rows),
)
"""Every shape there is; the first that matches plans the query."""


def plan_standing(select: Select, lookup: Lookup, reducers: Registered = NONE_REGISTERED) -> StandingPlan:
    """The plan of a standing query, or a refusal that says what to add; `reducers` are the user's own."""
    try:
        kind = next(kind for kind in PLANS if kind.matches(select))
        if not kind.is_tree and reads_a_table(select, lookup):
            kind = COMPOSITION
        if not kind.is_tree:  # a tree may have all clauses, and looks at itself
            refuse_bounding(select)
            refuse_inner(select, windows=is_combination(select))
            check_tree(select, standing=True)
        _refuse_windows(select, kind)
        return replace(kind.plan(select, lookup, reducers), selects_all=selects_all(select))
    except RecursionError:
        raise too_large(select) from None


_FORMS: dict[WindowForm, tuple[str, str]] = {
    "session": ("sessions are for groups and aggregates over one stream",
                "add an aggregate such as count(*); for a join make a stream of it before"),
    "last rows": ("ROWS PER a key is for aggregates over one stream",
                  "add an aggregate such as count(*); for a join make a stream of it before"),
    "table function": ("a window in FROM is for queries over one stream",
                       "name the streams, and say how far apart their rows may lie with WINDOW = INTERVAL …"),
}  # fmt: skip
"""Why a query cannot have windows of a form, and what instead."""


def _refuse_windows(select: Select, kind: PlanKind) -> None:
    for window in select.windows:
        for form in sorted(window.forms - kind.windows):
            why, instead = _FORMS[form]
            raise select.error("NOT_IN_THE_LANGUAGE", why, start=window.start, hint=instead)

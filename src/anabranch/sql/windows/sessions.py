"""Standing queries over windows that end with a pause: `WINDOW = SESSION INTERVAL 10 MINUTES`."""

from __future__ import annotations

from sqlglot import exp

from anabranch.operators.windows.sessions import SessionAggregate
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import WindowTable
from anabranch.sql.windows.grouped import Grouped, refuse_what_needs_whole_windows

WHAT = "sessions"


def plan_sessions(grouped: Grouped) -> StandingPlan:
    """The operator that answers each session of each group."""
    refuse_what_needs_whole_windows(
        grouped, WHAT, "leave it out: each is a window of its own, and they come in the order in which they end"
    )
    if grouped.window.over is not None:
        _check_partition(grouped, grouped.window.over)
    operator = SessionAggregate(
        stream=grouped.scope.stream,
        gap=grouped.window.size,
        keys=grouped.reader.named_keys(),
        aggregates=grouped.reader.named_aggregates(),
        columns=grouped.columns,
        time=grouped.stamp.name,
        filter=grouped.filter,
        having=grouped.having,
    )
    schema = grouped.schema
    return StandingPlan(operator, None, schema, schema.time)


def _check_partition(grouped: Grouped, over: WindowTable) -> None:
    """Sessions are those of the groups, so what parts the stream has to be what is grouped by."""
    scope = grouped.scope
    partition = {scope.find(name) for name in over.partition or ()}
    keys = grouped.reader.groups.keys.values()
    grouped_by = {key.name if isinstance(key, exp.Column) else None for key in keys}
    if partition != grouped_by or None in partition:
        names = ", ".join(over.partition or ())
        said = f"PARTITION BY {names}" if names else "no PARTITION BY"
        raise scope.select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a session is of a group: SESSION(…) has {said}, and GROUP BY other columns",
            start=over.start,
            hint="name the same columns in both, beside window_start and window_end",
        )

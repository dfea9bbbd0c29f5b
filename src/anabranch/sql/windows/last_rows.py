"""Standing queries over the last rows of each key: `WINDOW = 10 ROWS PER seller`."""

from __future__ import annotations

from anabranch.operators.windows.last_rows import LastRows
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.windows.grouped import Grouped, refuse_what_needs_whole_windows

WHAT = "the last rows of a key"


def plan_last_rows(grouped: Grouped) -> StandingPlan:
    """The operator that answers each row with what the last ones of its key say."""
    refuse_what_needs_whole_windows(
        grouped, WHAT, "leave it out: each row has an answer of its own, and they come in the order of the rows"
    )
    operator = LastRows(
        stream=grouped.scope.stream,
        count=grouped.window.size,
        keys=grouped.reader.named_keys(),
        aggregates=grouped.reader.named_aggregates(),
        columns=grouped.columns,
        time=grouped.stamp.name,
        filter=grouped.filter,
        having=grouped.having,
    )
    schema = grouped.schema
    return StandingPlan(operator, None, schema, schema.time)

"""Clauses that only joins have, refused where there is none."""

from __future__ import annotations

from anabranch.sql.tree import Select


def refuse_join_clauses(select: Select) -> None:
    """For queries that are no join of windows: WINDOW(a, b), WITH (…), EMIT IN ORDER and EMIT EVERY mean nothing."""
    for pair in select.pairs:
        raise select.error(
            "WINDOW_PAIR_INVALID",
            f"WINDOW({pair.first}, {pair.second}) is for joins, and this query reads one stream",
            start=pair.start,
            hint="write WINDOW = …",
        )
    if select.shedding is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "WITH (…) is for joins with windows, and this query is none",
            start=select.shedding.start,
            hint="leave it out",
        )
    if select.every is not None:
        assert select.emit is not None
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "EMIT EVERY is not available",
            start=select.emit.start,
            hint="say how often with WINDOW = … SLIDE …",
        )
    if select.emit is not None and select.emit.kind == "IN ORDER":
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "EMIT IN ORDER is for joins with windows, and this query is none",
            start=select.emit.start,
            hint="leave it out: the answer is in order of time",
        )
    for side in select.sides:
        if side.window is not None and side.window.size == 0:
            raise select.error(
                "INTERVAL_OUT_OF_RANGE",
                "a window of no length holds no rows",
                start=side.window.start,
                hint="use more than zero; only joins can have a window of zero",
            )

"""Clauses of subqueries, and those about what bounds a query, refused where no answers are kept."""

from __future__ import annotations

from anabranch.sql.tree import Select

INNER_HINT = "make the inner query a stream with CREATE STREAM … AS SELECT …"
MERGE_INSIDE = ("NOT_IN_THE_LANGUAGE", "MERGE JOIN cannot stand inside parentheses")
MERGE_INSIDE_HINT = f"leave them out, or {INNER_HINT} MERGE JOIN …"


def refuse_inner(select: Select, *, windows: bool = False) -> None:
    """For queries whose subqueries have no clauses of ours, but perhaps `windows`."""
    for inner in sorted(select.inner, key=lambda inner: inner.begin):
        side = inner.side
        if side.merge is not None:
            raise select.error(*MERGE_INSIDE, start=side.merge.starts[0], hint=MERGE_INSIDE_HINT)
        if windows:
            continue
        for clause, said in (
            (side.window, "a WINDOW"),
            (side.shedding, "WITH (…)"),
            *((p, "a WINDOW") for p in side.pairs),
        ):
            if clause is not None:
                raise select.error(
                    "NOT_IN_THE_LANGUAGE", f"a subquery cannot have {said}", start=clause.start, hint=INNER_HINT
                )


def refuse_bounding(select: Select) -> None:
    """For queries whose answers are final, or asked once."""
    if select.bounding is not None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"{select.bounding.said} is for answers that are kept and change",
            start=select.bounding.start,
            hint="leave it out",
        )

"""The ways to say that a row is there once for each element of its arrays, as one: LATERAL VIEW.

`CROSS JOIN UNNEST(a) AS t(x)`, `, UNNEST(a) AS x`, `JOIN LATERAL explode(a) AS t(x)` and `LEFT JOIN UNNEST(a) AS t(x)
ON TRUE` are what `LATERAL VIEW [OUTER] explode(a) t AS x` is. A join behind which others stand stays one, as these may
be about the elements; so does one that keeps rows by a condition.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.sql.checking.safety import called

MAKES_ROWS = {"explode": 1, "explode_outer": 1, "posexplode": 2, "posexplode_outer": 2}
"""Functions that make rows of an array, and how many columns they have."""


def with_laterals(tree: exp.Expr) -> exp.Expr:
    """The same query, in which what is read of arrays is in `laterals`, or else in joins with LATERAL."""
    for select in list(tree.find_all(exp.Select)):
        joins: list[exp.Join] = select.args.get("joins") or []
        for join in joins:
            _read_as_lateral(join)
        moved: list[exp.Lateral] = []
        while joins and (lateral := _movable(joins[-1])) is not None:
            join = joins.pop()
            on = join.args.get("on")
            if on is not None and not lateral.args.get("outer") and not _is_true(on):
                select.where(on, copy=False)
            moved.insert(0, lateral)
        if moved:
            select.set("joins", joins)
            select.set("laterals", [*moved, *(select.args.get("laterals") or [])])
    return tree


def _read_as_lateral(join: exp.Join) -> None:
    """UNNEST and LATERAL UNNEST as LATERAL explode."""
    read = join.this
    unnest = read.this if isinstance(read, exp.Lateral) else read
    if isinstance(unnest, exp.Unnest) and len(unnest.expressions) == 1 and not unnest.args.get("offset"):
        alias = read.args.get("alias")
        if alias is not None and alias.this is not None and not alias.columns:
            alias.set("columns", [alias.this.copy()])
        call = exp.Anonymous(this="explode", expressions=list(unnest.expressions))
        join.set("this", exp.Lateral(this=call, alias=alias))


def _movable(join: exp.Join) -> exp.Lateral | None:
    """The lateral view that a join is; None if it is another one."""
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or called(lateral.this) not in MAKES_ROWS:
        return None
    kind = (str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper())
    if join.args.get("method") or join.args.get("using") or kind not in _KINDS:
        return None
    is_outer, on = kind[0] == "LEFT", join.args.get("on")
    if is_outer and not (on is not None and _is_true(on)):
        return None
    lateral.set("view", True)
    lateral.set("outer", is_outer)
    return lateral


_KINDS = (("", ""), ("", "CROSS"), ("", "INNER"), ("LEFT", ""), ("LEFT", "OUTER"))


def _is_true(on: exp.Expr) -> bool:
    return isinstance(on.unnest(), exp.Boolean) and bool(on.unnest().this)

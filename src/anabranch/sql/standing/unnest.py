"""LATERAL VIEW: what a row is there once for each element of."""

from __future__ import annotations

from typing import NamedTuple

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.unnesting import MAKES_ROWS
from anabranch.sql.tree import Select


class Elements(NamedTuple):
    """An array, what its elements and their places are called, and whether a row without elements stays."""

    array: exp.Expr
    source: str | None
    element: str
    place: str | None
    outer: bool
    written: exp.Expr


def elements_of(select: Select, lateral: exp.Lateral) -> Elements:
    """What a LATERAL VIEW or a join with LATERAL reads."""
    call = lateral.this
    name = called(call)
    if name not in MAKES_ROWS:
        said = name or call.key.upper()
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"LATERAL {said} is not available in a standing query",
            lateral,
            hint="explode() and posexplode() make rows of arrays",
            keyword="LATERAL",
        )
    alias = lateral.args.get("alias")
    names = [] if alias is None else [part.name for part in alias.columns]
    wanted = MAKES_ROWS[name]
    if names and len(names) != wanted:
        raise select.error(
            "SET_COLUMNS_DIFFER",
            f"{len(names)} name{'s' * (len(names) > 1)} for {wanted} column{'s' * (wanted > 1)} of {name}()",
            lateral,
            hint="write AS element" if wanted == 1 else "write AS place, element",
        )
    if len(call.expressions) != 1:
        raise wrong_arguments(select, call, name)
    *place, element = names or ["pos", "col"][2 - wanted :]
    outer = bool(lateral.args.get("outer")) or name.endswith("_outer")
    source = alias.name if alias is not None and alias.this is not None else None
    return Elements(call.expressions[0], source, element, place[0] if place else None, outer, lateral)


def wrong_arguments(select: Select, call: exp.Expr, name: str) -> SqlError:
    return select.error("FUNCTION_ARGUMENTS", f"{name}() takes one array", call)


def no_array(select: Select, elements: Elements, type_name: str) -> SqlError:
    """The error for what is unnested and no array."""
    return select.error(
        "FUNCTION_ARGUMENTS",
        f"explode() makes rows of arrays, got {type_name}",
        elements.array,
        hint="name a column of type ARRAY",
    )

"""Hints: `SELECT /*+ INDEX(T), STORAGE(LIST), RING(DB) */ …` says how windows are kept.

Structures and their names are those of L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding
Windows over On-line Data Streams" (2003), § 3.2, § 5 and § 6. A hint changes what a query costs,
never what it answers; one that could not be followed is refused rather than passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from anabranch.errors import SqlError, did_you_mean
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.tree import Hint, Select

HINTS: dict[str, tuple[str, ...]] = {
    "INDEX": ("L", "T", "H", "UH", "G"),
    "STORAGE": ("LIST", "AGGR", "HASH", "GROUP"),
    "RING": ("PLAIN", "AUX", "BW", "DB"),
}
"""Every hint, and the values it takes."""

_HINT = re.compile(r"\s*(?:,\s*)?(?P<name>\w+)\s*(?:\(\s*(?P<value>[^()]*?)\s*\))?")


@dataclass(frozen=True)
class Structures:
    """What the hints ask for; None leaves the choice to the operator."""

    index: str | None = None
    storage: str | None = None
    ring: str | None = None


def read_hints(token: Token, text: str) -> tuple[Hint, ...]:
    """The hints of a `/*+ … */`."""
    end = token.end + 1 - len("*/")
    position = token.start + len("/*+")
    hints: dict[str, Hint] = {}
    while text[position:end].strip():
        match = _HINT.match(text, position, end)
        if match is None:
            begin = end - len(text[position:end].lstrip())
            raise error_at(
                "SYNTAX_ERROR",
                f'"{text[begin]}" was not expected in a hint',
                text,
                begin,
                hint=f"there are: {_listed()}",
            )
        hint = _read_hint(match, text)
        if hint.name in hints:
            raise error_at("HINT_NOT_POSSIBLE", f"{hint.name} is given twice", text, hint.start)
        hints[hint.name] = hint
        position = match.end()
    return tuple(hints.values())


def _read_hint(match: re.Match[str], text: str) -> Hint:
    name, value = match["name"].upper(), match["value"]
    if name not in HINTS:
        known = did_you_mean(name, HINTS, f"there are: {_listed()}")
        raise error_at("HINT_UNKNOWN", f'there is no hint "{match["name"]}"', text, match.start("name"), hint=known)
    choices = ", ".join(HINTS[name])
    if not value:
        place = match.start("name")
        raise error_at("HINT_UNKNOWN", f"{name} is given no value", text, place, hint=f"{name} takes: {choices}")
    if value.upper() not in HINTS[name]:
        known = did_you_mean(value.upper(), HINTS[name], f"{name} takes: {choices}")
        raise error_at("HINT_UNKNOWN", f'{name} cannot be "{value}"', text, match.start("value"), hint=known)
    return Hint(name, value.upper(), match.start("name"))


def _listed() -> str:
    return ", ".join(f"{name}({'|'.join(values)})" for name, values in HINTS.items())


def refuse_hints(select: Select, what: str) -> None:
    """For queries that keep no index: a hint has nothing to act on."""
    for hint in select.hints:
        raise _not_possible(select, hint, f"{what}, so nothing is indexed there", "leave the hint out")


def structures_of_aggregates(select: Select, exact: Sequence[str], approximate: Sequence[str]) -> Structures:
    """The hints of a query with aggregates; `exact` and `approximate` are those that keep a histogram."""
    if not exact and not approximate:
        refuse_hints(select, "every aggregate here is kept as a partial value per pane")
        return Structures()
    given = {hint.name: hint for hint in select.hints}
    if "RING" in given:
        raise _not_possible(
            select, given["RING"], "a ring leads to whole rows, and aggregates need values only", "leave RING out"
        )
    index, storage = given.get("INDEX"), given.get("STORAGE")
    ranged = [hint for hint, value in ((index, "G"), (storage, "GROUP")) if hint is not None and hint.value == value]
    if exact and ranged:
        raise _not_possible(
            select,
            ranged[0],
            f"{ranged[0].name}({ranged[0].value}) counts ranges of values, and {exact[0]} is exact",
            "use approx_percentile, or another value",
        )
    if not exact and index is not None and index.value != "G":
        raise _not_possible(select, index, f"{approximate[0]} is kept in ranges of values", "use INDEX(G)")
    return _structures(given)


def structures_of_rows(select: Select, *, ordered: bool) -> Structures:
    """The hints of a query for the rows themselves: an index and rings serve its ORDER BY (§ 6)."""
    if not ordered:
        refuse_hints(select, "rows without ORDER BY are kept as they came")
        return Structures()
    given = {hint.name: hint for hint in select.hints}
    storage, index = given.get("STORAGE"), given.get("INDEX")
    if storage is not None and storage.value != "LIST":
        raise _not_possible(
            select, storage, f"STORAGE({storage.value}) keeps values and counts, not rows", "use STORAGE(LIST)"
        )
    if index is not None and index.value == "G":
        raise _not_possible(select, index, "INDEX(G) counts ranges of values, and rows need each value", "use INDEX(T)")
    return _structures(given)


def _structures(given: dict[str, Hint]) -> Structures:
    index, storage, ring = (given[name].value if name in given else None for name in HINTS)
    return Structures(index, storage, ring)


def _not_possible(select: Select, hint: Hint, message: str, instead: str) -> SqlError:
    return select.error("HINT_NOT_POSSIBLE", message, hint=instead, start=hint.start)

"""Members that are no selections and differ in little: found here, each kind of family in a file of its own."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from anabranch.operators.state import STATES
from anabranch.operators.together.families.base import Family, Kind
from anabranch.operators.together.families.equal import equal_families
from anabranch.operators.together.families.folded import folded_families
from anabranch.operators.together.families.join_sums import join_sum_families
from anabranch.operators.together.families.joins import join_families
from anabranch.operators.together.families.merges import folder_of_merge, merge_families
from anabranch.operators.together.roster import Entry

__all__ = ["KINDS", "Family", "families_of", "family_of", "state_of"]

KINDS: tuple[Kind, ...] = (folded_families, join_families, join_sum_families, merge_families, equal_families)
"""All kinds; a member is in a family of the first kind that takes it: what is equal is looked for among the others."""


def families_of(entries: Iterable[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that run by themselves, by number."""
    return families_among(tuple(entries))


@functools.lru_cache(maxsize=16)
def families_among(entries: tuple[Entry, ...]) -> tuple[list[Family], list[Entry]]:
    """The same, found once for the same members: what families have made ready is kept with them."""
    families: list[Family] = []
    left = list(entries)
    for kind in KINDS:
        more, left = kind(left)
        families += more
    return families, sorted(left, key=lambda entry: entry.number)


def family_of(entry: Entry, entries: Iterable[Entry]) -> Family | None:
    """The family that a member is in among others; None if it runs by itself."""
    families, _ = families_of(other for other in entries if not other.is_selection)
    return next((family for family in families if entry in family.entries), None)


def state_of(entry: Entry) -> str | None:
    """Where in its host's scratch a member's state is, if it has any: what others have too, or its own by its query."""
    if not entry.operator.scratch_is_state:
        return None
    return f"{STATES}/{folder_of_merge(entry) or entry.query['id']}"

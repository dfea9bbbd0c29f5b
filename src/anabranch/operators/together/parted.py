"""Members that go together in a micro-batch, and how they are answered: found out once for each version of the list.

Ten thousand members are looked through in 10 ms, as long as some thousand rows take; micro-batches that follow each
other have the same members.
"""

from __future__ import annotations

import bisect
import functools
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.operators.offset import Cohort
from anabranch.operators.pace import ALL, Pace
from anabranch.operators.together.families import Family, families_of
from anabranch.operators.together.roster import Entry, Roster
from anabranch.operators.together.selections import Selections

_KEPT = 4
"""Of each list: how it was parted last, before that, and while some came up to the others."""


class Members(list[Entry]):
    """Members of the list `listing` that are answered alike; nothing is added to them once they were asked."""

    def __init__(self, listing: str, entries: Iterable[Entry] = ()) -> None:
        super().__init__(entries)
        self._listing = listing
        self._ready: dict[pa.Schema, Selections] = {}

    @functools.cached_property
    def numbers(self) -> NDArray[np.int64]:
        return np.array([entry.number for entry in self], np.int64)

    @functools.cached_property
    def with_a_rest(self) -> NDArray[np.int64]:
        """The numbers of those that Spark SQL computes a rest of."""
        return np.array([entry.number for entry in self if entry.residual_sql is not None], np.int64)

    @functools.cached_property
    def selections(self) -> dict[str, Members]:
        """Those that are selections, by stream."""
        by_stream: dict[str, Members] = {}
        for entry in self:
            if entry.is_selection:
                by_stream.setdefault(entry.operator.inputs[0], Members(self._listing)).append(entry)
        return by_stream

    @functools.cached_property
    def families(self) -> tuple[list[Family], list[Entry]]:
        """The families among the others, and those that run by themselves."""
        return families_of(entry for entry in self if not entry.is_selection)

    def together(self, schema: pa.Schema) -> Selections:
        """Selections of one stream, made ready once for all who are the same ones."""
        if schema not in self._ready:
            key = self._listing, hashlib.sha256(self.numbers.tobytes()).digest(), schema
            made = _selections.get(key)
            self._ready[schema] = _selections[key] = Selections(self, schema) if made is None else made
        return self._ready[schema]


_selections: WeakValueDictionary[tuple[str, bytes, pa.Schema], Selections] = WeakValueDictionary()
"""Those that any members are answered by; a version that changes others does not make them again."""
Part = dict[Pace, Members]
"""Members at one place, by how many of their windows they answer; selections have none."""
_parted: WeakKeyDictionary[Roster, OrderedDict[tuple[int, ...], list[Part]]] = WeakKeyDictionary()
_mutex = threading.Lock()


def parted(listing: str, roster: Roster, before: int, after: int, cohorts: Sequence[Cohort]) -> list[Part]:
    """The members that stand from one version of a list to another: those of no cohort, then those of each."""
    lows, highs = [cohort.low for cohort in cohorts], [cohort.high for cohort in cohorts]
    key = before, after, *lows, *highs
    with _mutex:
        known = _parted.setdefault(roster, OrderedDict())
        if key not in known:
            parts = known[key] = [{ALL: Members(listing)} for _ in range(1 + len(cohorts))]
            for place, entry in roster.members(before, after):
                at = bisect.bisect_right(lows, place) - 1
                part = parts[at + 1 if at >= 0 and place < highs[at] else 0]
                paced = entry.number in roster.paced and not entry.is_selection
                part.setdefault(entry.pace(after) if paced else ALL, Members(listing)).append(entry)
        known.move_to_end(key)
        while len(known) > _KEPT:
            known.popitem(last=False)
        return known[key]

"""Members that mean the same: computed once, and given to each of them under the names it wrote.

What is the same is found by what operators are (`Operator.canonical`), not by how queries are written. An operator
whose scratch is state is never shared: what it answers depends on where it began, which is another place for one that
was made later.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.log.slices import sliced
from anabranch.operators.base import Inputs, Offset, Operator
from anabranch.operators.together.families.base import Family, folder_of
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Slices

LEAST = 2
"""So many members make a family."""
_KIND = "equal"
_ROWS_PER_SLICE = 1 << 20


@dataclass(frozen=True)
class EqualFamily:
    """Members that answer the same."""

    entries: list[Entry]

    @property
    def operator(self) -> Operator:
        return self.entries[0].canonical

    @property
    def folder(self) -> str:
        return folder_of(self.operator)

    @property
    def told(self) -> str:
        return f"computed once for {len(self.entries)} queries that say the same"

    def run(self, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
        operator = self.operator
        tasks = operator.plan(start, end, inputs, 1)
        batches = [batch for task in tasks for batch in operator.run(task, inputs)]
        if not batches:
            return
        rows = operator.gather(pa.Table.from_batches(batches), inputs.work)
        rows = rows.select(operator.schema(inputs).names)
        if rows.num_rows:
            yield from handed_out(rows, self.entries)


def handed_out(rows: pa.Table, entries: list[Entry]) -> Iterator[Slices]:
    """The same rows for each of some members, whose columns have the names that it wrote."""
    by_names: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    for entry in entries:
        by_names[names_of(entry, rows.schema)].append(entry)
    at_once = max(1, _ROWS_PER_SLICE // rows.num_rows)
    for names, named in by_names.items():
        renamed = rows.rename_columns(list(names))
        for low in range(0, len(named), at_once):
            some = named[low : low + at_once]
            numbers = np.array([entry.number for entry in some])
            yield sliced(pa.concat_tables([renamed] * len(some)), numbers, np.full(len(some), rows.num_rows))


def names_of(entry: Entry, canonical: pa.Schema) -> tuple[str, ...]:
    """What a member calls the columns of the canonical answer."""
    written = getattr(entry.operator, "columns", None)
    if entry.canonical == entry.operator or written is None:
        return tuple(canonical.names)
    names = {f"c{place}": name for place, (name, *_) in enumerate(written)}
    return tuple(names.get(name, name) for name in canonical.names)


def equal_families(entries: list[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none."""
    alike: dict[str, list[Entry]] = defaultdict(list)
    singles: list[Entry] = []
    for entry in entries:
        if entry.operator.scratch_is_state:
            singles.append(entry)
            continue
        if _KIND not in entry.found_out:
            entry.found_out[_KIND] = json.dumps(entry.canonical.to_json())
        alike[entry.found_out[_KIND]].append(entry)
    families: list[Family] = []
    for same in alike.values():
        if len(same) < LEAST:
            singles += same
        else:
            families.append(EqualFamily(same))
    return families, singles

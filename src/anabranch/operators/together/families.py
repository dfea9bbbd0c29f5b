"""Windowed aggregates that differ in one constant: one fold by that column answers all of them.

`… WHERE k = 1 AND x > 5 WINDOW = …` and `… WHERE k = 2 AND x > 5 WINDOW = …` are a family: the same aggregate with k
as one more group, of which each member has those answers whose k is its own. What the family keeps does not depend on
who is in it, so members come and go without it being computed again.

The naive version runs each member by itself (`operators.windows.aggregate`).
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.expressions.atoms import Atom
from anabranch.kernels.questions import Intervals, QuestionIndex
from anabranch.log.slices import sliced
from anabranch.operators.base import Inputs, Offset
from anabranch.operators.together.coding import Coding, Numbers, Texts
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Slices
from anabranch.operators.windows.aggregate import WindowAggregate

LEAST = 8
"""So many members make a family: below, folding groups that nobody asks for may cost more than it saves."""
_KEY = "_family"


class Family(NamedTuple):
    """What its members have in common, and the constant of each."""

    operator: WindowAggregate
    column: str
    members: list[tuple[Entry, Atom]]

    @property
    def folder(self) -> str:
        """Where it keeps its scratch: what it is, whoever is in it."""
        said = json.dumps([self.operator.to_json(), self.column])
        return f"family-{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def families_of(entries: Iterable[Entry]) -> tuple[list[Family], list[Entry]]:
    """The families among some members, and those that are in none."""
    alike: dict[tuple[str, str], list[tuple[Entry, Atom]]] = defaultdict(list)
    singles: list[Entry] = []
    for entry in entries:
        told = _told(entry)
        if told is None:
            singles.append(entry)
        else:
            alike[told[0], told[1].of].append((entry, told[1]))
    families = []
    for (_, column), members in alike.items():
        if len(members) < LEAST:
            singles += [entry for entry, _ in members]
        else:
            families.append(Family(_common(*members[0]), column, members))
    return families, sorted(singles, key=lambda entry: entry.number)


def family_of(entry: Entry, entries: Iterable[Entry]) -> tuple[str, int] | None:
    """The column that a member's family differs in, and how many they are; None if it runs by itself."""
    told = _told(entry)
    if told is None:
        return None
    alike = sum(other[0] == told[0] and other[1].of == told[1].of for e in entries if (other := _told(e)) is not None)
    return (told[1].of, alike) if alike >= LEAST else None


def _told(entry: Entry) -> tuple[str, Atom] | None:
    """What a member has in common with others of its family, as text, and the atom that is its own."""
    plan = entry.data["plan"]["operator"]
    if plan["kind"] != WindowAggregate.kind or plan["limit"] is not None or plan["order"]:
        return None
    own = next((atom for atom in entry.atoms if _is_point(atom)), None)
    if own is None:
        return None
    rest = [atom for atom in entry.atoms if atom != own]
    return json.dumps([{**plan, "filter": None}, rest]), own


def _is_point(atom: Atom) -> bool:
    if atom.computed or atom.null or len(atom.ranges) != 1:
        return False
    low, high = atom.ranges[0]
    return low is not None and high == (f"{low}00" if isinstance(low, str) else low + 1)


def _common(entry: Entry, own: Atom) -> WindowAggregate:
    """The aggregate of a family, by one of its members."""
    operator = entry.operator
    assert isinstance(operator, WindowAggregate)
    rest = [sql for atom, sql in entry.atoms.items() if atom != own]
    column = f"`{own.of.replace('`', '``')}`"
    return replace(
        operator,
        keys=((_KEY, column), *operator.keys),
        columns=((_KEY, _KEY), *operator.columns),
        filter=" AND ".join(f"({part})" for part in rest) or None,
    )


def run_family(family: Family, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
    """The answers of its members; raises what makes all of them fail."""
    operator = family.operator
    tasks = operator.plan(start, end, inputs, 1)
    batches = [batch for task in tasks for batch in operator.run(task, inputs)]
    if not batches:
        return
    rows = operator.gather(pa.Table.from_batches(batches), inputs.work)
    rows = rows.select(operator.schema(inputs).names).combine_chunks()
    index, coding = _index(tuple(atom for _, atom in family.members))
    matches = index.match([coding.codes(rows.column(_KEY))], rows.num_rows)
    if len(matches.row):
        places, counts = np.unique(matches.question, return_counts=True)
        numbers = np.array([entry.number for entry, _ in family.members])[places]
        yield sliced(rows.drop_columns([_KEY]).take(pa.array(matches.row)), numbers, counts)


@functools.lru_cache(maxsize=256)
def _index(atoms: tuple[Atom, ...]) -> tuple[QuestionIndex, Coding]:
    """Which of some atoms want which keys, made ready once per process."""
    coding: Coding = Texts(atoms) if isinstance(atoms[0].ranges[0][0], str) else Numbers(atoms)
    spans = np.array([coding.spans(atom)[0] for atom in atoms], np.int64).reshape(-1, 2)
    of = np.arange(len(atoms))
    return QuestionIndex(len(atoms), Intervals(of, np.zeros(len(atoms), np.int64), spans[:, 0], spans[:, 1])), coding

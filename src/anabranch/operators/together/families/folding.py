"""What is kept of the rows of a family (`families.folded`), beside what its aggregates keep by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from anabranch.kernels.fold import Extreme, State
from anabranch.kernels.values import Column
from anabranch.operators.columns import Bound
from anabranch.operators.together.families.labels import Labels, labels_of, numbers_of
from anabranch.operators.together.families.member import Member
from anabranch.operators.together.families.states import Guard, merging
from anabranch.operators.windows.program import WindowProgram
from anabranch.windows.panes.partials import Partials


class Folding(NamedTuple):
    """Keys, arguments and states; of the states first those that aggregates are read from, then guards and extent."""

    column: str | None
    keys: tuple[Bound, ...]
    """First the label, if members differ in a column."""
    arguments: tuple[Bound, ...]
    partials: Partials
    labels: Labels | None
    states: list[State]
    guards: list[Guard]


def folding_of(
    program: WindowProgram, members: Sequence[Member], column: str | None, merges: bool, source: pa.Schema
) -> Folding:
    """What is kept so that a plain program can be answered for all members."""
    arguments, keys = program.arguments, program.keys
    of = list(program.partials.arguments)
    kept = [merging(state) if merges else (state, None) for state in program.partials.states]
    states, guards = [state for state, _ in kept], [guard for _, guard in kept if guard is not None]
    of += [at for at, (_, guard) in zip(of, kept, strict=True) if guard is not None]
    more: list[State] = [guard.state for guard in guards]
    labels: Labels | None = None
    if column is not None:
        atoms = list(dict.fromkeys(atom for member in members for atom in member.own(column)))
        labels = labels_of(source.field(column).type, atoms, by_value=not merges)
        keys = (_of_column(column, labels.type, labels.of), *keys)
        if labels.has_extent:
            more += [Extreme(largest=False), Extreme(largest=True)]
            of += [len(arguments)] * 2
            arguments = (*arguments, _of_column(column, pa.int64(), numbers_of))
    partials = Partials(tuple(key.type for key in keys), (*states, *more), tuple(of))
    return Folding(column, keys, arguments, partials, labels, states, guards)


def _of_column(column: str, type_: pa.DataType, what: Callable[[Column], pa.Array]) -> Bound:
    return Bound(column, (column,), type_, lambda table: what(table.column(column)))

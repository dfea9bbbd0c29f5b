"""Aggregate: a row for each group, which is made anew for the groups that changes touch.

Of a group a row of counts, sums and the like is kept, of which its answer follows; so the answer before need not be
kept. Rows are kept only where a function has to look for another value when one goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.keyed import differs
from anabranch.kernels.values import integers, one_array
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Aggregate
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.runs import hashed
from anabranch.operators.tree.steps.arguments import About
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.functions import Making, answer_of
from anabranch.operators.tree.steps.recency import NEWEST, Recency
from anabranch.operators.tree.steps.states import Columns, Counted
from anabranch.operators.tree.steps.touched import Touched, touched


class AggregateStep(Step):
    """See the module."""

    why_thrown = "they are in the totals of their group"

    def __init__(self, node: Aggregate, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (schema,) = schemas
        self._node = node
        self.only_comes = not node.calls and node.keep is None and all(only_come)
        making = Making(schema, node.keys, only_come=all(only_come))
        making.state(Counted, About())  # how many rows there are: the first of all states
        self._answers = [answer_of(call, making) for call in node.calls]
        self._states = making.states
        self._arguments = making.arguments
        keys = [schema.field(name) for name in node.keys]
        calls = [pa.field(call.name, said.type) for call, said in zip(node.calls, self._answers, strict=True)]
        self.schema = pa.schema([*keys, *calls])
        named = [pa.field(f"key {i}", key.type) for i, key in enumerate(keys)]
        parts = [
            pa.field(f"state {i}.{j}", type_)
            for i, state in enumerate(self._states)
            for j, type_ in enumerate(state.types)
        ]
        self._recency = None if node.keep is None else Recency(named, node.keep)
        more = [] if node.keep is None else [NEWEST]
        self._groups = Replaced(pa.schema([*named, *parts, *more]), [key.name for key in named])
        self.keeps_rows = any(argument.kept() for argument in self._arguments.values())
        if node.keep is not None:
            self.why_thrown += f", or their group is not among the {node.keep} newest"

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        if not len(changes.weights) and (self._node.keys or self._groups.entries):
            return Changes.none(self.schema)
        if not self.keeps_rows:
            self.dropped += len(changes)
        columns = [changes.gathered.column(name) for name in self._node.keys]
        groups = touched(columns, len(changes.weights))
        latest, of = self._groups.latest(groups.keys, groups.codes)
        known = self._known(latest)
        if self._recency is not None:
            return self._of_the_newest(self._recency, changes, groups, latest, of, known)
        now = self._changed(changes, groups, of, known)
        there = integers(now[0][0]) != 0 if self._node.keys else np.ones(1, np.bool_)
        rows = [*groups.keys, *(column for columns in now for column in columns)]
        answered = self._change(groups, of, self._answer(known), self._answer(now), there)
        self._groups.put(pa.Table.from_arrays(rows, schema=self._groups.schema), groups.codes, there)
        return answered

    def _changed(self, changes: Changes, groups: Touched, of: NDArray[np.int64], known: list[Columns]) -> list[Columns]:
        """What is kept of all groups after some changes."""
        came = {about: argument.came(changes, groups) for about, argument in self._arguments.items()}
        return [
            state.changed(columns, of, groups, came[state.argument.about])
            for state, columns in zip(self._states, known, strict=True)
        ]

    def _of_the_newest(
        self, recency: Recency, changes: Changes, groups: Touched, latest: pa.Table, of: NDArray[np.int64],
        known: list[Columns],
    ) -> Changes:  # fmt: skip
        """The same where groups are forgotten: what was known of one that begins anew goes, and counts no more."""
        turn = recency.turn(groups, of, integers(latest.column(NEWEST.name)))
        goes_on = np.flatnonzero(~turn.anew[of])
        at = pa.array(goes_on)
        counting = replace(groups, of_row=groups.of_row[turn.counts])
        still = [[column.take(at) for column in columns] for columns in known]
        now = self._changed(changes.filter(turn.counts), counting, of[goes_on], still)
        there = ~turn.forgotten
        answered = self._change(groups, of, self._answer(known), self._answer(now), there)
        rows = [*groups.keys, *(column for columns in now for column in columns), pa.array(turn.newest)]
        self._groups.put(pa.Table.from_arrays(rows, schema=self._groups.schema), groups.codes, there)
        self.forgotten += turn.times
        return together([answered, self._forgotten(turn.others)], self.schema)

    def _forgotten(self, keys: list[pa.Array]) -> Changes:
        """The answers of some groups to which no row came go."""
        if not len(keys[0]):
            return Changes.none(self.schema)
        codes = hashed(keys, len(keys[0]))
        latest, of = self._groups.latest(keys, codes)
        at = pa.array(of)
        columns = [*(key.take(at) for key in keys), *self._answer(self._known(latest))]
        self._groups.put(latest, codes[of], np.zeros(len(of), np.bool_))
        return Changes.of(pa.Table.from_arrays(columns, schema=self.schema), -1)

    def kept(self) -> Mapping[str, Arrangement]:
        kept: dict[str, Arrangement] = {"groups": self._groups}
        if self._recency is not None:
            kept["recency"] = self._recency.groups
        for number, argument in enumerate(self._arguments.values()):
            kept |= {f"{name} {number}": held for name, held in argument.kept().items()}
        return kept

    def why(self) -> str:
        values = "values are kept where another has to be found when one goes"
        more = f"; {values if self.keeps_rows else 'no rows are kept'}"
        if self._node.keep is not None:
            more += f"; of all but the {self._node.keep} groups with the newest rows all is forgotten"
        return f"per touched group: counts, sums and the like are kept of each{more}"

    def _known(self, latest: pa.Table) -> list[Columns]:
        """The columns of each state, of rows of groups."""
        columns = [one_array(column) for column in latest.columns[len(self._node.keys) :]]
        ends = np.cumsum([0, *(len(state.types) for state in self._states)]).tolist()
        return [columns[begin:end] for begin, end in pairwise(ends)]

    def _answer(self, kept: list[Columns]) -> Columns:
        by_state = dict(zip(map(id, self._states), kept, strict=True))
        return [said.finish([by_state[id(state)] for state in said.states]) for said in self._answers]

    def _change(
        self, groups: Touched, of: NDArray[np.int64], before: Columns, after: Columns, there: NDArray[np.bool_]
    ) -> Changes:
        """What goes and what comes, where these are not the same."""
        at = pa.array(of)
        gone = ~there[of]
        for old, new in zip(before, after, strict=True):
            gone |= differs(old, new.take(at))
        comes = there.copy()
        comes[of] &= gone
        going, coming = pa.array(np.flatnonzero(gone)), pa.array(np.flatnonzero(comes))
        last = [key.take(at) for key in groups.keys] + before
        tables = [
            pa.Table.from_arrays([column.take(places) for column in columns], schema=self.schema)
            for columns, places in ((last, going), (groups.keys + after, coming))
        ]
        weights = np.concatenate([np.full(len(going), -1), np.ones(len(coming), np.int64)])
        return Changes(pa.concat_tables(tables).combine_chunks(), weights)

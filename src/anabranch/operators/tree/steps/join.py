"""Join: pairs of rows by ΔA ⋈ B + A' ⋈ ΔB, and by touched key or row what meets none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Join
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.lonely import Lonely, LonelyByKey, LonelyByRow, with_nulls
from anabranch.operators.tree.steps.meeting import Meeting, Side

_PAIRS = ("inner", "left", "right", "full")
_LONELY_LEFT = ("left", "full", "semi", "anti", "not_in")
_LONELY_RIGHT = ("right", "full")


class JoinStep(Step):
    """See the module."""

    def __init__(self, node: Join, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        left, right = schemas
        self._node = node
        self._has_pairs = node.join in _PAIRS
        self.schema = pa.schema([*left, *right]) if self._has_pairs else left
        self.only_comes = node.join in ("inner", "semi") and all(only_come)
        self._meeting = Meeting(node, left, right)
        not_in = node.join == "not_in"
        by_key = not self._meeting.has_condition and not (not_in and len(node.keys) != 1)
        loose = not_in and not by_key
        apart = [node.join == "inner" and comes for comes in only_come]
        self._left = Side(left, [ours for ours, _ in node.keys], loose=loose, apart=apart[0])
        self._right = Side(right, [theirs for _, theirs in node.keys], loose=loose, apart=apart[1])
        self._null_is_a_key = not_in
        self._by_key = by_key
        self._keeps_right = self._has_pairs or not by_key
        self._lonely: dict[str, Lonely] = {}
        if node.join in _LONELY_LEFT:
            self._lonely["left"] = self._lonely_of(self._left, self._right, left=True)
        if node.join in _LONELY_RIGHT:
            self._lonely["right"] = self._lonely_of(self._right, self._left, left=False)

    def _lonely_of(self, mine: Side, other: Side, *, left: bool) -> Lonely:
        any_ = self._node.join == "semi"
        if self._by_key:
            return LonelyByKey(mine, other, any=any_, not_in=self._null_is_a_key)
        return LonelyByRow(mine, other, self._meeting, any=any_, left=left)

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        left, right = inputs
        parts: list[Changes] = []
        keyed_left, keyed_right = self._with_keys(left, self._left), self._with_keys(right, self._right)
        if self._has_pairs:
            parts += self._pairs(keyed_left, left=True)
        self._take_in(self._left, keyed_left)
        if self._has_pairs:
            parts += self._pairs(keyed_right, left=False)
        if self._keeps_right:
            self._take_in(self._right, keyed_right)
        for side, lonely in self._lonely.items():
            is_left = side == "left"
            mine, others = (keyed_left, keyed_right) if is_left else (keyed_right, keyed_left)
            found = [lonely.after(mine, others)]
            if not self._null_is_a_key and self._node.join != "semi":  # what has no key meets none
                found.append(self._without_keys(*((left, self._left) if is_left else (right, self._right))))
            parts += [with_nulls(each, self.schema, left=is_left) if self._has_pairs else each for each in found]
        return together(parts, self.schema)

    def kept(self) -> Mapping[str, Arrangement]:
        kept = {"left": self._left.keyed}
        if self._keeps_right:
            kept["right"] = self._right.keyed
        for name, side in (("left", self._left), ("right", self._right)):
            if side.loose is not None:
                kept[f"{name} without key"] = side.loose
        for name, lonely in self._lonely.items():
            kept |= {f"{name} alone: {part}": held for part, held in lonely.kept().items()}
        return kept

    def why(self) -> str:
        pairs = "by arrangement: what comes meets the rows of the other side, which are kept by key"
        if not self._lonely:
            return pairs
        counts = "each key has on the other side" if self._by_key else "each row meets"
        alone = f"per touched {'key' if self._by_key else 'row'}: it is kept how many rows {counts}"
        return f"{pairs}; {alone}" if self._has_pairs else alone

    def _take_in(self, side: Side, changes: Changes) -> None:
        if self._null_is_a_key and self._by_key:
            side.keyed.take_in(changes)
        else:
            side.take_in(changes)

    def _with_keys(self, changes: Changes, side: Side) -> Changes:
        """What may meet anything: NULL equals nothing."""
        whole = side.whole_keys(changes.gathered)
        return changes if whole.all() or self._null_is_a_key else changes.filter(whole)

    def _without_keys(self, changes: Changes, side: Side) -> Changes:
        whole = side.whole_keys(changes.gathered)
        return Changes.none(side.schema) if whole.all() else changes.filter(~whole)

    def _pairs(self, mine: Changes, *, left: bool) -> Iterator[Changes]:
        sides = (self._left, self._right) if left else (self._right, self._left)
        rows = mine.gathered
        for places, others in self._meeting.met(rows, *sides, left=left):
            met = (rows.take(places), others.gathered)
            pairs = met[0].beside(met[1], self.schema) if left else met[1].beside(met[0], self.schema)
            yield Changes(pairs, mine.weights[places] * others.weights)

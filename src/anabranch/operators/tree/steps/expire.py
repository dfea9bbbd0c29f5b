"""Expire: rows go as time passes.

Rows wait in the order of their times, so that to find those that go costs what they are. A row without a time stays,
as its time is not older than any other, and need not be remembered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.values import integers, valid
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Expire
from anabranch.operators.tree.steps.base import Step

_LEAST, _MOST = -(2**63), 2**63 - 1


class ExpireStep(Step):
    """See the module. Times are µs, and `reached` never goes back."""

    only_comes = False
    why_thrown = "they have expired"

    def __init__(self, node: Expire, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        self.schema = schemas[0]
        self._node = node
        self._type = self.schema.field(node.column).type
        self._waiting = Arrangement(self.schema, (node.column,), in_order=True)

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        bound = min(max(reached - self._node.after, _LEAST), _MOST)
        gone = self._waiting.take_out_before(pa.scalar(bound, pa.int64()).cast(self._type)).negated()
        times = changes.gathered.column(self._node.column)
        timed = valid(times)
        self.forgotten -= int(gone.weights.sum())
        in_time = integers(times, bound) >= bound
        if not in_time.all():
            self.dropped += len(in_time) - int(np.count_nonzero(in_time))
            changes = changes.filter(in_time)
            timed = timed[in_time]
        self._waiting.take_in(changes if timed.all() else changes.filter(timed))
        return together([gone, changes], self.schema)

    def due(self, reached: int) -> int | None:
        """The time, later than `reached`, at which the next rows go if none come before; None if there are none."""
        first = self._waiting.first()
        return None if first is None else max(int(first.value) + self._node.after + 1, reached + 1)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"waiting": self._waiting}

    def why(self) -> str:
        return f"by arrangement: rows wait in the order of {self._node.column} until time has passed them"

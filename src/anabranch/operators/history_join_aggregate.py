"""Aggregates of live rows that were also seen in portions of history, one period after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from anabranch.operators.base import Operator
from anabranch.operators.history_join import HistoryJoin


@dataclass(frozen=True)
class HistoryJoinAggregate(Operator):
    """Aggregates of what `join` finds, per period of `every` (µs) and group.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None), `columns` the answer's
    (name, name of a key or aggregate).
    """

    kind: ClassVar[str] = "history_join_aggregate"
    reads_history: ClassVar[bool] = True

    join: HistoryJoin
    every: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    confidence: float = 0.95

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.join.inputs

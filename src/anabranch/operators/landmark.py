"""Landmark queries: aggregates since a time in the past, answered again and again as time goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from anabranch.operators.base import Operator


@dataclass(frozen=True)
class Landmark(Operator):
    """Aggregates of the rows of `stream` from `since` (µs) on, per group, at each multiple of `every`.

    `keys` are (name, SQL), `aggregates` (name, function, SQL of the argument or None), `columns` the answer's
    (name, name of a key or aggregate). Of the rows before number `live_from` only a part is read, if there is
    a `reducer`; then each aggregate has bounds that hold with `confidence`.
    """

    kind: ClassVar[str] = "landmark"
    scratch_is_state: ClassVar[bool] = True
    reads_history: ClassVar[bool] = True

    stream: str
    since: int
    keys: tuple[tuple[str, str], ...]
    aggregates: tuple[tuple[str, str, str | None], ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    every: int
    filter: str | None = None
    until: int | None = None
    reducer: tuple[str, tuple[Any, ...]] | None = None
    live_from: int = 0
    confidence: float = 0.95

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.stream,)

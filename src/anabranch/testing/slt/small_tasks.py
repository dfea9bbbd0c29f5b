"""Many tasks and many blocks from few rows: operators split large micro-batches only, tests have small ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from anabranch.operators import select
from anabranch.operators.archive import pieces as archive_pieces
from anabranch.operators.history import join as history_join
from anabranch.operators.history import landmark
from anabranch.operators.join import operator as window_join
from anabranch.operators.join import run, steps
from anabranch.operators.merge import operator as merge
from anabranch.operators.windows import aggregate as window_aggregate
from anabranch.operators.windows import of_groups

_LIMITS: tuple[tuple[Any, str], ...] = (
    (archive_pieces, "BYTES_PER_TASK"),
    (select, "ROWS_PER_TASK"),
    (window_aggregate, "ROWS_PER_TASK"),
    (of_groups, "ROWS_PER_TASK"),
    (window_join, "ROWS_PER_TASK"),
    (merge, "ROWS_PER_TASK"),
    (history_join, "ROWS_PER_TASK"),
    (landmark, "ROWS_PER_TASK"),
    (run, "DRIVERS"),
    (steps, "ROOM"),
)


def lower_limits(rows: int = 1) -> None:
    """From here on, a task needs no more than so many rows, and blocks hold no more."""
    for module, name in _LIMITS:
        setattr(module, name, rows)


@contextlib.contextmanager
def small_tasks(rows: int = 1) -> Iterator[None]:
    """Inside, a task needs no more than so many rows, and blocks hold no more."""
    before = [getattr(module, name) for module, name in _LIMITS]
    lower_limits(rows)
    try:
        yield
    finally:
        for (module, name), limit in zip(_LIMITS, before, strict=True):
            setattr(module, name, limit)

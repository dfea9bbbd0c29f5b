"""Many tasks from few rows: operators split a micro-batch only when it is large, tests have small ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from anabranch.operators import select, window_aggregate

_MODULES: tuple[Any, ...] = (select, window_aggregate)


def lower_limits(rows: int = 1) -> None:
    """From here on, a task needs no more than so many rows."""
    for module in _MODULES:
        module.ROWS_PER_TASK = rows


@contextlib.contextmanager
def small_tasks(rows: int = 1) -> Iterator[None]:
    """Inside, a task needs no more than so many rows."""
    before = [module.ROWS_PER_TASK for module in _MODULES]
    lower_limits(rows)
    try:
        yield
    finally:
        for module, limit in zip(_MODULES, before, strict=True):
            module.ROWS_PER_TASK = limit

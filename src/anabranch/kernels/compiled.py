"""Loops compiled with Numba, which is loaded when the first of them is called.

Loading it takes half a second. Processes that only plan (each standing query has one beside the
driver) or only append never call a kernel, and start without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop on first use; later processes find the machine code on disk."""
    machine_code: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        nonlocal machine_code
        if machine_code is None:
            from numba import njit

            machine_code = njit(cache=True, nogil=True)(function)
        return machine_code(*arguments)

    return call

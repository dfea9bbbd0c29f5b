"""Loops compiled with Numba, which is loaded when the first of them is called.

Loading it takes half a second. Processes that only plan (each standing query has one beside the
driver) or only append never call a kernel, and start without it. A kernel may call other kernels
by the names they have in its module.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any


class _Kernel:
    """A function, and its machine code once it is needed."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    @functools.cached_property
    def machine_code(self) -> Callable[..., Any]:
        from numba import njit

        code: Callable[..., Any] = njit(cache=True, nogil=True)(self._linked())
        return code

    def _helpers(self) -> dict[str, _Kernel]:
        """The kernels this one calls, by the names it knows them by."""
        names = self.function.__globals__
        called = ((name, getattr(names.get(name), "kernel", None)) for name in self.function.__code__.co_names)
        return {name: kernel for name, kernel in called if kernel is not None}

    def _files(self) -> set[str]:
        """The files of this kernel and of all it calls."""
        return {self.function.__code__.co_filename}.union(*(helper._files() for helper in self._helpers().values()))

    def _linked(self) -> FunctionType:
        """The function with its helpers replaced by their machine code."""
        own = self.function
        codes = {name: helper.machine_code for name, helper in self._helpers().items()}
        twin = FunctionType(own.__code__, {**own.__globals__, **codes}, own.__name__, own.__defaults__)
        functools.update_wrapper(twin, own)
        # Numba finds machine code on disk by name and the date of the kernel's own file, and unpickles types before it
        # looks at the date. What all files say goes into the name: code made with an older helper is not found, nor
        # code for types that are gone.
        files = b"".join(Path(file).read_bytes() for file in sorted(self._files()))
        twin.__qualname__ += f"_{zlib.crc32(files):08x}"
        return twin


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a loop on first use; later processes find the machine code on disk."""
    assert isinstance(function, FunctionType)
    kernel = _Kernel(function)

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        return kernel.machine_code(*arguments)

    call.kernel = kernel  # type: ignore[attr-defined]
    return call

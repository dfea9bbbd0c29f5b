"""Calls into another process, which may never return, with a limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any


def within(seconds: float, action: Callable[[], Any]) -> bool:
    """Whether a call has ended in time, well or badly; one that has not goes on in a thread of its own.

    >>> within(5, lambda: 1 / 0), within(0.01, threading.Event().wait)
    (True, False)
    """

    def run() -> None:
        with contextlib.suppress(Exception):
            action()

    thread = threading.Thread(target=run, name="anabranch-within", daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()

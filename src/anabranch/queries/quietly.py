"""Work in the background, which may be tried again later and must not end a thread loudly."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from typing import Any


def quietly(action: Callable[[], Any]) -> None:
    with contextlib.suppress(Exception):
        action()


def all_at_once(actions: Sequence[Callable[[], Any]]) -> None:
    """Each in a thread of its own: many end as fast as the slowest of them."""
    threads = [threading.Thread(target=quietly, args=(action,), daemon=True) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

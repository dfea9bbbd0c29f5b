"""Bounds that are not given, counted by column and why, since nobody could vouch for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KIND = "bounds_withheld"


def together(some: dict[str, int], others: dict[str, int]) -> dict[str, int]:
    """Those of two together.

    >>> together({"a": 1, "b": 1}, {"a": 2})
    {'a': 3, 'b': 1}
    """
    return {why: some.get(why, 0) + others.get(why, 0) for why in (*some, *(why for why in others if why not in some))}


def after(kept: dict[str, int] | None, said: dict[str, int]) -> dict[str, int]:
    return together(kept or {}, said)


def told(kept: dict[str, int] | None) -> dict[str, Any]:
    return {KIND: kept} if kept else {}


def events(before: dict[str, int] | None, said: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Where bounds are not given for a reason that is new."""
    yield from ((KIND, f"no bounds of {why}") for why in said if why not in (before or {}))

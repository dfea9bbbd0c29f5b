"""What a host reports of members that cannot go on: why, by their numbers."""

from __future__ import annotations

from typing import Any

KIND = "failed"

Failed = dict[str, str]


def together(one: Failed, other: Failed) -> Failed:
    return {**one, **other}


def after(before: Failed | None, said: Failed) -> Failed:
    """Nothing is kept: the list of members says who failed."""
    return {}


def told(kept: Failed | None) -> dict[str, Any]:
    return {}

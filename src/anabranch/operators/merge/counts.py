"""What merges count, in plain data that goes through JSON, and how people read it."""

from __future__ import annotations

from typing import Any

_THE_SAME = ("left", "right", "promised")


def added(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The counts of two tasks of the same merge together."""
    together = dict(one)
    for name, value in other.items():
        if name not in one:
            together[name] = value
        elif name == "window":
            together[name] = max(one[name], value)
        elif name == "step":
            together[name] = min(one[name], value)
        elif isinstance(value, list):
            together[name] = [a + b for a, b in zip(one[name], value, strict=True)]
        elif name not in _THE_SAME:
            together[name] = one[name] + value
    return together


def described(merges: list[dict[str, Any]]) -> dict[str, Any]:
    """How complete a query's merges are: that of the last one, and where there are several, each of them."""
    each = [_described(counts) for counts in merges]
    return each[-1] if len(each) == 1 else {**each[-1], "merges": each}


def _described(counts: dict[str, Any]) -> dict[str, Any]:
    merged, dropped_a, dropped_b = counts["recent"]
    possible, last = merged + min(dropped_a, dropped_b), sum(counts["last"])
    incomplete = 1 - merged / possible if possible else 0.0
    found, sampled = counts["sample"]
    said: dict[str, Any] = {
        "streams": [counts["left"], counts["right"]],
        "kappa": counts["last"][0] / last if last else 1.0,
        "delta": incomplete,
        "kappa_max": min(1.0, found / sampled) if sampled else None,
        "rounds": counts["rounds"],
        "merged": counts["merged"],
        "dropped": {counts["left"]: counts["dropped"][0], counts["right"]: counts["dropped"][1]},
        "window": counts["window"],
        "step": counts["step"],
    }
    if counts["promised"] is not None:
        kept = incomplete < counts["promised"]
        said["promise"] = "kept" if kept else "broken" if counts["broken"] else "adapting"
        said["promised"], said["adapted"] = counts["promised"], counts["adapted"]
    return said

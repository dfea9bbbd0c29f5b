"""What merges count, in plain data that goes through JSON, and how people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

KIND = "merge"
_THE_SAME = ("left", "right", "promised")


def together(some: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What two tasks count of the merges of one query."""
    return [_added(counts, other) for counts, other in zip(some, others, strict=True)]


def after(kept: list[dict[str, Any]] | None, said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Merges count from their beginning: what they say last is all."""
    return said


def told(kept: list[dict[str, Any]] | None) -> dict[str, Any]:
    return {KIND: described(kept)} if kept else {}


def events(before: list[dict[str, Any]] | None, said: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Where a merge no longer keeps its promise of completeness, and where it does again."""
    earlier = {(counts["left"], counts["right"]): _described(counts).get("promise") for counts in before or ()}
    for counts in said:
        merge, was = _described(counts), earlier.get((counts["left"], counts["right"]))
        if merge.get("promise") == "broken" and was != "broken":
            yield "merge_promise_broken", _promise(merge)
        elif merge.get("promise") == "kept" and was == "broken":
            yield "merge_promise_kept", _promise(merge)


def _promise(merge: dict[str, Any]) -> str:
    best = merge["kappa_max"]
    return (
        f"Δ of {' and '.join(merge['streams'])} is {merge['delta']:.3f}, promised was less than "
        f"{merge['promised']:g}; its window has {merge['window']} records and its step {merge['step']}"
        + (f"; at best {best:.3f} of the records could merge" if best is not None else "")
    )


def _added(counts: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The counts of two tasks of the same merge together."""
    added = dict(counts)
    for name, value in other.items():
        if name not in counts:
            added[name] = value
        elif name == "window":
            added[name] = max(counts[name], value)
        elif name == "step":
            added[name] = min(counts[name], value)
        elif isinstance(value, list):
            added[name] = [a + b for a, b in zip(counts[name], value, strict=True)]
        elif name not in _THE_SAME:
            added[name] = counts[name] + value
    return added


def described(merges: list[dict[str, Any]]) -> dict[str, Any]:
    """How complete a query's merges are: that of the last one, and where there are several, each of them."""
    descriptions = [_described(counts) for counts in merges]
    return descriptions[-1] if len(descriptions) == 1 else {**descriptions[-1], "merges": descriptions}


def _described(counts: dict[str, Any]) -> dict[str, Any]:
    merged, dropped_a, dropped_b = counts["recent"]
    possible, last = merged + min(dropped_a, dropped_b), sum(counts["last"])
    incomplete = 1 - merged / possible if possible else 0.0
    met, sampled = counts["sample"]
    said: dict[str, Any] = {
        "streams": [counts["left"], counts["right"]],
        "kappa": counts["last"][0] / last if last else 1.0,
        "delta": incomplete,
        "kappa_max": min(1.0, met / sampled) if sampled else None,
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

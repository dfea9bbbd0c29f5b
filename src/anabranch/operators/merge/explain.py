"""Merges as EXPLAIN tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.operators.base import Keeps

if TYPE_CHECKING:
    from anabranch.operators.merge.operator import Merge
    from anabranch.operators.merge.range_operator import RangeMerge

_WHICH = {
    "first": "the first that agrees",
    "nearest": "the nearest that is free",
    "all": "every one that agrees",
}


def explain_merge(merge: Merge | RangeMerge, keeps: Keeps | None, **how: Any) -> dict[str, Any]:
    """The plan of a merge as plain data."""
    steps = []
    for i, (alias, stream) in enumerate(merge.sources[1:]):
        keys = [f"{a} ~ {b} within {tolerance}" for a, b, tolerance in merge.keys[i]]
        steps.append(
            {
                "stream": f"{stream} AS {alias}",
                "join": merge.joins[i],
                "keys": keys,
                **({"equal": [f"{a} = {b}" for a, b in merge.by[i]]} if merge.by[i] else {}),
            }
        )
    alias, stream = merge.sources[0]
    return {
        "operator": merge.kind,
        "inputs": list(merge.inputs),
        "driven by": f"{stream} AS {alias}",
        "merges": steps,
        "partner": _WHICH[merge.policy] + (" in its block" if merge.kind == "range_merge" else ""),
        **how,
        **({"where": list(merge.conditions)} if merge.conditions else {}),
        "columns": dict(merge.columns),
        "time": merge.time,
        "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
    }

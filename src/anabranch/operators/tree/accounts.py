"""What each step of a tree has done with what came, as Stream, Store, Scratch and Throw (CQ paper, section 4.2).

The six actions of the paper, counted for each step: a row of its answer that stays for ever goes to Stream (i), one
that may go to Store (ii), from which it is deleted again (iii); what is remembered is Scratch (iv); what is needed
neither now nor later is thrown at once (v), or once it has been remembered for as long as it was needed (vi).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.steps.base import Step

KIND = "steps"

Report = dict[str, dict[str, Any]]
"""By the number of a step what it does, its counts, and why it keeps and throws something."""

_NOW = ("scratch_rows", "scratch_bytes")


@dataclass(frozen=True)
class Account:
    """The counts of one step: those of Scratch are of now, the others of all there was."""

    stays: int = 0
    comes: int = 0
    goes: int = 0
    dropped: int = 0
    forgotten: int = 0
    scratch_rows: int = 0
    scratch_bytes: int = 0

    def after(self, answered: Changes, step: Step) -> Account:
        """With one more answer of the step."""
        total, moved = int(answered.weights.sum()), int(np.abs(answered.weights).sum())
        stays = step.only_comes
        kept = step.kept().values()
        return Account(
            self.stays + (total if stays else 0),
            self.comes + (0 if stays else (moved + total) // 2),
            self.goes + (moved - total) // 2,
            step.dropped,
            step.forgotten,
            sum(arrangement.entries for arrangement in kept),
            sum(arrangement.nbytes for arrangement in kept),
        )

    def since(self, before: Account) -> dict[str, int]:
        """What was counted since, as plain data."""
        known = asdict(before)
        return {name: count - (0 if name in _NOW else known[name]) for name, count in asdict(self).items()}


def together(report: Report, other: Report) -> Report:
    """What two tasks say of their steps."""
    return {**report, **{step: _added(report.get(step), said, now=True) for step, said in other.items()}}


def after(kept: Report | None, said: Report) -> Report:
    """Totals over the life of a query."""
    return {step: _added((kept or {}).get(step), counts, now=False) for step, counts in said.items()}


def _added(known: Mapping[str, Any] | None, said: Mapping[str, Any], *, now: bool) -> dict[str, Any]:
    """Counts and those known before; of what is held `now` only if both hold it at the same time."""
    return {
        name: value + (known or {}).get(name, 0) if isinstance(value, int) and (now or name not in _NOW) else value
        for name, value in said.items()
    }


def told(kept: Report | None) -> dict[str, Any]:
    """What people read of it.

    >>> told({"1": {"does": "rows: a", "stays": 3, "comes": 0, "goes": 0, "dropped": 2, "forgotten": 0,
    ...             "scratch_rows": 0, "scratch_bytes": 0, "keeps": "", "bound": "", "throws": "WHERE was not true"}})
    {'steps': {'1': {'does': 'rows: a', 'actions': ['i', 'v'], 'stream': {'rows': 3}, 'store': {'rows': 0}, \
'scratch': {'rows': 0, 'bytes': 0, 'why': 'nothing is kept'}, 'throw': {'rows': 2, 'why': 'WHERE was not true'}}}}
    """
    return {} if not kept else {KIND: {step: _told(said) for step, said in kept.items()}}


def _told(said: Mapping[str, Any]) -> dict[str, Any]:
    scratch = {"rows": said["scratch_rows"], "bytes": said["scratch_bytes"], "why": "nothing is kept"}
    if scratch["rows"]:
        scratch["why"] = said["keeps"]
        if said["bound"]:
            scratch["bound"] = said["bound"]
    thrown = said["dropped"] + said["forgotten"]
    return {
        "does": said["does"],
        "actions": [name for name, count in _ACTIONS.items() if said[count]],
        "stream": {"rows": said["stays"]},
        "store": {"rows": said["comes"] - said["goes"]},
        "scratch": scratch,
        "throw": {"rows": thrown, "why": said["throws"] if thrown else "nothing is thrown"},
    }


_ACTIONS = {"i": "stays", "ii": "comes", "iii": "goes", "iv": "scratch_rows", "v": "dropped", "vi": "forgotten"}
"""The paper's numbers of what a step may do, and what says that it has."""


def in_a_line(step: Mapping[str, Any]) -> str:
    """What is told of a step, as DESCRIBE QUERY has it."""
    scratch, throw = step["scratch"], step["throw"]
    kept = f"{scratch['rows']} rows, {scratch['bytes']} bytes" if scratch["rows"] else "0"
    bound = f" (bounded by {scratch['bound']})" if "bound" in scratch else ""
    thrown = f"{throw['rows']} rows ({throw['why']})" if throw["rows"] else "0"
    parts = f"Stream {step['stream']['rows']}, Store {step['store']['rows']}, Scratch {kept}{bound}, Throw {thrown}"
    return f"{step['does']} -- {parts}; {' '.join(f'({action})' for action in step['actions'])}"

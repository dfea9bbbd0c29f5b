"""What each member of a host costs: time, answers and bytes, of a micro-batch and on average over the last ones.

Answers and bytes are counted. Time is measured where a member runs by itself; what members have in common is measured
once and split among them, by their answers, each counting as one more for having been asked. So many members cost
what few do to keep: those that took most time and those that answered most are told one by one, the others as one.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anabranch.log.slices import Payload, index_of

KIND = "costs"
LISTED = 64
"""So many members that took most time are told one by one, and as many that answered most."""
_LASTS = 0.9
"""How much of an average is left after a micro-batch: it is about that of the last ten."""
_GONE = 0.01
"""An average (ms, or answers) below that is no longer kept."""

Said = dict[str, Any]
"""`members`: by number, milliseconds, answers, bytes and rows taken in; `all`: how many they are, and the sums."""
Parts = Iterator[tuple[bytes, Payload]]


class Meter:
    """Measures the members of a host while a micro-batch runs."""

    def __init__(self) -> None:
        self._measured: list[NDArray[np.float64]] = []

    def measured(self, members: Sequence[int] | NDArray[np.int64], taken: int, parts: Parts) -> Parts:
        """The answers of members that are computed together from so many rows, as they come."""
        order = np.sort(np.array(members, np.int64))
        cost = np.zeros((len(order), 5))
        cost[:, 0], cost[:, 4] = order, taken
        seconds, began = 0.0, time.perf_counter()
        for part in parts:
            seconds += time.perf_counter() - began
            index = index_of(part[0])
            places = np.searchsorted(order, index[:, 0])
            cost[places, 2] += index[:, 2]
            cost[places, 3] += index[:, 2] * (len(part[1]) / index[:, 2].sum())
            yield part
            began = time.perf_counter()
        seconds += time.perf_counter() - began
        asked = cost[:, 2] + 1
        cost[:, 1] = 1000 * seconds * asked / asked.sum()
        self._measured.append(cost)

    def said(self, members: int) -> Said:
        """What is to be reported of a micro-batch of so many members."""
        cost = np.concatenate(self._measured) if self._measured else np.zeros((0, 5))
        numbers, of = np.unique(cost[:, 0].astype(np.int64), return_inverse=True)
        sums = np.stack(
            [np.bincount(of, cost[:, column], len(numbers)).astype(np.float64) for column in range(1, 5)], axis=1
        )
        listed = _heaviest(sums)
        told = {str(numbers[place]): np.round(sums[place], 3).tolist() for place in listed}
        return {"members": told, "all": [members, *np.round(sums[:, :3].sum(axis=0), 3).tolist()]}


def _heaviest(sums: NDArray[np.float64]) -> NDArray[np.int64]:
    """Which took most time, and which answered most."""
    if len(sums) <= LISTED:
        return np.arange(len(sums), dtype=np.int64)
    by = [np.argpartition(-sums[:, column], LISTED)[:LISTED] for column in (0, 1)]
    return np.unique(np.concatenate(by))


def _listed(members: dict[str, list[float]]) -> dict[str, list[float]]:
    """Of members those that are told one by one."""
    numbers = list(members)
    places = _heaviest(np.array([members[number] for number in numbers], np.float64).reshape(-1, 4))
    return {numbers[place]: members[numbers[place]] for place in places}


def together(one: Said, other: Said) -> Said:
    """Of two tasks of a micro-batch.

    >>> one = {"members": {"3": [1.0, 2.0, 30.0, 10.0]}, "all": [5, 4.0, 8.0, 80.0]}
    >>> together(one, one)
    {'members': {'3': [2.0, 4.0, 60.0, 20.0]}, 'all': [5, 8.0, 16.0, 160.0]}
    """
    members = dict(one["members"])
    for number, cost in other["members"].items():
        members[number] = _sum(members[number], cost) if number in members else cost
    sums = _sum(one["all"][1:], other["all"][1:])
    return {"members": _listed(members), "all": [max(one["all"][0], other["all"][0]), *sums]}


def after(kept: Said | None, said: Said) -> Said:
    """Averages after one more micro-batch, as sums of what lasts of each; `weight` is how much that is of it.

    >>> told = {"members": {"3": [1.0, 2.0, 30.0, 10.0]}, "all": [5, 4.0, 8.0, 80.0]}
    >>> kept = after(after(None, told), {"members": {}, "all": [5, 4.0, 8.0, 80.0]})
    >>> kept["members"], kept["all"], kept["weight"]
    ({'3': [0.9, 1.8, 27.0, 9.0]}, [5, 7.6, 15.2, 152.0], 1.9)
    """
    if kept is None:
        return {**said, "weight": 1.0}
    members = {number: _lasting(cost) for number, cost in kept["members"].items()}
    members = {number: cost for number, cost in members.items() if cost[0] > _GONE or cost[1] > _GONE}
    for number, cost in said["members"].items():
        members[number] = _sum(members[number], cost) if number in members else cost
    sums = _sum(_lasting(kept["all"][1:]), said["all"][1:])
    return {
        "members": _listed(members),
        "all": [said["all"][0], *sums],
        "weight": round(kept["weight"] * _LASTS + 1, 6),
    }


def told(kept: Said | None) -> dict[str, Any]:
    """Of the host itself nothing: its members tell what each of them costs (`Costs`)."""
    return {}


def _sum(one: Iterable[float], other: Iterable[float]) -> list[float]:
    return [round(a + b, 3) for a, b in zip(one, other, strict=True)]


def _lasting(cost: Iterable[float]) -> list[float]:
    return [round(value * _LASTS, 6) for value in cost]


class Cost(NamedTuple):
    """What a member costs in a micro-batch, on average over the last ones."""

    share: float
    """Of the time that all members took."""
    ms: float
    rows: float
    """Its answers."""
    bytes: float
    taken: float
    """Rows of its streams that it took in."""


class Costs:
    """What is known of the members of a host, from what its progress keeps of this kind of report."""

    def __init__(self, kept: Said | None) -> None:
        self._members: dict[str, list[float]] = kept["members"] if kept else {}
        self._all: list[float] = kept["all"] if kept else [0, 0.0, 0.0, 0.0]
        self.weight: float = kept["weight"] if kept else 1.0
        """Of how many micro-batches the averages are, at most ten."""

    def of(self, member: int) -> Cost:
        """Of a member by its number; one that is not told by itself costs what those have in common, evenly."""
        known = self._members.get(str(member))
        return self._cost(known) if known is not None else self._cost([*self._rest(), 0.0])

    def heaviest(self) -> list[tuple[int, float, float]]:
        """Members that took most time: their numbers, share of the time and milliseconds, the heaviest first.

        One that is gone since is among them for some micro-batches.
        """
        costs = [(int(number), *self._cost(cost)[:2]) for number, cost in self._members.items()]
        return sorted(costs, key=lambda cost: (-cost[2], cost[0]))

    def listed(self) -> dict[int, Cost]:
        """All that are known one by one."""
        return {int(number): self._cost(cost) for number, cost in self._members.items()}

    def _cost(self, sums: Sequence[float]) -> Cost:
        ms, rows, size, taken = (value / self.weight for value in sums)
        share = sums[0] / self._all[1] if self._all[1] else 0.0
        return Cost(share, ms, rows, size, taken)

    def _rest(self) -> list[float]:
        """What each of those costs that are not told one by one, evenly."""
        count = max(self._all[0] - len(self._members), 1)
        sums = [sum(cost[column] for cost in self._members.values()) for column in range(3)]
        return [max(whole - some, 0.0) / count for whole, some in zip(self._all[1:], sums, strict=True)]

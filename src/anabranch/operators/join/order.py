"""In which order the sources of a join are placed: those first that leave the fewest partial results.

How many rows of a source a partial result meets is measured as the join runs, and remembered in
the process, so the order follows rates and selectivities as they change. It never changes answers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from anabranch.operators.join.program import JoinProgram

_GUESS = {"equality": 1.0, "band": 8.0, "comparison": 1_000.0, "nothing": 10_000.0}
_FORGET = 0.5
_REMEMBERED = 256
_RESULTS = 1 << 19
"""Results that memory should hold at once."""
_LEAST, _FIRST, _MOST = 64, 1 << 10, 1 << 20


class JoinOrder:
    """Measured fan-outs of one join."""

    def __init__(self, program: JoinProgram) -> None:
        self._program = program
        self._measured: dict[tuple[int, int], float] = {}
        self._counted: dict[tuple[int, int], tuple[int, int]] = {}
        self.drivers = _FIRST
        """How many drivers to take at once, so that memory has room for their results."""

    def resize(self, drivers: int, results: int) -> None:
        """Take in how many results a number of drivers had."""
        fitting = int(_RESULTS * drivers / max(results, 1))
        self.drivers = max(min(fitting, 4 * self.drivers, _MOST), _LEAST)

    def of(self, driver: int) -> list[int]:
        """The other sources in the order they are placed."""
        placed, left = [driver], [i for i in range(self._program.count) if i != driver]
        while left:
            best = min(left, key=lambda i: (self._fan_out(driver, i, placed), i))
            placed.append(best)
            left.remove(best)
        return placed[1:]

    def _fan_out(self, driver: int, source: int, placed: list[int]) -> float:
        equalities, bands, comparisons = self._program.finders(source, placed)
        bound = "equality" if equalities else "band" if bands else "comparison" if comparisons else "nothing"
        guess = _GUESS[bound]
        # What nothing binds yet is not known by what it met when something did.
        return self._measured.get((driver, source), guess) if equalities or bands else guess

    def begin(self) -> None:
        """Steps of another run count from nothing."""
        self._counted.clear()

    def learn(self, driver: int, counts: Mapping[int, tuple[int, int]]) -> None:
        """Take in how many partial results asked for a source, and how many candidates they found, since the begin."""
        for source, (asked, matches) in counts.items():
            before = self._counted.get((driver, source), (0, 0))
            probes, pairs = asked - before[0], matches - before[1]
            self._counted[driver, source] = (asked, matches)
            if probes > 0:
                old = self._measured.get((driver, source), pairs / probes)
                self._measured[driver, source] = old * _FORGET + pairs / probes * (1 - _FORGET)

    def fan_outs(self) -> dict[tuple[int, int], float]:
        return dict(self._measured)


_orders: OrderedDict[str, JoinOrder] = OrderedDict()


def order_of(name: str, program: JoinProgram) -> JoinOrder:
    """What this process has learnt of a join."""
    order = _orders.get(name)
    if order is None or order._program is not program:
        order = _orders[name] = JoinOrder(program)
        while len(_orders) > _REMEMBERED:
            _orders.popitem(last=False)
    order.begin()
    return order

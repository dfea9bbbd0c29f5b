"""One micro-batch after the other: where each of them ends, for an operator of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.engine.cohorts import LoggedRows, next_members
from anabranch.engine.lateness import Lateness
from anabranch.engine.micro_batch import Ends, Limits, end_of_batch
from anabranch.engine.reducing import Reducing
from anabranch.operators.base import Operator
from anabranch.operators.offset import Offset, Offsets
from anabranch.operators.pace import Pace
from anabranch.operators.together.roster import roster_of


class MicroBatches:
    """The micro-batches of one operator, one after the other; `pace` says how many windows are answered now."""

    def __init__(self, operator: Operator, pace: Callable[[], Pace]) -> None:
        self._operator = operator
        self._pace = pace
        self._reducing = Reducing(operator)
        self._lateness = Lateness()

    def done(self) -> None:
        """The engine has done what was planned last, and asks where the next one ends."""
        self._lateness.done()

    def next_end(
        self, begin: Offsets, ends: Ends, logs: Mapping[str, LoggedRows], most: int | None
    ) -> dict[str, Offset]:
        """Where the next micro-batch ends that takes at most so many rows of each stream."""
        listing = self._operator.members_list
        if listing is not None:
            return self._with_members(listing, begin, ends, logs, most)
        rows = dict.fromkeys(begin, most)
        together = self._operator.paced_by == "time"
        if not self._reducing.wanted:
            return end_of_batch(begin, ends, logs, Limits(rows, self._pace(), together))
        first = self._operator.inputs[0]
        self._reducing.look(ends[first])
        if all(ends[name] == offset.place for name, offset in begin.items()):
            return dict(begin)
        keep = self._reducing.keep(begin[first].place, ends[first])
        if most:
            rows[first] = self._reducing.most(begin[first].place, most, keep)
        reached = end_of_batch(begin, ends, logs, Limits(rows, self._pace(), together))
        return {name: offset._replace(keep=keep) for name, offset in reached.items()}

    def _with_members(
        self, listing: str, begin: Offsets, ends: Ends, logs: Mapping[str, LoggedRows], most: int | None
    ) -> dict[str, Offset]:
        """The same for a host: its list of members goes on beside the streams."""
        streams = {name: offset for name, offset in begin.items() if name != listing}
        reached = end_of_batch(streams, ends, logs, Limits(dict.fromkeys(streams, most)))
        listed = next_members(begin, ends, listing, reached, logs)
        if {listing: listed, **reached} != begin:
            waiting = max(ends[name].row - offset.row for name, offset in streams.items())
            tolerance = roster_of(logs[listing], listed.row).tolerance(listed.row)
            listed = listed._replace(every=self._lateness.level(begin[listing], tolerance, waiting, most or waiting))
            self._lateness.planned()
        return {listing: listed, **reached}


def has_moved(begin: Offsets, ends: Ends) -> bool:
    """Whether there is anything to do: a first micro-batch, rows, time, or what members do that go not with others."""
    return any(
        not offset.has_begun
        or ends[name].row > offset.row
        or ends[name].time > offset.time
        or any(cohort.has_more(ends) for cohort in offset.catching)
        for name, offset in begin.items()
    )

"""Which rows a stream accepts, and in what order they enter it.

Inside a stream time never goes back. Row by row in order of arrival, a row is late if it is older
than the newest time seen before it minus the allowed skew. The rule looks at rows, not at
batches, so the same rows are accepted however they were cut into appends. Accepted rows enter
the log ordered by time, those of equal time by arrival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anabranch.log.offset import MIN_TIME

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LATE, FUTURE, NULL = "TIME_WENT_BACK", "TIME_IN_FUTURE", "TIME_IS_NULL"


@dataclass
class Order:
    """The memory of the rule: the newest time seen, and the time up to which rows have been released."""

    skew: int
    newest: int = MIN_TIME
    released: int = MIN_TIME

    @property
    def floor(self) -> int:
        """No row older than this is accepted any more."""
        if self.newest == MIN_TIME:
            return self.released
        return max(self.newest - self.skew, self.released)

    def admit(self, times: Times, known: Mask | None, latest_allowed: int | None) -> dict[str, Mask]:
        """Note the times of arriving rows; returns, per reason, which rows are refused (if any).

        `known` is False where the time is null. Times after `latest_allowed` are refused too.
        """
        if len(times) == 0:
            return {}
        refused: dict[str, Mask] = {}
        usable = np.ones(len(times), np.bool_) if known is None else known
        if not usable.all():
            refused[NULL] = ~usable
        if latest_allowed is not None:
            future = usable & (times > latest_allowed)
            if future.any():
                refused[FUTURE] = future
                usable = usable & ~future
        if not refused and times[0] >= self.floor and _never_back(times):
            self.newest = max(self.newest, int(times[-1]))
            return {}
        counted = np.where(usable, times, MIN_TIME)
        newest = np.maximum.accumulate(np.concatenate(([self.newest], counted)))
        before = newest[:-1]
        floor = np.where(before == MIN_TIME, MIN_TIME, before - self.skew)
        late = usable & (counted < np.maximum(floor, self.released))
        if late.any():
            refused[LATE] = late
        self.newest = int(newest[-1])
        return refused


def _never_back(times: Times) -> bool:
    return bool((times[1:] >= times[:-1]).all())

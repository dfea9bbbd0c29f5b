"""Cars that pass exits, most of them every day at about the same hour; and the exact answer to the paper's Query 2.

S. Chandrasekaran and M. Franklin (2004, §1): cars that pass an exit now and were seen there at this hour on each of
the last seven days. Here it is four weeks, since a week of history is read too fast to be a load, and cars are looked
for at all exits. The live stream has those of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.schema import TIME_TYPE

DAY, HOUR, MINUTE = 86_400_000_000, 3_600_000_000, 60_000_000
"""Microseconds."""
START = 978_307_200_000_000
"""A midnight, so long ago that thousands of days later are still in the past."""
DAYS_BACK = 28
WITHIN = 20 * MINUTE
COMES = 0.995
"""The part of the cars that come on a day."""
SPREAD = 5 * MINUTE
"""Deviation of the time at which a car comes, from its own."""
EXITS, EXIT = 50, 3
HISTORY, LIVE = "cars", "passing"

Times: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Traffic:
    """So many cars, the same on every day of any run."""

    cars: int

    @cached_property
    def plates(self) -> pa.Array:
        letters = np.array(list("ABCDEFGHJKLMNPRSTUVWXYZ"))
        numbers = np.arange(self.cars)
        parts = [letters[numbers // 23**i % 23] for i in range(5)]
        return pa.array(["".join(letters) + f"{i % 1000:03d}" for i, letters in enumerate(zip(*parts, strict=True))])

    @cached_property
    def own_times(self) -> Times:
        """When each car comes as a rule, from midnight; nobody so near to it that the next day were meant."""
        margin = 2 * WITHIN
        return np.random.default_rng([7, self.cars]).integers(margin, DAY - margin, self.cars)

    def times(self, day: int) -> Times:
        """When each car comes on a day, from its midnight; −1: it does not."""
        random = np.random.default_rng([8, self.cars, day])
        moved = np.clip(random.normal(0, SPREAD, self.cars), -WITHIN, WITHIN).astype(np.int64)
        comes = random.random(self.cars) < COMES
        return np.where(comes, self.own_times + moved, -1)

    def of_exit(self) -> Times:
        """The cars of the live stream."""
        return np.arange(EXIT, self.cars, EXITS)

    def history(self, day: int) -> pa.Table:
        times = self.times(day)
        cars = np.flatnonzero(times >= 0)
        cars = cars[np.argsort(times[cars], kind="stable")]
        return pa.table(
            {
                "ts": pa.array(START + day * DAY + times[cars]).cast(TIME_TYPE),
                "plate": self.plates.take(pa.array(cars)),
                "exit": pa.array((cars % EXITS).astype(np.int32)),
            }
        )

    def live(self, day: int) -> pa.Table:
        history = self.history(day)
        here = history.filter(pa.array(history.column("exit").to_numpy() == EXIT))
        return here.select(["ts", "plate"]).combine_chunks()

    def seen_each_day(self, day: int) -> dict[int, int]:
        """How many cars of the live stream were seen around the same time on each of the days before, by hour."""
        cars = self.of_exit()
        now = _times(self, day)[cars]
        seen = now >= 0
        for ago in range(1, DAYS_BACK + 1):
            then = _times(self, day - ago)[cars]
            seen &= (then >= 0) & (np.abs(then - now) <= WITHIN)
        hours, counts = np.unique(now[seen] // HOUR, return_counts=True)
        return {START + day * DAY + int(hour) * HOUR: int(count) for hour, count in zip(hours, counts, strict=True)}


@lru_cache(maxsize=DAYS_BACK + 2)
def _times(traffic: Traffic, day: int) -> Times:
    return traffic.times(day)


def query(reduced: str | None) -> str:
    """Query 2, counted by hour."""
    reduce_by = f" REDUCE BY {reduced}" if reduced else ""
    return (
        f"SELECT count(*) AS n FROM {LIVE} c JOIN ARCHIVE {HISTORY} h LAST {DAYS_BACK} INTERVAL 1 DAY "
        f"WITHIN INTERVAL {WITHIN // MINUTE} MINUTES IN EACH{reduce_by} "
        "ON c.plate = h.plate EMIT EVERY INTERVAL 1 HOUR"
    )

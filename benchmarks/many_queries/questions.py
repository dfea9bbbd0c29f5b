"""The questions: as SQL of ours and of others, and how many answers each of them has, counted by NumPy."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum

import numpy as np

from benchmarks.many_queries.conditions import (
    Above,
    Condition,
    Contains,
    Either,
    Epl,
    Equal,
    FarFromZero,
    Flag,
    Null,
    OneOf,
    Prefix,
    Within,
    all_epl,
    all_hold,
    all_sql,
)
from benchmarks.many_queries.rows import BASE_MS, CODES, KEYS, LARGEST_B, LEVELS, TEXTS, Fed

WINDOW_SECONDS = 10
TOGETHER_SECONDS = 1
"""How far apart rows of s and e may be to be joined."""
FIRST_FEW = 200
"""Of questions that cost each row something there are ten of a kind, however many questions are asked."""


class Closing(Enum):
    """What closes a window."""

    ANY_ROW = "a row behind it"
    OWN_ROW = "a row behind it that the question selects"
    THE_END = "the end of all rows"


class Question(ABC):
    """A standing query."""

    @abstractmethod
    def sql(self) -> str:
        """As we are asked."""

    @abstractmethod
    def spark(self) -> str:
        """As Spark is asked, over s and e with a watermark on `at`."""

    @abstractmethod
    def flink(self) -> str:
        """As Flink is asked, over s and e whose time is `ts`."""

    @abstractmethod
    def epl(self) -> Epl:
        """As Esper is asked, over s and e whose time is `at`, in milliseconds."""

    @abstractmethod
    def answers(self, fed: Fed, closing: Closing) -> int:
        """How many rows it answers; of windows, how many rows they counted together."""


@dataclass(frozen=True)
class Selection(Question):
    """Some columns of the rows that meet all conditions."""

    columns: str
    where: tuple[Condition, ...]

    def sql(self) -> str:
        return f"SELECT {self.columns} FROM s WHERE {all_sql(self.where)}"

    def spark(self) -> str:
        return self.sql()

    def flink(self) -> str:
        return self.sql().replace(", at FROM", ", ts FROM")

    def epl(self) -> Epl:
        condition = all_epl(self.where)
        return condition._replace(text=f"select {self.columns} from s({condition.text})")

    def answers(self, fed: Fed, closing: Closing) -> int:
        return int(all_hold(self.where, fed.s).sum())


@dataclass(frozen=True)
class Windowed(Question):
    """How many rows of a code there are in ten seconds, and an aggregate of their x."""

    code: int
    aggregate: str

    def sql(self) -> str:
        return (
            f"SELECT count(*) AS n, {self.aggregate}(x) AS x FROM s WHERE code = {self.code} "
            f"WINDOW = INTERVAL {WINDOW_SECONDS} SECONDS"
        )

    def spark(self) -> str:
        return (
            f"SELECT count(*) AS n, {self.aggregate}(x) AS x FROM s WHERE code = {self.code} "
            f"GROUP BY window(at, '{WINDOW_SECONDS} seconds')"
        )

    def flink(self) -> str:
        aggregate = "PERCENTILE(x, 0.5)" if self.aggregate == "median" else f"{self.aggregate}(x)"
        return (
            f"SELECT count(*) AS n, {aggregate} AS x "
            f"FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '{WINDOW_SECONDS}' SECOND)) "
            f"WHERE code = {self.code} GROUP BY window_start, window_end"
        )

    def epl(self) -> Epl:
        return Epl(
            f"select count(*) as n, {self.aggregate}(x) as x "
            f"from s(code = ?::int)#ext_timed_batch(at, {WINDOW_SECONDS} sec, 0L)",
            (self.code,),
        )

    def answers(self, fed: Fed, closing: Closing) -> int:
        at = fed.s["at"][fed.s["code"] == self.code]
        if closing is Closing.THE_END or not len(at):
            return len(at)
        newest = int(at.max() if closing is Closing.OWN_ROW else fed.s["at"].max())
        size = WINDOW_SECONDS * 1000
        return int((at < newest // size * size).sum())


@dataclass(frozen=True)
class Join(Question):
    """Rows of both streams with the same key, of a level, a second apart at most."""

    level: int

    def sql(self) -> str:
        return self._sql(f"s a, e b WINDOW = INTERVAL {TOGETHER_SECONDS} SECONDS", "")

    def spark(self) -> str:
        apart = f"INTERVAL {TOGETHER_SECONDS} SECONDS"
        return self._sql("s a, e b", f" AND a.at BETWEEN b.at - {apart} AND b.at + {apart}")

    def flink(self) -> str:
        apart = f"INTERVAL '{TOGETHER_SECONDS}' SECOND"
        return self._sql("s a, e b", f" AND a.ts BETWEEN b.ts - {apart} AND b.ts + {apart}")

    def _sql(self, streams: str, apart: str) -> str:
        return f"SELECT a.k, a.x, b.level FROM {streams} WHERE a.k = b.k AND a.flag AND b.level = {self.level}{apart}"

    def epl(self) -> Epl:
        apart = TOGETHER_SECONDS * 1000
        kept = f"#ext_timed(at, {apart + 1} msec)"
        return Epl(
            f"select a.k as k, a.x as x, b.level as level from s(flag = true){kept} as a, e(level = ?::int){kept} as b "
            f"where a.k = b.k and a.at - b.at between -{apart} and {apart}",
            (self.level,),
        )

    def answers(self, fed: Fed, closing: Closing) -> int:
        left, right = (
            {name: column[mask].astype(np.int64) for name, column in rows.items() if name in ("k", "at")}
            for rows, mask in ((fed.s, fed.s["flag"]), (fed.e, fed.e["level"] == self.level))
        )
        place = np.sort((left["k"] << 40) + left["at"] - BASE_MS)
        middle, apart = (right["k"] << 40) + right["at"] - BASE_MS, TOGETHER_SECONDS * 1000
        first, behind = np.searchsorted(place, middle - apart, "left"), np.searchsorted(place, middle + apart, "right")
        return int((behind - first).sum())


def indexable(number: int) -> Selection:
    """A selection that is looked up: one of each kind in turn."""
    chance = random.Random(number)
    k, code, x = chance.randrange(KEYS), chance.randrange(CODES), round(chance.uniform(0, 0.999), 4)
    some = tuple(sorted({chance.randrange(KEYS) for _ in range(4)}))
    end, b = round(x + 0.0001, 4), chance.randrange(LARGEST_B)
    return (
        Selection("k, x, at", (Equal("k", k),)),
        Selection("k, x, at", (OneOf("k", some),)),
        Selection("k, x, at", (Within("x", x, end, "[)"),)),
        Selection("t, y, at", (Prefix(str(TEXTS[code])), Flag())),
        Selection("k, y, at", (Equal("code", code), Above("y", 1))),
        Selection("t, x, at", (Equal("k", k, turned=True), Null("x", wanted=False), Above("b", -1))),
        Selection("k, x, at", (Within("x", x, end, "[]"),)),
        Selection("k, x, at", (Within("b", b, b + LARGEST_B // 10_000, "()"),)),
        Selection("k, x, at", (Equal("code", code), Null("y"))),
        Selection("k, y, at", (Flag(), Within("y", -0.5, 0.5, "[]"), Equal("k", k))),
    )[number % 10]


def mixed(number: int) -> Question:
    """Selections, windowed aggregates, medians, and a few joins and conditions that nobody can look up."""
    kind, some = number % 20, number // 20
    chance = random.Random(number)
    k, code = chance.randrange(KEYS - 1), chance.randrange(CODES)
    if kind < 4:
        return Windowed(code, "avg")
    if kind == 4:
        return Windowed(code, "median")
    if number < FIRST_FEW and kind == 5:
        condition = FarFromZero(3.0 + some / 10) if some % 2 else Contains(f"-{code % 200:03d}")
        return Selection("k, x, at", (condition,))
    if number < FIRST_FEW and kind == 6:
        return Selection("k, x, at", (Either(Equal("k", k), Equal("code", code)),))
    if number < FIRST_FEW and kind == 7:
        return Join(some % LEVELS)
    return indexable(number)

"""What a question asks of a row: as SQL, as Esper's EPL, and as NumPy sees it.

In EPL constants are parameters: Esper compiles a text once and deploys it with the constants of each statement. Of the
ways to write a condition there, the one is taken that its index of filters knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.many_queries.rows import TEXTS, Columns

Mask = NDArray[np.bool_]
Constant = int | float | str
_TYPES = {int: "int", float: "double", str: "string"}


class Epl(NamedTuple):
    """A text with a `?` for each constant."""

    text: str
    constants: tuple[Constant, ...] = ()


class Condition(ABC):
    """Something that is true of a row, or not."""

    @abstractmethod
    def sql(self) -> str:
        """As our SQL, Spark's and Flink's have it."""

    @abstractmethod
    def epl(self) -> Epl:
        """As Esper has it."""

    @abstractmethod
    def holds(self, rows: Columns) -> Any:
        """Of which rows it is true."""


@dataclass(frozen=True)
class Equal(Condition):
    """column = value, or written the other way round."""

    column: str
    value: int
    turned: bool = False

    def sql(self) -> str:
        return f"{self.value} = {self.column}" if self.turned else f"{self.column} = {self.value}"

    def epl(self) -> Epl:
        return Epl(f"{self.column} = {_marks(self.value)}", (self.value,))

    def holds(self, rows: Columns) -> Any:
        return rows[self.column] == self.value


@dataclass(frozen=True)
class OneOf(Condition):
    """column IN (…)."""

    column: str
    values: tuple[int, ...]

    def sql(self) -> str:
        return f"{self.column} IN ({', '.join(map(str, self.values))})"

    def epl(self) -> Epl:
        return Epl(f"{self.column} in ({_marks(*self.values)})", self.values)

    def holds(self, rows: Columns) -> Any:
        return np.isin(rows[self.column], self.values)


@dataclass(frozen=True)
class Within(Condition):
    """A range of a column: `ends` is "[)", "[]" or "()"."""

    column: str
    low: int | float
    high: int | float
    ends: str

    def sql(self) -> str:
        if self.ends == "[]":
            return f"{self.column} BETWEEN {self.low} AND {self.high}"
        over = ">=" if self.ends[0] == "[" else ">"
        return f"{self.column} {over} {self.low} AND {self.column} < {self.high}"

    def epl(self) -> Epl:
        low, high = ("?::long" if self.column == "b" else _marks(end) for end in (self.low, self.high))
        return Epl(f"{self.column} in {self.ends[0]}{low}:{high}{self.ends[1]}", (self.low, self.high))

    def holds(self, rows: Columns) -> Any:
        column = rows[self.column]
        after = column >= self.low if self.ends[0] == "[" else column > self.low
        return after & (column <= self.high if self.ends[1] == "]" else column < self.high)


@dataclass(frozen=True)
class Above(Condition):
    """column > value."""

    column: str
    value: int

    def sql(self) -> str:
        return f"{self.column} > {self.value}"

    def epl(self) -> Epl:
        return Epl(self.sql())

    def holds(self, rows: Columns) -> Any:
        return rows[self.column] > self.value


@dataclass(frozen=True)
class Prefix(Condition):
    """t LIKE 'prefix%'. Esper would evaluate LIKE for each statement; a range of texts is looked up."""

    text: str

    def sql(self) -> str:
        return f"t LIKE '{self.text}%'"

    def epl(self) -> Epl:
        after = self.text[:-1] + chr(ord(self.text[-1]) + 1)
        return Epl(f"t in [{_marks(self.text)}:{_marks(after)})", (self.text, after))

    def holds(self, rows: Columns) -> Any:
        return np.char.startswith(TEXTS, self.text)[rows["code"]]


@dataclass(frozen=True)
class Contains(Condition):
    """t LIKE '%part%'."""

    part: str

    def sql(self) -> str:
        return f"t LIKE '%{self.part}%'"

    def epl(self) -> Epl:
        pattern = f"%{self.part}%"
        return Epl(f"t like {_marks(pattern)}", (pattern,))

    def holds(self, rows: Columns) -> Any:
        return (np.char.find(TEXTS, self.part) >= 0)[rows["code"]]


@dataclass(frozen=True)
class Flag(Condition):
    """A boolean column."""

    def sql(self) -> str:
        return "flag"

    def epl(self) -> Epl:
        return Epl("flag = true")

    def holds(self, rows: Columns) -> Any:
        return rows["flag"]


@dataclass(frozen=True)
class Null(Condition):
    """column IS NULL, or IS NOT NULL."""

    column: str
    wanted: bool = True

    def sql(self) -> str:
        return f"{self.column} IS {'' if self.wanted else 'NOT '}NULL"

    def epl(self) -> Epl:
        return Epl(self.sql().lower())

    def holds(self, rows: Columns) -> Any:
        return np.isnan(rows[self.column]) == self.wanted


@dataclass(frozen=True)
class FarFromZero(Condition):
    """abs(y) > value: a function, that nobody can look up."""

    value: float

    def sql(self) -> str:
        return f"abs(y) > {self.value}"

    def epl(self) -> Epl:
        return Epl(f"Math.abs(y) > {_marks(self.value)}", (self.value,))

    def holds(self, rows: Columns) -> Any:
        return np.abs(rows["y"].astype(float)) > self.value


@dataclass(frozen=True)
class Either(Condition):
    """One condition OR another."""

    one: Condition
    other: Condition

    def sql(self) -> str:
        return f"({self.one.sql()} OR {self.other.sql()})"

    def epl(self) -> Epl:
        one, other = self.one.epl(), self.other.epl()
        return Epl(f"({one.text} or {other.text})", one.constants + other.constants)

    def holds(self, rows: Columns) -> Any:
        return self.one.holds(rows) | self.other.holds(rows)


def all_sql(conditions: tuple[Condition, ...]) -> str:
    return " AND ".join(condition.sql() for condition in conditions)


def all_epl(conditions: tuple[Condition, ...]) -> Epl:
    parts = [condition.epl() for condition in conditions]
    return Epl(
        " and ".join(part.text for part in parts), tuple(constant for part in parts for constant in part.constants)
    )


def all_hold(conditions: tuple[Condition, ...], rows: Columns) -> Mask:
    mask: Mask = np.logical_and.reduce([condition.holds(rows) for condition in conditions])
    return mask


def _marks(*values: Constant) -> str:
    """A typed parameter for each value."""
    return ", ".join(f"?::{_TYPES[type(value)]}" for value in values)

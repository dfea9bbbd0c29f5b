"""The reducers there are, what they take, and how one is made from plain data.

In plans and operators a reducer is a name and its arguments, e.g. `("uniform", (0.4,))`; intervals are
microseconds there. SQL has them checked by `check`, scans make one with `reducer_of`.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from anabranch.archive.reduction import Reducer, Seen, checked_reduction, keep_of
from anabranch.archive.user_reducers import is_path, user_reducer
from anabranch.errors import CatalogError, SqlError, did_you_mean

__all__ = [
    "REDUCERS",
    "SIGNATURES",
    "Argument",
    "Kind",
    "Reducer",
    "Seen",
    "Signature",
    "Spec",
    "check",
    "checked_reduction",
    "keep_of",
    "reducer_of",
]

Spec = tuple[str, tuple[Any, ...]]
Kind = Literal["fraction", "interval", "percent", "column"]

_MICROSECOND = datetime.timedelta(microseconds=1)
_LONGEST = datetime.timedelta(days=36525)
_WANTED: dict[Kind, str] = {
    "fraction": "the fraction to drop, a number from 0 to below 1",
    "interval": "an INTERVAL above zero, of at most 100 years",
    "percent": "a number of percent above 0 and below 100",
    "column": "the name of a column",
}


@dataclass(frozen=True)
class Argument:
    """One argument of a reducer."""

    name: str
    kind: Kind
    optional: bool = False


@dataclass(frozen=True)
class Signature:
    """What a built-in reducer takes and does."""

    name: str
    arguments: tuple[Argument, ...]
    help: str

    def __str__(self) -> str:
        needed = ", ".join(a.name for a in self.arguments if not a.optional)
        return f"{self.name}({needed}{''.join(f'[, {a.name}]' for a in self.arguments if a.optional)})"


class Uniform(Reducer):
    """Drops the same fraction everywhere.

    >>> Uniform(0.4).reduce(Seen(None, None, newest=0))
    0.4
    """

    stateless: ClassVar[bool] = True

    def __init__(self, fraction: float) -> None:
        self.fraction = fraction

    def reduce(self, seen: Seen) -> float:
        return self.fraction


class ByKey(Uniform):
    """Drops a fraction of the values of a column, each with all its rows."""

    def __init__(self, column: str, fraction: float) -> None:
        super().__init__(fraction)
        self.by = column


class Age(Reducer):
    """Reads the newest in full, and half as much with each half-life of age.

    >>> [Age(10).reduce(Seen(0, t, newest=100)) for t in (100, 90, 80)]
    [0.0, 0.5, 0.75]
    """

    stateless: ClassVar[bool] = True

    def __init__(self, half_life: int) -> None:
        self.half_life = half_life

    def reduce(self, seen: Seen) -> float:
        if seen.time_last is None:
            return 0.0
        age = max(seen.newest - seen.time_last, 0)
        return 1.0 - math.exp2(-age / self.half_life)


class Load(Reducer):
    """Reads less while live rows wait, and more again when they do not.

    What is read falls fast and grows slowly (as the windows of TCP do: V. Jacobson, 1988). Between falling
    and growing lies a band of lags where nothing changes, and while a backlog shrinks nothing is taken away, since what
    was read before still works its way through. It grows in steps: a join that wants more than it has reads its
    portions anew, and rows that wait for that alone do not make it take the step back.
    """

    LEAST: ClassVar[float] = 0.001
    GROWTH: ClassVar[float] = 1.5
    CALM: ClassVar[int] = 16
    """So many times in a row nothing must have waited for long before more is read."""
    SETTLES: ClassVar[int] = 3
    """So many times after it grew, twice as much lag is borne."""
    BUSY_DISK: ClassVar[float] = 0.9
    SHRINKS: ClassVar[float] = 0.9
    """A backlog shrinks if it is at most this part of what it was."""

    def __init__(self, target_lag: int, column: str | None = None) -> None:
        self.target_lag = target_lag / 1e6
        self.by = column
        self.keep = 1.0
        self._lag = 0.0
        self._calm = 0
        self._settling = 0

    def reduce(self, seen: Seen) -> float:
        pressure, growing = seen.lag / self.target_lag, seen.lag > self._lag
        shrinking = seen.lag < self.SHRINKS * self._lag
        self._lag = seen.lag
        self._calm = self._calm + 1 if pressure < 1 / 3 else 0
        if self._settling:
            self._settling -= 1
            pressure /= 2
        busy = seen.disk_wait >= self.BUSY_DISK and pressure > 0.25
        if pressure > 1 and not shrinking:
            self.keep /= 2
        elif (pressure > 0.6 and growing) or (busy and not shrinking):
            # Soon enough that the target itself is seldom passed.
            self.keep /= 1.5
        elif self._calm >= self.CALM:
            self.keep *= self.GROWTH
            self._calm, self._settling = 0, self.SETTLES
        self.keep = min(max(self.keep, self.LEAST), 1.0)
        return 1.0 - self.keep


class WithinError(Reducer):
    """Reads as little as an error allows: the same as WITH ERROR, so it is the question that acts on it.

    A scan that cannot tell its error reads everything.
    """

    stateless: ClassVar[bool] = True

    def __init__(self, percent: float, confidence: float = 95.0) -> None:
        self.percent = percent
        self.confidence = confidence

    def reduce(self, seen: Seen) -> float:
        return 0.0


class Every(Reducer):
    """Reads summaries of windows in place of rows.

    >>> Every(3_600_000_000).reduce(Seen(None, None, newest=0))
    datetime.timedelta(seconds=3600)
    """

    stateless: ClassVar[bool] = True

    def __init__(self, interval: int) -> None:
        self.interval = interval

    def reduce(self, seen: Seen) -> datetime.timedelta:
        return datetime.timedelta(microseconds=self.interval)


REDUCERS: dict[str, type[Reducer]] = {
    "uniform": Uniform,
    "age": Age,
    "load": Load,
    "error": WithinError,
    "every": Every,
    "by_key": ByKey,
}
"""The built-in reducers by the name they have in SQL."""

SIGNATURES: dict[str, Signature] = {
    s.name: s
    for s in (
        Signature("uniform", (Argument("fraction", "fraction"),), "Drops the same fraction everywhere."),
        Signature("age", (Argument("half_life", "interval"),), "Reads half as much with each half-life of age."),
        Signature(
            "load",
            (Argument("target_lag", "interval"), Argument("column", "column", optional=True)),
            "Reads less while live rows wait, and more again when they do not.",
        ),
        Signature(
            "error",
            (Argument("percent", "percent"), Argument("confidence", "percent", optional=True)),
            "Reads as little as the error allows, like WITH ERROR.",
        ),
        Signature("every", (Argument("interval", "interval"),), "Reads summaries of windows in place of rows."),
        Signature(
            "by_key",
            (Argument("column", "column"), Argument("fraction", "fraction")),
            "Drops a fraction of the values of a column, each with all its rows.",
        ),
    )
}


def check(name: str, arguments: Sequence[Any], registered: Mapping[str, str] | None = None) -> Spec:
    """The reducer that SQL names, as plain data; an error says what was wanted.

    Arguments are numbers, `datetime.timedelta` for an INTERVAL, and text for the name of a column. `registered`
    has the user's own by name, with where their classes are.

    >>> check("age", [datetime.timedelta(days=1)])
    ('age', (86400000000,))
    """
    registered = registered or {}
    lower = name.lower()
    if lower in SIGNATURES:
        return lower, _checked(SIGNATURES[lower], arguments)
    own = {key.lower(): path for key, path in registered.items()}
    path = name if is_path(name) else own.get(lower)
    if path is None:
        raise CatalogError(
            "REDUCER_NOT_FOUND",
            f'reducer "{name}" does not exist',
            hint=did_you_mean(lower, [*SIGNATURES, *registered]),
        )
    plain = tuple(_microseconds(a) if isinstance(a, datetime.timedelta) else a for a in arguments)
    user_reducer(path, plain)  # refuses what it cannot take
    return path, plain


def reducer_of(spec: tuple[str, Sequence[Any]]) -> Reducer:
    """A new reducer, with its own state, from plain data.

    >>> reducer_of(("by_key", ("plate", 0.9))).by
    'plate'
    """
    name, arguments = spec
    if is_path(name):
        return user_reducer(name, arguments)
    if name not in REDUCERS:
        raise CatalogError(
            "REDUCER_NOT_FOUND", f'reducer "{name}" does not exist', hint=did_you_mean(name, list(REDUCERS))
        )
    return REDUCERS[name](*_checked(SIGNATURES[name], arguments, plain=True))


def _checked(signature: Signature, arguments: Sequence[Any], *, plain: bool = False) -> tuple[Any, ...]:
    """The arguments as plain data; if they are so already, intervals are whole numbers."""
    least = sum(not a.optional for a in signature.arguments)
    if not least <= len(arguments) <= len(signature.arguments):
        wanted = f"{least}" if least == len(signature.arguments) else f"{least} or {len(signature.arguments)}"
        raise SqlError(
            "REDUCER_ARGUMENT_INVALID",
            f"{signature.name} has {len(arguments)} arguments, wanted {wanted}",
            hint=f"write {signature}",
        )
    pairs = zip(signature.arguments, arguments, strict=False)
    return tuple(_value(signature, wanted, value, plain) for wanted, value in pairs)


def _value(signature: Signature, wanted: Argument, value: Any, plain: bool) -> Any:
    match wanted.kind:
        case "interval" if isinstance(value, datetime.timedelta) and _MICROSECOND <= value <= _LONGEST:
            return _microseconds(value)
        case "interval" if plain and type(value) is int and 0 < value <= _microseconds(_LONGEST):
            return value
        case "fraction" if 0 <= _number(value) < 1:
            return _number(value)
        case "percent" if 0 < _number(value) < 100:
            return _number(value)
        case "column" if isinstance(value, str) and value:
            return value
    raise SqlError(
        "REDUCER_ARGUMENT_INVALID",
        f"{wanted.name} of {signature} is {value!r}, wanted {_WANTED[wanted.kind]}",
    )


def _number(value: Any) -> float:
    """NaN for what is none, which is in no range."""
    is_number = isinstance(value, (int, float, decimal.Decimal, np.number)) and not isinstance(value, bool)
    return float(value) if is_number else math.nan


def _microseconds(span: datetime.timedelta) -> int:
    return span // _MICROSECOND

"""Times written in a format, as Spark's `date_format` writes them, in UTC.

A format stands for a list of fields and texts. Of each field is known how long the times are that it writes alike, so
only different times of the finest are written: a day's rows have one `yyyy-MM-dd`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import times
from anabranch.expressions.expr import Build, Datum, Expr, NotEvaluable, apply
from anabranch.expressions.literals import text_of
from anabranch.expressions.types import BIGINT, STRING

_RUN = re.compile(r"([A-Za-z])\1*")
_QUOTED = re.compile(r"'[^']*'")
_LENGTHS = {3: times.DAY, 4: times.HOUR, 5: times.MINUTE, 6: times.SECOND}
_RESERVED = "[]{}#"
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip


@dataclass(frozen=True)
class Field:
    """What a run of letters writes of microseconds since 1970."""

    unit: int
    """Times that begin the same one of this length are written alike."""
    write: Callable[[Datum], Datum]


def date_format(node: exp.Anonymous, build: Build) -> Expr:
    """A TIMESTAMP or DATE in a format that is a literal."""
    if len(node.expressions) != 2:
        raise NotEvaluable(f"{node.sql(dialect='spark')}: it is evaluated with two arguments")
    micros = times.to_micros(build(node.expressions[0]))
    parts = parts_of(text_of(build(node.expressions[1]), "the format of date_format"))
    unit = finest(parts)
    return apply(STRING, lambda values: _written(values, parts, unit), micros)


def finest(parts: tuple[Field | str, ...]) -> int:
    """The length of the times that a format writes alike; 0: it writes all alike."""
    return min((part.unit for part in parts if isinstance(part, Field)), default=0)


_PLACES = (("yyyy",), ("MM", "MMM", "MMMM"), ("dd",), ("HH",), ("mm",), ("ss",))
"""What tells times apart, from the longest: each says which of the one before."""
_UNEVEN = {"M", "d", "H", "h", "m", "s"}
"""Written with one digit or two: side by side they may come to the same text at different times."""


def told_apart(pattern: str) -> int | None:
    """The length of the times of which each is written in its own way; None: a text comes back, or no length is fixed.

    >>> [told_apart(pattern) for pattern in ("yyyy-MM-dd", "dd.MM.yyyy HH", "yyyyMMdd E", "yyyy-MM", "HH:mm")]
    [86400000000, 3600000000, 86400000000, None, None]
    """
    try:
        parts_of(pattern)
    except NotEvaluable:
        return None
    letters = {run.group() for run in _RUN.finditer(_QUOTED.sub(" ", pattern))}
    there = [not letters.isdisjoint(place) for place in _PLACES]
    return None if letters & _UNEVEN else _LENGTHS.get([*there, False].index(False))


def parts_of(pattern: str) -> tuple[Field | str, ...]:
    """The fields and texts of a format.

    >>> [part if isinstance(part, str) else part.unit for part in parts_of("HH'h'mm")]
    [3600000000, 'h', 60000000]
    """
    parts: list[Field | str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        end = at + 1
        if letter == "'":
            text, at = _quoted(pattern, end)
            parts.append(text)
            continue
        while end < len(pattern) and pattern[end] == letter:
            end += 1
        if letter.isascii() and letter.isalpha():
            field = FIELDS.get(pattern[at:end])
            if field is None:
                raise NotEvaluable(f"{pattern[at:end]} in a format of times is not evaluated here")
            parts.append(field)
        elif letter in _RESERVED:
            raise NotEvaluable(f"{letter} in a format of times is not evaluated here")
        else:
            parts.append(pattern[at:end])
        at = end
    return tuple(parts)


def _quoted(pattern: str, at: int) -> tuple[str, int]:
    """The text that a quote before a place begins, and the place behind it; two quotes are one."""
    if pattern[at : at + 1] == "'":
        return "'", at + 1
    text = ""
    while at < len(pattern):
        if pattern[at] != "'":
            text, at = text + pattern[at], at + 1
        elif pattern[at + 1 : at + 2] == "'":
            text, at = text + "'", at + 2
        else:
            return text, at + 1
    raise NotEvaluable("a quote in a format of times is not closed")


def _written(micros: Datum, parts: tuple[Field | str, ...], unit: int) -> Datum:
    if isinstance(micros, pa.Scalar):
        return _written(pa.array([micros.as_py()], BIGINT), parts, unit)[0]
    if isinstance(micros, pa.ChunkedArray):
        return pa.chunked_array([_written(chunk, parts, unit) for chunk in micros.chunks], STRING)
    if unit == 0:
        text = "".join(part for part in parts if isinstance(part, str))
        return pc.if_else(pc.is_valid(micros), pa.scalar(text), pa.scalar(None, STRING))
    different = pc.dictionary_encode(times.floor_divide(micros, unit))
    begins = pc.multiply(different.dictionary, pa.scalar(unit, BIGINT))
    texts = [pa.scalar(part) if isinstance(part, str) else part.write(begins) for part in parts]
    return pc.binary_join_element_wise(*texts, "").take(different.indices)


def _number(of: Callable[[Datum], Datum], digits: int) -> Callable[[Datum], Datum]:
    return lambda micros: pc.utf8_lpad(pc.cast(of(micros), STRING), digits, "0")


def _days(of: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Of days, from microseconds."""
    return lambda micros: of(times.floor_divide(micros, times.DAY))


def _part(whole: int, part: int) -> Callable[[Datum], Datum]:
    return lambda micros: pc.divide(times.floor_remainder(micros, whole), pa.scalar(part, BIGINT))


def _year(micros: Datum) -> Datum:
    """Four digits at least, and a sign before 0 and beyond 9999."""
    year = pc.cast(_days(times.CALENDAR["YEAR"])(micros), BIGINT)
    number = pc.utf8_lpad(pc.cast(pc.abs(year), STRING), 4, "0")
    zero, last = pa.scalar(0, BIGINT), pa.scalar(9999, BIGINT)
    sign = pc.if_else(pc.less(year, zero), "-", pc.if_else(pc.greater(year, last), "+", ""))
    return pc.binary_join_element_wise(sign, number, "")


def _name(names: tuple[str, ...], of: Callable[[Datum], Datum], letters: int | None) -> Callable[[Datum], Datum]:
    texts = pa.array([name[:letters] for name in names])
    return lambda micros: texts.take(pc.cast(of(micros), BIGINT))


def _numbers(letter: str, unit: int, of: Callable[[Datum], Datum]) -> dict[str, Field]:
    return {letter: Field(unit, _number(of, 1)), letter * 2: Field(unit, _number(of, 2))}


def _month(micros: Datum) -> Datum:
    return pc.subtract(pc.cast(_days(times.CALENDAR["MONTH"])(micros), BIGINT), pa.scalar(1, BIGINT))


def _half_day(micros: Datum) -> Datum:
    """From 1 to 12."""
    hour = pc.add(_part(times.DAY, times.HOUR)(micros), pa.scalar(11, BIGINT))
    return pc.add(times.floor_remainder(hour, 12), pa.scalar(1, BIGINT))


FIELDS: dict[str, Field] = {
    "yyyy": Field(times.DAY, _year),
    **_numbers("M", times.DAY, _days(times.CALENDAR["MONTH"])),
    "MMM": Field(times.DAY, _name(_MONTHS, _month, 3)),
    "MMMM": Field(times.DAY, _name(_MONTHS, _month, None)),
    **_numbers("d", times.DAY, _days(times.CALENDAR["DAY"])),
    **{"E" * n: Field(times.DAY, _name(_DAYS, _days(times.weekday), 3)) for n in (1, 2, 3)},
    "EEEE": Field(times.DAY, _name(_DAYS, _days(times.weekday), None)),
    **_numbers("H", times.HOUR, _part(times.DAY, times.HOUR)),
    **_numbers("h", times.HOUR, _half_day),
    "a": Field(times.HOUR, _name(("AM", "PM"), _part(times.DAY, 12 * times.HOUR), None)),
    **_numbers("m", times.MINUTE, _part(times.HOUR, times.MINUTE)),
    **_numbers("s", times.SECOND, _part(times.MINUTE, times.SECOND)),
    **{"S" * n: Field(10 ** (6 - n), _number(_part(times.SECOND, 10 ** (6 - n)), n)) for n in range(1, 7)},
}
"""What is written here; Spark knows more letters, and writes those."""

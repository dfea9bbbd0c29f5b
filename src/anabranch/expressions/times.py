"""Parts of times and dates, in UTC.

All of it is arithmetic on microseconds and days, exact over the whole range of both. The calendar
repeats every 400 years, so days are first brought near to today, where Arrow knows the calendar.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply
from anabranch.expressions.types import BIGINT, DATE, INT, cast, name
from anabranch.schema import TIME_TYPE

SECOND, MINUTE, HOUR, DAY = 1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000
_TRUNCATED = {
    "MICROSECOND": (1, 0),
    "MILLISECOND": (1_000, 0),
    "SECOND": (SECOND, 0),
    "MINUTE": (MINUTE, 0),
    "HOUR": (HOUR, 0),
    "DAY": (DAY, 0),
    "WEEK": (7 * DAY, 3 * DAY),
}
"""Length of each unit and how far before 1970 the nearest one began; weeks begin on Monday."""
_FOUR_CENTURIES = 146_097


def floor_divide(values: Datum, by: int) -> Datum:
    """Division of BIGINT by a positive constant, rounded down."""
    divisor = pa.scalar(by, BIGINT)
    quotient = pc.divide(values, divisor)
    over = pc.cast(pc.less(pc.remainder(values, divisor), pa.scalar(0, BIGINT)), BIGINT)
    return pc.subtract(quotient, over)


def floor_remainder(values: Datum, by: int) -> Datum:
    """What `floor_divide` leaves: never negative."""
    return pc.subtract(values, pc.multiply(floor_divide(values, by), pa.scalar(by, BIGINT)))


def to_micros(operand: Expr) -> Expr:
    """TIMESTAMP or DATE as microseconds since 1970."""
    if operand.type.equals(DATE):
        operand = cast(operand, TIME_TYPE)
    if not operand.type.equals(TIME_TYPE):
        raise NotEvaluable(f"{name(operand.type)} is not a time")
    return cast(operand, BIGINT)


def to_days(operand: Expr) -> Expr:
    """TIMESTAMP or DATE as days since 1970."""
    if operand.type.equals(DATE):
        return cast(cast(operand, INT), BIGINT)
    return apply(BIGINT, lambda a: floor_divide(a, DAY), to_micros(operand))


def _date_argument(node: exp.Expr, build: Build) -> Expr:
    inner = node.this if isinstance(node, exp.TsOrDsToDate) else node
    return to_days(build(inner))


def _near(days: Datum) -> Datum:
    return pc.cast(pc.cast(floor_remainder(days, _FOUR_CENTURIES), INT), DATE)


def _year(days: Datum) -> Datum:
    centuries = pc.multiply(floor_divide(days, _FOUR_CENTURIES), pa.scalar(400, BIGINT))
    return pc.cast(pc.add(pc.year(_near(days)), centuries), INT)


def _begins(unit: str) -> Callable[[Datum], Datum]:
    """The first day of the month, quarter or year of days."""

    def kernel(days: Datum) -> Datum:
        near = _near(days)
        passed = pc.subtract(pc.cast(near, INT), pc.cast(pc.floor_temporal(near, unit=unit), INT))
        return pc.subtract(days, pc.cast(passed, BIGINT))

    return kernel


BEGINS = {
    **dict.fromkeys(("MONTH", "MON", "MM"), _begins("month")),
    "QUARTER": _begins("quarter"),
    **dict.fromkeys(("YEAR", "YYYY", "YY"), _begins("year")),
}
"""Units of no fixed length, as Spark calls them, and the first day of theirs."""


def weekday(days: Datum) -> Datum:
    """The day of the week, from Monday, 0: 1970 began with a Thursday."""
    return floor_remainder(pc.add(days, pa.scalar(3, BIGINT)), 7)


def _sunday_first(days: Datum) -> Datum:
    return pc.add(floor_remainder(pc.add(days, pa.scalar(4, BIGINT)), 7), pa.scalar(1, BIGINT))


def _last_of_month(days: Datum) -> Datum:
    """The day before the first of the next month, which is at most 31 days after the first of this one."""
    next_month = _begins("month")(pc.add(_begins("month")(days), pa.scalar(31, BIGINT)))
    return pc.subtract(next_month, pa.scalar(1, BIGINT))


CALENDAR: dict[str, Callable[[Datum], Datum]] = {
    "YEAR": _year,
    "MONTH": lambda days: pc.cast(pc.month(_near(days)), INT),
    "DAY": lambda days: pc.cast(pc.day(_near(days)), INT),
    "QUARTER": lambda days: pc.cast(pc.quarter(_near(days)), INT),
    "WEEKOFYEAR": lambda days: pc.cast(pc.iso_week(_near(days)), INT),
    "DAYOFYEAR": lambda days: pc.cast(pc.day_of_year(_near(days)), INT),
    "DAYOFWEEK": lambda days: pc.cast(_sunday_first(days), INT),
    "WEEKDAY": lambda days: pc.cast(weekday(days), INT),
}
CLOCK = {"HOUR": (DAY, HOUR), "MINUTE": (HOUR, MINUTE), "SECOND": (MINUTE, SECOND)}


def calendar(field: str) -> Handler:
    """YEAR, MONTH, DAY and their like of a TIMESTAMP or DATE."""

    def handler(node: exp.Func, build: Build) -> Expr:
        if isinstance(node, exp.Anonymous) and len(node.expressions) != 1:
            raise NotEvaluable(f"{node.sql(dialect='spark')}: it is evaluated with one argument")
        argument = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
        return apply(INT, CALENDAR[field], _date_argument(argument, build))

    return handler


def to_date(node: exp.TsOrDsToDate, build: Build) -> Expr:
    """A TIMESTAMP or DATE as DATE."""
    return _date(to_days(build(node.this)))


def last_day(node: exp.LastDay, build: Build) -> Expr:
    return _date(apply(BIGINT, _last_of_month, _date_argument(node.this, build)))


def _date(days: Expr) -> Expr:
    return apply(DATE, lambda a: pc.cast(pc.cast(a, INT), DATE), days)


def clock(field: str) -> Handler:
    """HOUR, MINUTE and SECOND of a TIMESTAMP or DATE."""
    whole, part = CLOCK[field]

    def kernel(micros: Datum) -> Datum:
        return pc.cast(pc.divide(floor_remainder(micros, whole), pa.scalar(part, BIGINT)), INT)

    return lambda node, build: apply(INT, kernel, to_micros(build(node.this)))


def extract(node: exp.Extract, build: Build) -> Expr:
    """EXTRACT, but for seconds, which Spark gives with their fraction as DECIMAL."""
    field = node.this.name.upper()
    if field in ("YEAR", "MONTH", "DAY", "QUARTER"):
        return apply(INT, CALENDAR[field], to_days(build(node.expression)))
    if field not in CLOCK or field == "SECOND":
        raise NotEvaluable(f"EXTRACT({field}) is not evaluated here")
    return clock(field)(exp.Hour(this=node.expression), build)


def date_trunc(node: exp.TimestampTrunc, build: Build) -> Expr:
    unit = node.args["unit"].name.upper()
    if unit in BEGINS:
        return apply(
            TIME_TYPE,
            lambda days: pc.cast(pc.multiply(BEGINS[unit](days), pa.scalar(DAY, BIGINT)), TIME_TYPE),
            to_days(build(node.this)),
        )
    if unit not in _TRUNCATED:
        raise NotEvaluable(f"DATE_TRUNC to {unit} is not evaluated here")
    length, offset = _TRUNCATED[unit]

    def kernel(micros: Datum) -> Datum:
        since = pc.add(micros, pa.scalar(offset, BIGINT)) if offset else micros
        return pc.cast(pc.subtract(micros, floor_remainder(since, length)), TIME_TYPE)

    return apply(TIME_TYPE, kernel, to_micros(build(node.this)))


def since_epoch(unit: int) -> Handler:
    """UNIX_SECONDS, UNIX_MILLIS, UNIX_MICROS: rounded down."""

    def handler(node: exp.Func, build: Build) -> Expr:
        operand = build(node.this)
        if not operand.type.equals(TIME_TYPE):
            raise NotEvaluable(f"{name(operand.type)} as time since 1970 is not evaluated here")
        micros = to_micros(operand)
        return micros if unit == 1 else apply(BIGINT, lambda a: floor_divide(a, unit), micros)

    return handler


def unix_timestamp(node: exp.StrToUnix, build: Build) -> Expr:
    """Seconds since 1970 of a TIMESTAMP or DATE; unlike UNIX_SECONDS it is cut towards zero."""
    second = pa.scalar(SECOND, BIGINT)
    return apply(BIGINT, lambda a: pc.divide(a, second), to_micros(build(node.this)))

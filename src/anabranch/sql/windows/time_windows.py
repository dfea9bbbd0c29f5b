"""Windows said in GROUP BY: `getminute(ts)` of the CQ paper, `date_trunc('minute', ts)`, `window(ts, '1 minute')`.

Over the stream's time column each of them cuts the stream into windows that touch and do not
overlap (or slide, for `window`, or end with a pause, for `session_window`), so the group is complete once time has
passed it.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions.formats import told_apart
from anabranch.expressions.functions import SCALARS
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.intervals import UNITS, interval_us
from anabranch.sql.standing.columns import Scope
from anabranch.sql.tree import Window

_DATES = ("date", "to_date")
_TRUNCATED = ("SECOND", "MINUTE", "HOUR", "DAY")
_UNEVEN = {"months": ("MONTH", "MON", "MM"), "quarters": ("QUARTER",), "years": ("YEAR", "YYYY", "YY")}
"""What Spark's date_trunc calls the units that have no fixed length."""


def window_of(scope: Scope, key: exp.Expr) -> Window | None:
    """The window a GROUP BY key stands for, or None for an ordinary key."""
    if scope.is_join or not scope.has_windows:
        return None  # The period of EMIT EVERY is the window there, if there is one.
    name = called(key)
    unit = SCALARS[name].truncates_to if name in SCALARS else None
    if unit is not None:
        if len(key.expressions) != 1 or not _is_time(scope, key.expressions[0]):
            raise scope.select.error(
                "WINDOW_NOT_OVER_TIME",
                f"{name}() takes the stream's time column, {scope.schema.time}",
                key,
            )
        size = UNITS[unit]
        return Window("time", size, size)
    if name == "date_trunc" and len(key.expressions) == 2 and _is_time(scope, key.expressions[1]):
        unit = key.expressions[0].name.upper() if key.expressions[0].is_string else ""
        if scope.select.window is None:
            _refuse_uneven(scope, key, unit)
        return Window("time", UNITS[unit], UNITS[unit]) if unit in _TRUNCATED else None
    if name == "window":
        return _window_function(scope, key)
    if name == "session_window":
        return _session_function(scope, key)
    return None


def length_of_key(scope: Scope, key: exp.Expr) -> int | None:
    """The length of windows no two of which have the same key of the time, if it is such a key.

    `to_date(ts)` and `date_format(ts, 'yyyy-MM-dd HH')` do: once time has passed such a window, its group is complete.
    `hour(ts)` comes back every day, so it does not.
    """
    if scope.is_join or not scope.has_windows:
        return None
    if isinstance(key, exp.Cast):
        return UNITS["DAY"] if key.to.this == exp.DataType.Type.DATE and _is_time(scope, key.this) else None
    name, arguments = called(key), key.expressions
    if name in _DATES and len(arguments) == 1:
        return UNITS["DAY"] if _is_time(scope, arguments[0]) else None
    if name == "date_format" and len(arguments) == 2 and _is_time(scope, arguments[0]) and arguments[1].is_string:
        return told_apart(arguments[1].name)
    return None


def _refuse_uneven(scope: Scope, key: exp.Expr, unit: str) -> None:
    """Windows have one length, and begin at multiples of it counted from 1970-01-01, a Thursday."""
    months = next((name for name, words in _UNEVEN.items() if unit in words), None)
    if months is not None:
        raise scope.select.error(
            "INTERVAL_NOT_FIXED",
            f"{months} differ in length, so they cannot be windows",
            key,
            hint="group by date_trunc('day', ts), and add the days up when you ask once",
        )
    if unit == "WEEK":
        raise scope.select.error(
            "NOT_IN_THE_LANGUAGE",
            "weeks begin on Monday, and windows of 7 days on Thursday",
            key,
            hint="group by date_trunc('day', ts), or write WINDOW = INTERVAL 7 DAYS",
        )


def _is_time(scope: Scope, node: exp.Expr) -> bool:
    return isinstance(node, exp.Column) and scope.name_of(node) == scope.schema.time


def _window_function(scope: Scope, key: exp.Expr) -> Window:
    arguments = key.expressions
    if not arguments or not _is_time(scope, arguments[0]):
        raise scope.select.error(
            "WINDOW_NOT_OVER_TIME", f"window() takes the stream's time column, {scope.schema.time}", key
        )
    if len(arguments) not in (2, 3) or not all(argument.is_string for argument in arguments[1:]):
        raise scope.select.error(
            "SYNTAX_ERROR",
            "window() takes a size and perhaps a slide, as text",
            key,
            hint="write window(ts, '1 minute')",
        )
    try:
        size = interval_us(arguments[1].name)
        slide = interval_us(arguments[2].name) if len(arguments) == 3 else size
    except SqlError as problem:
        raise scope.select.error(problem.name, problem.message, arguments[-1], hint=problem.hint) from None
    return Window("time", size, slide)


def _session_function(scope: Scope, key: exp.Expr) -> Window:
    arguments = key.expressions
    if not arguments or not _is_time(scope, arguments[0]):
        raise scope.select.error(
            "WINDOW_NOT_OVER_TIME", f"session_window() takes the stream's time column, {scope.schema.time}", key
        )
    if len(arguments) != 2 or not arguments[1].is_string:
        raise scope.select.error(
            "SYNTAX_ERROR",
            "session_window() takes the pause that ends a session, as text",
            key,
            hint="write session_window(ts, '10 minutes')",
        )
    gap = _length(scope, arguments[1])
    return Window("time", gap, gap, kind="session")


def _length(scope: Scope, written: exp.Expr) -> int:
    try:
        return interval_us(written.name)
    except SqlError as problem:
        raise scope.select.error(problem.name, problem.message, written, hint=problem.hint) from None

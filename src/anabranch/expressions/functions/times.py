"""Times and dates, in UTC."""

from __future__ import annotations

from sqlglot import exp

from anabranch.expressions import formats, times
from anabranch.expressions.functions.conversions import CAST
from anabranch.expressions.functions.declaring import Example, InSpark, Rule, ScalarFunction, left_to_spark

GROUP = "times"
_TS = "TIMESTAMP '2026-11-16 16:05:09'"
_BINARY = ("this", "expression")
_UNIX = Rule(times.unix_timestamp, "TIMESTAMP or DATE: BIGINT", ("this", "format"))


def _part(name: str, doc: str, nodes: tuple[type[exp.Expr], ...], gives: int, *aliases: str) -> ScalarFunction:
    field = name.upper()
    handler = times.calendar(field) if field in times.CALENDAR else times.clock(field)
    return ScalarFunction(
        name,
        doc,
        aliases,
        GROUP,
        {node: Rule(handler, "TIMESTAMP or DATE: INT") for node in nodes},
        takes_times=True,
        example=Example(f"{name}({_TS})", gives),
    )


def _truncated(unit: str) -> ScalarFunction:
    """A function of the CQ paper that Spark does not have."""
    name = f"get{unit.lower()}"
    return ScalarFunction(
        name,
        f"The time cut to its {unit.lower()}; in `GROUP BY` it says windows of one.",
        group=GROUP,
        takes_times=True,
        truncates_to=unit,
        in_spark={name: InSpark("date_trunc", before=(unit,), arguments=1)},
    )


TIMES = (
    _part("year", "The year.", (exp.Year,), 2026),
    _part("month", "The month, from 1 to 12.", (exp.Month,), 11),
    _part("day", "The day of the month.", (exp.Day, exp.DayOfMonth), 16, "dayofmonth"),
    _part("hour", "The hour of the day.", (exp.Hour,), 16),
    _part("minute", "The minute of the hour.", (exp.Minute,), 5),
    _part("second", "The second of the minute.", (exp.Second,), 9),
    _part("quarter", "The quarter, from 1 to 4.", (exp.Quarter,), 4),
    _part("dayofyear", "The day of the year.", (exp.DayOfYear,), 320),
    _part("dayofweek", "The day of the week, from Sunday, 1, to Saturday, 7.", (exp.DayOfWeek,), 2),
    _part("weekday", "The day of the week, from Monday, 0, to Sunday, 6.", (exp.Anonymous,), 0),
    _part("weekofyear", "The week of the year.", (exp.WeekOfYear,), 47),
    ScalarFunction(
        "last_day",
        "The last day of the month.",
        group=GROUP,
        rules={exp.LastDay: Rule(times.last_day, "TIMESTAMP or DATE: DATE")},
        takes_times=True,
        example=Example(f"last_day({_TS})", "2026-11-30"),
    ),
    ScalarFunction(
        "date_format",
        "A time written in a format, as `yyyy-MM-dd HH:mm:ss.SSS`.",
        group=GROUP,
        rules={exp.Anonymous: Rule(formats.date_format, "TIMESTAMP or DATE, a literal: STRING")},
        takes_times=True,
        example=Example(f"date_format({_TS}, 'yyyy-MM-dd')", "2026-11-16"),
    ),
    ScalarFunction(
        "to_date",
        "A time, or a text, perhaps in a format, as DATE.",
        group=GROUP,
        rules={exp.TsOrDsToDate: Rule(times.to_date, "TIMESTAMP or DATE: DATE", ("this", "safe"))},
        takes_times=True,
        example=Example(f"to_date({_TS})", "2026-11-16"),
    ),
    ScalarFunction(
        "extract",
        "A part of a time: `EXTRACT(HOUR FROM x)`.",
        group=GROUP,
        rules={exp.Extract: Rule(times.extract, "field, TIMESTAMP or DATE: INT", _BINARY)},
        takes_times=True,
        example=Example(f"EXTRACT(HOUR FROM {_TS})", 16),
    ),
    ScalarFunction(
        "date_trunc",
        "The time cut to a unit.",
        group=GROUP,
        rules={exp.TimestampTrunc: Rule(times.date_trunc, "unit, TIMESTAMP or DATE: TIMESTAMP", ("this", "unit"))},
        takes_times=True,
        example=Example(f"date_trunc('hour', {_TS})", "2026-11-16 16:00:00"),
    ),
    ScalarFunction(
        "unix_micros",
        "Microseconds since 1970.",
        group=GROUP,
        rules={exp.UnixMicros: Rule(times.since_epoch(1), "TIMESTAMP: BIGINT")},
        example=Example("unix_micros(TIMESTAMP '1970-01-01 00:00:01')", 1_000_000),
    ),
    ScalarFunction(
        "unix_millis",
        "Milliseconds since 1970.",
        group=GROUP,
        rules={exp.UnixMillis: Rule(times.since_epoch(1_000), "TIMESTAMP: BIGINT")},
        example=Example("unix_millis(TIMESTAMP '1970-01-01 00:00:01')", 1_000),
    ),
    ScalarFunction(
        "unix_seconds",
        "Seconds since 1970.",
        group=GROUP,
        rules={exp.UnixSeconds: Rule(times.since_epoch(times.SECOND), "TIMESTAMP: BIGINT")},
        example=Example("unix_seconds(TIMESTAMP '1970-01-01 00:01:00')", 60),
    ),
    ScalarFunction(
        "unix_timestamp",
        "Seconds since 1970, of a time or of a text in a format; without an argument those of now.",
        group=GROUP,
        rules={exp.StrToUnix: _UNIX},
        varies="without arguments",
        example=Example("unix_timestamp(TIMESTAMP '1970-01-01 00:01:00')", 60),
    ),
    ScalarFunction(
        "to_unix_timestamp",
        "Seconds since 1970, of a time or of a text in a format.",
        group=GROUP,
        rules={exp.StrToUnix: _UNIX},
        example=Example("to_unix_timestamp(TIMESTAMP '1970-01-01 00:01:00')", 60),
    ),
    ScalarFunction(
        "date",
        "The value as DATE.",
        group=GROUP,
        rules={exp.Cast: CAST},
        takes_times=True,
        example=Example(f"date({_TS})", "2026-11-16"),
    ),
    ScalarFunction(
        "timestamp",
        "The value as TIMESTAMP.",
        group=GROUP,
        rules={exp.Cast: CAST},
        takes_times=True,
        example=Example("timestamp(DATE '2026-11-16')", "2026-11-16 00:00:00"),
    ),
    ScalarFunction(
        "to_timestamp",
        "A text, perhaps in a format, as TIMESTAMP.",
        group=GROUP,
        rules={exp.Cast: CAST},
        example=Example("to_timestamp(DATE '2026-11-16')", "2026-11-16 00:00:00"),
    ),
    *(_truncated(unit) for unit in ("SECOND", "MINUTE", "HOUR", "DAY")),
    *left_to_spark(
        GROUP,
        """
add_months: The date so many months later.
convert_timezone: A time of one time zone as that of another.
date_add, dateadd: The date so many days later.
date_diff, datediff: How many days lie between two dates.
date_part, datepart: A part of a time, by its name.
date_sub: The date so many days before.
dayname: The name of the day of the week, shortened.
from_utc_timestamp: A time in UTC as that of a time zone.
monthname: The name of the month, shortened.
months_between: How many months lie between two times.
next_day: The first day of that name after a date.
timestampadd: The time so many units later.
timestampdiff: How many whole units lie between two times.
to_utc_timestamp: A time of a time zone in UTC.
trunc: The date cut to a unit.
unix_date: Days since 1970.
""",
        takes_times=True,
    ),
    *left_to_spark(
        GROUP,
        """
curdate, current_date: The date of today.
current_time: The time of day now.
current_timestamp, now: The time now.
localtime: The time of day now, without a time zone.
localtimestamp: The time now, without a time zone.
""",
        varies="always",
    ),
    *left_to_spark(
        GROUP,
        """
date_from_unix_date: The date so many days after 1970.
from_unixtime: The time so many seconds after 1970, as text.
make_date: The date of a year, month and day.
make_dt_interval: An interval of days to seconds.
make_interval: An interval of its parts.
make_time: The time of day of its parts.
make_timestamp: The time of its parts.
make_timestamp_ltz: The time of its parts, in the time zone of the session.
make_timestamp_ntz: The time of its parts, without a time zone.
make_ym_interval: An interval of years and months.
time: The value as a time of day.
time_bucket: The beginning of the interval of that length in which a time lies.
time_diff: How many whole units lie between two times of day.
time_from_micros: The time of day so many microseconds after midnight.
time_from_millis: The time of day so many milliseconds after midnight.
time_from_seconds: The time of day so many seconds after midnight.
time_to_micros: Microseconds since midnight.
time_to_millis: Milliseconds since midnight.
time_to_seconds: Seconds since midnight.
time_trunc: The time of day cut to a unit.
timestamp_micros: The time so many microseconds after 1970.
timestamp_millis: The time so many milliseconds after 1970.
timestamp_nanos: The time so many nanoseconds after 1970.
timestamp_seconds: The time so many seconds after 1970.
to_time: A text, perhaps in a format, as a time of day.
to_timestamp_ltz: A text, perhaps in a format, as TIMESTAMP in the time zone of the session.
to_timestamp_ntz: A text, perhaps in a format, as a time without a time zone.
try_make_interval: As `make_interval`, or NULL where there is none.
try_make_timestamp: As `make_timestamp`, or NULL where there is none.
try_make_timestamp_ltz: As `make_timestamp_ltz`, or NULL where there is none.
try_make_timestamp_ntz: As `make_timestamp_ntz`, or NULL where there is none.
try_to_date: As `to_date`, or NULL where it is none.
try_to_time: As `to_time`, or NULL where it is none.
try_to_timestamp: As `to_timestamp`, or NULL where it is none.
unix_nanos: Nanoseconds since 1970.
""",
    ),
)

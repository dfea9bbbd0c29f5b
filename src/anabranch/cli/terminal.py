"""What the terminal can do, and numbers and times short enough for it."""

from __future__ import annotations

import datetime
import os
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console


def is_terminal(stream: TextIO | None = None) -> bool:
    """True if a person looks at it; a "dumb" terminal is treated like a pipe."""
    stream = sys.stdout if stream is None else stream
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_color(stream: TextIO | None = None) -> bool:
    """Colour only where someone looks who did not ask for none (NO_COLOR)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def console(stream: TextIO | None = None) -> Console:
    """A console that draws only where someone looks."""
    from rich.console import Console

    stream = sys.stdout if stream is None else stream
    return Console(file=stream, force_terminal=is_terminal(stream), no_color=not has_color(stream), highlight=False)


def count(number: float) -> str:
    """A number in at most six characters.

    >>> [count(n) for n in (7, 9999, 12345, 3_456_789, 2.5e9)]
    ['7', '9,999', '12.3k', '3.46M', '2.50G']
    """
    if abs(number) < 10_000:
        return f"{number:,.0f}"
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            scaled = number / size
            return (
                f"{scaled:.2f}{unit}"
                if scaled < 10
                else f"{scaled:.1f}{unit}"
                if scaled < 100
                else f"{scaled:.0f}{unit}"
            )
    raise AssertionError("not reached: every number is below 10,000 or above 1e3")


def size(number: float) -> str:
    """A number of bytes.

    >>> size(512), size(2_500_000)
    ('512 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if unit == "B" or number >= 100 else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"


def seconds(number: float) -> str:
    """A duration.

    >>> seconds(0.0123), seconds(2.5), seconds(3725)
    ('12 ms', '2.5 s', '1:02:05')
    """
    if number < 1:
        return f"{number * 1000:.0f} ms"
    if number < 60:
        return f"{number:.1f} s"
    minutes, rest = divmod(int(number), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02} min"


def clock_time(time_us: int | None) -> str:
    """A time of day (UTC) of a stream's time; a dash before the first row."""
    if time_us is None or time_us < 0:
        return "-"
    moment = datetime.datetime.fromtimestamp(time_us / 1e6, datetime.UTC)
    return moment.strftime("%H:%M:%S.") + f"{moment.microsecond // 100_000}"


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "row"), plural(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"

"""Texts that Spark reads as times: which exist, and which depend on the clock.

`'now'`, `'today'`, `'tomorrow'` and `'yesterday'` are times to Spark where they stand in a query, and a time of day
without a date (`'10:00:00'`, also as a value of a column) is one of today. A standing query answers the same whenever
it runs: it refuses the first, and takes a time of day without a date for NULL.
"""

from __future__ import annotations

import calendar
import re
import zoneinfo
from functools import cache

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.expressions.functions import SCALARS
from anabranch.sql.tree import Select

TIME_OF_DAY = r"^[\x00-\x20\x7f]*(T|[0-9]*:)"
"""How a text begins that has no date; the same to Python and to Java."""

_Type = exp.DataType.Type
_TIMES = (_Type.TIMESTAMPTZ, _Type.TIMESTAMP, _Type.TIMESTAMPLTZ, _Type.DATETIME)
_TYPES = (*_TIMES, _Type.TIMESTAMPNTZ, _Type.DATE)
_TIME_TYPES = (_Type.TIME, _Type.TIMETZ)

_READERS = ("to_timestamp", "to_timestamp_ltz", "try_to_timestamp", "to_timestamp_ntz", "to_date", "try_to_date")
"""Functions that read a text as a time; with a format they need no clock."""
_READ_TODAY = ("timestamp", "to_timestamp", "to_timestamp_ltz", "try_to_timestamp")
"""Functions that take a time of day for one of today, also in a column."""
_READS_VALUES = ("from_json", "from_csv", "variant_get", "try_variant_get")

_WORDS = re.compile(r"(epoch|now|today|tomorrow|yesterday)\b(?P<zone>.*)", re.IGNORECASE | re.DOTALL)
_DATE = re.compile(r"[+-]?(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?P<rest>[ T].*)?)?)?", re.DOTALL | re.ASCII)
_CLOCK = re.compile(r"[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.\d*)?)?(?P<zone>.*))?", re.DOTALL | re.ASCII)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?[+-](\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?", re.ASCII)
_JAVA_ZONES = """
Z ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT PNT PRT PST SST VST
"""
_SHORT_ZONES = frozenset(_JAVA_ZONES.split())
_BLANKS = "".join(map(chr, [*range(0x21), 0x7F]))


def check_time_texts(select: Select, node: exp.Expr, *, standing: bool) -> None:
    """Refuses a literal that is no time, and in a standing query one that the clock decides."""
    if isinstance(node, exp.Cast):
        _check_type(select, node)
        if type(node) is exp.Cast and not _exists(node):
            raise _no_such_time(select, node)
    if standing:
        text = _of_the_clock(node)
        if text is not None:
            raise select.error(
                "FUNCTION_NOT_REPEATABLE",
                f"'{text}' is another time each time it is read, so a standing query could not be repeated after a "
                "failure",
                node,
                hint="use a column of the stream, such as its time, or write date and time",
            )
        if _name(node) in _READS_VALUES and any(re.search(r"timestamp(?!_ntz)", t, re.I) for t in _texts(node)):
            raise select.error(
                "FUNCTION_NOT_REPEATABLE",
                f"{_name(node)}() takes a time of day without a date for one of today, so a standing query could not "
                "be repeated after a failure",
                node,
                hint="read it as STRING, and write CAST(… AS TIMESTAMP)",
            )


def is_of_the_clock(text: str, *, today: bool) -> bool:
    """Whether a text that stands in a query is a time by the clock; `today` where one of day is of today."""
    word = _WORDS.fullmatch(text.strip(_BLANKS))
    return word[1].lower() != "epoch" if word else today and re.match(TIME_OF_DAY, text) is not None


def without_the_clock(tree: exp.Expr) -> exp.Expr:
    """The tree with NULL for a time of day without a date wherever a text becomes a TIMESTAMP."""

    def guarded(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Cast) and node.to.this in _TIMES and not isinstance(node.this, exp.Literal):
            node.set("this", _guard(node.this))
        elif _reads_clock(node) and not isinstance(node.expressions[0], exp.Literal):
            node.set("expressions", [_guard(node.expressions[0])])
        return node

    return tree.transform(guarded)


def _guard(value: exp.Expr) -> exp.Expr:
    has_no_date = exp.Anonymous(this="rlike", expressions=[value.copy(), exp.Literal.string(TIME_OF_DAY)])
    return exp.Anonymous(this="if", expressions=[has_no_date, exp.Null(), value.copy()])


def _reads_clock(node: exp.Expr) -> bool:
    name = _name(node)
    return len(node.expressions) == 1 and (
        name == "timestamp" or (name in _READERS and name[-4:] not in ("date", "_ntz"))
    )


def _check_type(select: Select, node: exp.Cast) -> None:
    typed = type(node) is exp.Cast
    if node.to.this in _TIME_TYPES:
        raise select.error(
            "TYPE_NOT_SUPPORTED",
            "there is no type TIME here",
            node,
            hint="write TIMESTAMP '…' with a date, or compare hour(…), minute(…) and second(…)",
        )
    if typed and not (isinstance(node.this, exp.Literal) and node.this.is_string):
        raise select.error("SYNTAX_ERROR", "a literal such as DATE '2026-11-16' needs parentheses before ::", node)
    if typed and node.to.this not in (_Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ, _Type.TIMESTAMPNTZ, _Type.DATE):
        type_ = node.to.sql(dialect="spark")
        raise select.error(
            "SYNTAX_ERROR",
            f"there are no literals of type {type_}",
            node,
            hint=f"write CAST('{node.this.name}' AS {type_})",
        )


def _no_such_time(select: Select, node: exp.Cast) -> SqlError:
    type_ = "DATE" if node.to.this == _Type.DATE else "TIMESTAMP"
    example = "2026-11-16" if type_ == "DATE" else "2026-11-16 16:00:00"
    return select.error(
        "LITERAL_INVALID",
        f"{type_} '{node.this.name}' is no {'date' if type_ == 'DATE' else 'time'} that exists",
        node,
        hint=f"write for example {type_} '{example}'",
    )


def _exists(node: exp.Cast) -> bool:
    """Whether Spark takes the text of a literal."""
    kind, text = node.to.this, node.this.name.strip(_BLANKS)
    word = _WORDS.fullmatch(text)
    if word and (word[1].lower() != "now" or not word["zone"]) and _is_zone(word["zone"]):
        return True
    if kind in _TIMES and re.match(TIME_OF_DAY, text):
        text = f"1970-01-01T{text.removeprefix('T')}"
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    if not (1 <= month <= 12 and 1 <= day <= calendar.monthrange(2000 + year % 400, month)[1]):
        return False
    return kind == _Type.DATE or not match["rest"] or _is_clock(match["rest"])


def _is_clock(text: str) -> bool:
    match = _CLOCK.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2] or 0) > 59 or int(match[3] or 0) > 59:
        return False
    return _is_zone(match["zone"] or "")


def _is_zone(text: str) -> bool:
    zone = text.strip(_BLANKS)
    offset = _OFFSET.fullmatch(zone)
    if offset:
        return int(offset[1]) * 60 + int(offset[2] or 0) <= 18 * 60 and int(offset[2] or 0) < 60
    return not zone or zone in _SHORT_ZONES or zone in _zones()


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _of_the_clock(node: exp.Expr) -> str | None:
    """The text in a node that is read as a time by the clock."""
    name = _name(node)
    if isinstance(node, exp.Cast) and node.to.this in _TYPES:
        texts, times = _texts(node), node.to.this in _TIMES
    elif _takes_times(name) or (name in _READERS and len(node.expressions) == 1):
        texts, times = _texts(node), name not in ("date", "to_date", "try_to_date", "to_timestamp_ntz")
    else:
        return None
    return next((text for text in texts if is_of_the_clock(text, today=times)), None)


def _takes_times(name: str) -> bool:
    return name in SCALARS and SCALARS[name].takes_times


def _texts(node: exp.Expr) -> list[str]:
    """The texts that stand directly in a node."""
    inside = (
        operand.unnest()
        for operand in (node.this, node.args.get("expression"), *node.expressions)
        if isinstance(operand, exp.Expr)
    )
    return [value.name for value in inside if isinstance(value, exp.Literal) and value.is_string]


def _name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.this.lower() if isinstance(node.this, str) else ""
    return "extract" if isinstance(node, exp.Extract) else ""

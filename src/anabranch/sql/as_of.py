"""`FOR VERSION AS OF n` and `FOR SYSTEM_TIME AS OF …`: a table, view or Store that is read as it was."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlglot import exp

from anabranch.sql.reading.cursor import Cursor
from anabranch.sql.reading.points_in_time import CLOCKS, shown, take_moment
from anabranch.sql.reading.tokens import statements_of
from anabranch.sql.tree import Select

_HINT = "write FOR VERSION AS OF 3, or FOR SYSTEM_TIME AS OF TIMESTAMP '2026-11-16 16:00:00'"


class AsOf(NamedTuple):
    """One of them; the time is in microseconds since 1970."""

    version: int | None = None
    time: int | None = None

    def explain(self) -> dict[str, Any]:
        return {"as_of": f"version {self.version}" if self.time is None else shown(self.time)}


def is_of_each_row(table: exp.Table) -> bool:
    """Whether a table is read as it was at the time of each row that it meets."""
    version = table.args.get("version")
    return version is not None and version.expression.find(exp.Column) is not None


def reads_as_it_was(select: Select) -> bool:
    """Whether a SELECT reads something at a version, which only one that is asked once can."""
    tables = select.tree.find_all(exp.Table)
    return any(table.args.get("version") is not None and not is_of_each_row(table) for table in tables)


def as_of(select: Select, table: exp.Table) -> AsOf | None:
    """At which version a table is read; None: as it is now."""
    version = table.args.get("version")
    if version is None:
        return None
    said = version.expression
    if version.args.get("kind") == "AS OF" and isinstance(said, exp.Expr):
        if version.name.upper() == "VERSION":
            if isinstance(said, exp.Literal) and said.name.isdecimal():
                return AsOf(version=min(int(said.name), 1 << 62))
        elif (written := _written(said)) is not None:
            (tokens,) = statements_of(written)
            return AsOf(time=take_moment(Cursor(tokens, written)))
    raise select.error(
        "NOT_IN_THE_LANGUAGE",
        "a version is a number, and a time is one point in time",
        said if isinstance(said, exp.Expr) else table,
        hint=_HINT,
    )


def _written(time: exp.Expr) -> str | None:
    """A point in time as it is read elsewhere; None for what is none."""
    if isinstance(time, exp.Literal) and time.is_string:
        return f"TIMESTAMP {time.sql('spark')}"
    if isinstance(time, exp.Cast) and isinstance(time.this, exp.Literal) and time.this.is_string:
        kind = "DATE" if time.to.this == exp.DType.DATE else "TIMESTAMP"
        return f"{kind} {time.this.sql('spark')}"
    if isinstance(time, exp.CurrentTimestamp) or (isinstance(time, exp.Anonymous) and time.name.upper() in CLOCKS):
        return "current_timestamp()"
    if isinstance(time, exp.Add | exp.Sub) and isinstance(time.expression, exp.Interval):
        begin = _written(time.this)
        sign = "+" if isinstance(time, exp.Add) else "-"
        return None if begin is None else f"{begin} {sign} {time.expression.sql('spark')}"
    return None

"""Rows on the way out: a table where a person looks, aligned text in a pipe, JSON for programs."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable
from typing import Any, Literal, TextIO

import pyarrow as pa

from anabranch.cli.terminal import console, is_terminal, plural

Mode = Literal["table", "plain", "json"]
MAX_ROWS_ON_TERMINAL = 200
MAX_CELL = 80


def mode_of(as_json: bool, out: TextIO | None = None) -> Mode:
    """JSON if asked for, else what fits who reads."""
    if as_json:
        return "json"
    return "table" if is_terminal(out) else "plain"


class RowPrinter:
    """Prints tables of one shape as they come; the header only once."""

    def __init__(self, mode: Mode, out: TextIO | None = None) -> None:
        self.mode = mode
        self._out = sys.stdout if out is None else out
        self._widths: list[int] = []

    def print(self, table: pa.Table) -> None:
        """A whole result: on a terminal a table, cut when it is long."""
        if self.mode == "json":
            self._print_json(table)
        elif self.mode == "plain":
            self.print_more(table)
        else:
            self._print_table(table)

    def print_more(self, table: pa.Table) -> None:
        """Part of something that goes on: aligned text under one header (or JSON)."""
        if self.mode == "json":
            self._print_json(table)
            return
        right = [_is_number(field.type) for field in table.schema]
        cells = [[_one_line(cell(value)) for value in row] for row in _rows(table)]
        first = not self._widths
        names = table.column_names
        before = self._widths or [len(name) for name in names]
        self._widths = [max([width, *(len(row[i]) for row in cells)]) for i, width in enumerate(before)]
        lines = ([names] if first else []) + cells
        for line in lines:
            padded = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(line, self._widths, right, strict=True))
            self._out.write("  ".join(padded).rstrip() + "\n")
        self._out.flush()

    def _print_json(self, table: pa.Table) -> None:
        for batch in table.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                self._out.write(json.dumps(jsonable(row), ensure_ascii=False) + "\n")
        self._out.flush()

    def _print_table(self, table: pa.Table) -> None:
        from rich import box
        from rich.table import Table
        from rich.text import Text

        drawn = Table(box=box.ROUNDED, header_style="bold", border_style="dim")
        for field in table.schema:
            drawn.add_column(
                Text(field.name),
                justify="right" if _is_number(field.type) else "left",
                overflow="ellipsis",
                no_wrap=True,
            )
        for row in _rows(table.slice(0, MAX_ROWS_ON_TERMINAL)):
            drawn.add_row(*(Text(_one_line(cell(v)), style="dim" if v is None else "") for v in row))
        screen = console(self._out)
        screen.print(drawn)
        if (hidden := table.num_rows - MAX_ROWS_ON_TERMINAL) > 0:
            screen.print(f"… {plural(hidden, 'more row')}: use LIMIT, or --json for all", style="dim")


def cell(value: Any) -> str:
    """A value as text, the way SQL shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return _time_text(value, " ")
    if isinstance(value, float):
        return str(value) if not math.isfinite(value) else f"{value:.6g}" if abs(value) < 1e6 else f"{value:.2f}"
    if isinstance(value, bytes):
        return "0x" + value[:MAX_CELL].hex()
    if isinstance(value, list):
        return f"[{', '.join(map(_part, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_part(part)}" for name, part in value.items()) + "}"
    return str(value)


def _part(value: Any) -> str:
    """A value inside another: text stands in quotes, so that it ends where it ends."""
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else cell(value)


def jsonable(value: Any) -> Any:
    """A value as JSON holds it: time as ISO text, bytes as base64, what is not a number as text."""
    if isinstance(value, dict):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [jsonable(item) for item in value]
    if isinstance(value, datetime.datetime):
        return _time_text(value, "T") + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _time_text(value: datetime.datetime, separator: str) -> str:
    return value.replace(tzinfo=None).isoformat(separator, "auto" if value.microsecond else "seconds")


def _rows(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=10_000):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))


def _one_line(text: str) -> str:
    """Text that cannot break a line or drive the terminal, and is not endless."""
    shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: MAX_CELL + 1])
    return shown if len(shown) <= MAX_CELL else shown[: MAX_CELL - 1] + "…"

"""Errors as people see them: name, place, message, the line of SQL underlined, detail, hint.

A stack, Python's or Java's, is for `--verbose` alone.
"""

from __future__ import annotations

import json
import re
import sys
import traceback
from typing import TextIO

from anabranch.cli.terminal import has_color
from anabranch.errors import AnabranchError

_RED, _BOLD, _DIM, _GREEN, _RESET = "\033[31m", "\033[1m", "\033[2m", "\033[32m", "\033[0m"
_WORD = re.compile(r"\w+|`[^`]*`|\"[^\"]*\"|'[^']*'|[^\w\s]+")
_WIDEST = 160


class StatementError(Exception):
    """An error together with the text it speaks of, on its way out of a file or shell."""

    def __init__(self, error: AnabranchError, sql: str, first_line: int = 1, first_column: int = 1) -> None:
        super().__init__(str(error))
        self.error, self.sql, self.first_line, self.first_column = error, sql, first_line, first_column


def report(error: BaseException, *, verbose: bool = False, as_json: bool = False, to: TextIO | None = None) -> None:
    """Print an error on standard error."""
    out = sys.stderr if to is None else to
    if as_json:
        print(json.dumps({"error": as_known(error)[0].as_dict()}, ensure_ascii=False), file=out)
    else:
        print(render(error, color=has_color(out)), file=out)
    if verbose:
        print("".join(traceback.format_exception(error)).rstrip(), file=out)
    out.flush()


def render(error: BaseException, *, color: bool = False) -> str:
    """An error as lines of text."""
    known, sql, first_line, first_column = as_known(error)
    paint = _paint if color else _plain
    lines = []
    place, excerpt = "", ""
    if known.line is not None and known.column is not None:
        line = known.line + first_line - 1
        column = known.column + (first_column - 1 if known.line == 1 else 0)
        place = f" (line {line}, column {column})"
        excerpt = _underlined(sql, known.line, known.column, line, paint)
    lines.append(f"{paint(known.name, _BOLD + _RED)}{place}: {known.message}")
    if excerpt:
        lines.append(excerpt)
    if known.detail:
        lines.append(f"{paint('Detail:', _BOLD)} {known.detail}")
    if known.hint:
        lines.append(f"{paint('Hint:', _BOLD + _GREEN)} {known.hint}")
    return "\n".join(lines)


def as_known(error: BaseException) -> tuple[AnabranchError, str, int, int]:
    """Any error as one of ours, with the SQL it is about and where that text begins in its file."""
    if isinstance(error, StatementError):
        return error.error, error.sql, error.first_line, error.first_column
    if isinstance(error, AnabranchError):
        return error, "", 1, 1
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    unexpected = AnabranchError(
        "INTERNAL_ERROR",
        f"{type(error).__name__}: {first[:300]}".rstrip(": "),
        hint="run it with --verbose to see where",
    )
    return unexpected, "", 1, 1


def _underlined(sql: str, line: int, column: int, shown_line: int, paint: _Paint) -> str:
    lines = sql.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].replace("\t", " ")
    start = min(max(column - 1, 0), len(text))
    word = _WORD.match(text, start)
    length = max(1, len(word[0]) if word else 1)
    cut = max(0, start + length - _WIDEST)
    text, start = text[cut : cut + _WIDEST], start - cut
    margin = f"{shown_line:>4}"
    bar = paint("|", _DIM)
    return f"{margin} {bar} {text}\n{'':>4} {bar} {' ' * start}{paint('^' * length, _RED)}"


class _Paint:
    """A function that colours text; a class only to have a name for its type."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, codes: str) -> str:
        return f"{codes}{text}{_RESET}" if self._on else text


_paint, _plain = _Paint(True), _Paint(False)

"""Where one statement ends and the next begins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*(?:'|\Z) | "(?:[^"\\]|\\.|"")*(?:"|\Z) | `[^`]*(?:`|\Z)   # quoted, closed or not yet
    | --[^\n]*                                                                   # comment to the end of the line
    | /\*.*?(?:\*/|\Z)                                                           # comment
    | ;
    """,
    re.VERBOSE | re.DOTALL,
)
_SPACE_OR_COMMENT = re.compile(r"(?:\s|--[^\n]*|/\*.*?\*/)*", re.DOTALL)


@dataclass(frozen=True)
class StatementText:
    """The text of a statement and where it begins in what it was cut from."""

    text: str
    line: int = 1
    column: int = 1
    ended: bool = True


def split(text: str) -> list[StatementText]:
    r"""The statements of a text, without their semicolons; empty ones are left out.

    >>> [s.text for s in split("SELECT ';' -- not; here\n; SHOW STREAMS")]
    ["SELECT ';' -- not; here", 'SHOW STREAMS']
    """
    return list(_cut(text))


def is_complete(text: str) -> bool:
    """True if nothing but space follows the last semicolon outside quotes and comments."""
    statements = split(text)
    return not statements or statements[-1].ended


def _cut(text: str) -> Iterator[StatementText]:
    start = 0
    ends = [match.start() for match in _TOKEN.finditer(text) if match[0] == ";"]
    for end, ended in [*((end, True) for end in ends), (len(text), False)]:
        skipped = _SPACE_OR_COMMENT.match(text, start, end)
        begin = skipped.end() if skipped else start
        body = text[begin:end].rstrip()
        if body:
            line = text.count("\n", 0, begin) + 1
            column = begin - (text.rfind("\n", 0, begin) + 1) + 1
            yield StatementText(body, line, column, ended)
        start = end + 1

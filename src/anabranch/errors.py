"""Every error a user can meet, in one shape.

An error has a stable name, a short message that says what was got against what was wanted,
sometimes a detail, the place in the SQL text, and a hint that is an action. The command line,
Python and every later face show the same object.

    AnabranchError
    ├── SqlError        the text of a statement is wrong, or asks for what the language has not
    ├── CatalogError    a stream or query does not exist, exists already, or is of another kind
    ├── DataError       rows do not fit their stream
    ├── StreamError     the log cannot do what was asked now
    ├── QueryError      a standing query is refused, or failed while it ran
    └── SetupError      the machine lacks something (Java, disk, a package)
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class AnabranchError(Exception):
    """The base of every error raised on purpose.

    >>> str(CatalogError("STREAM_NOT_FOUND", 'stream "trade" does not exist', hint="did you mean \\"trades\\"?"))
    'STREAM_NOT_FOUND stream "trade" does not exist. Hint: did you mean "trades"?'
    """

    def __init__(
        self,
        name: str,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        self.name = name
        self.message = message
        self.detail = detail
        self.hint = hint
        self.line = line
        self.column = column
        super().__init__(self.render())

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.as_dict()))

    def render(self) -> str:
        """The error as one line of text."""
        place = f" (line {self.line}, column {self.column})" if self.line is not None else ""
        text = f"{self.name}{place} {self.message}"
        if self.detail:
            text = f"{text.rstrip('.')}. Detail: {self.detail}"
        if self.hint:
            text = f"{text.rstrip('.')}. Hint: {self.hint}"
        return text

    def as_dict(self) -> dict[str, Any]:
        """The error as plain data, the same on every face."""
        fields = {
            "name": self.name,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
            "line": self.line,
            "column": self.column,
        }
        return {key: value for key, value in fields.items() if value is not None}


def _rebuild(cls: type[AnabranchError], fields: dict[str, Any]) -> AnabranchError:
    return cls(fields.pop("name"), fields.pop("message"), **fields)


class SqlError(AnabranchError):
    """The text of a statement is wrong, or asks for what the language does not have."""


class CatalogError(AnabranchError):
    """A stream or query does not exist, exists already, or is of another kind."""


class DataError(AnabranchError):
    """Rows do not fit their stream."""


class StreamError(AnabranchError):
    """The log cannot do what was asked now."""


class QueryError(AnabranchError):
    """A standing query is refused, or failed while it ran."""


class SetupError(AnabranchError):
    """The machine lacks something: Java, disk space, a package."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """A hint that names the nearest known name, or what exists at all."""
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    if otherwise is not None:
        return otherwise
    return "there are: " + ", ".join(known[:12]) if known else None

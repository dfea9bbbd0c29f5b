"""Names of streams and queries, as statements say them."""

from __future__ import annotations

from anabranch.log.stream import REJECTS, rejects_name
from anabranch.sql.reading.cursor import Cursor


def take_name(cursor: Cursor, what: str) -> str:
    """A name; `stream.rejects` names the rejects of a stream."""
    name = cursor.name(what)
    if cursor.words("."):
        if not cursor.words(REJECTS.upper()):
            cursor.fail(f"expected {REJECTS}", hint="quote a name that holds a dot with backticks")
        return rejects_name(name)
    return name


def take_new_name(cursor: Cursor, what: str) -> str:
    """A name that is no one's rejects."""
    name = cursor.name(what)
    if cursor.next_is("."):
        raise cursor.error_here("SYNTAX_ERROR", "a name that holds a dot needs backticks", hint="write `a.b`")
    return name

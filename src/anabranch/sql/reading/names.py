"""Names of streams and queries, as statements say them."""

from __future__ import annotations

import re

from anabranch.log.stream import PARTS
from anabranch.sql.reading.cursor import Cursor, word

_PLAIN = re.compile(r"[A-Za-z_]\w*")


def quoted(name: str) -> str:
    """A name as it must be written in SQL.

    >>> quoted("cars"), quoted("my cars")
    ('cars', '`my cars`')
    """
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def take_name(cursor: Cursor, what: str) -> str:
    """A name; `stream.rejects` names the rejects of a stream, `table.changes` the changes of a table."""
    name = cursor.name(what)
    if not cursor.words("."):
        return name
    part = word(cursor.peek()).lower()
    if part not in PARTS:
        cursor.fail(f"expected {' or '.join(PARTS)}", hint="quote a name that holds a dot with backticks")
    cursor.advance()
    return PARTS[part](name)


def take_new_name(cursor: Cursor, what: str) -> str:
    """A name that is no one's rejects."""
    name = cursor.name(what)
    if cursor.next_is("."):
        raise cursor.error_here("SYNTAX_ERROR", "a name that holds a dot needs backticks", hint="write `a.b`")
    return name

"""A text that is one SELECT."""

from __future__ import annotations

from anabranch.errors import QueryError
from anabranch.sql.reading.parser import parse
from anabranch.sql.statements import SelectOnce
from anabranch.sql.tree import Select


def single_select(text: str) -> Select:
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a standing query is one SELECT", hint="run other statements with db.sql()")
    return statements[0].select

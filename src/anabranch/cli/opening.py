"""The database a command works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import CatalogError

if TYPE_CHECKING:
    from anabranch.database import Database


def open_existing(path: str, *, queries: bool = False) -> Database:
    """A database that must be there already; without `queries` nothing is started, and no Spark."""
    import anabranch

    try:
        return anabranch.open(path, queries=queries, create=False)
    except CatalogError as error:
        if error.name == "DATABASE_NOT_FOUND" and not error.hint:
            error.hint = 'name it with --db, or make one: anabranch sql -c "CREATE STREAM …"'
        raise


def open_or_create(path: str) -> Database:
    """A database with its standing queries; a new one where there is none."""
    import anabranch

    return anabranch.open(path)

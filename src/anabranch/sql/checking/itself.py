"""What cannot be made because it would read itself."""

from __future__ import annotations

from anabranch.sql.over_views import tables_of
from anabranch.sql.standing.sources import stream_name
from anabranch.sql.tree import Select


def refuse_itself(select: Select, name: str) -> None:
    """An error if a query that is to be made reads what it would make."""
    for table in tables_of(select, select.tree):
        if stream_name(table).lower() in (name.lower(), f"{name}.changes".lower()):
            raise select.error(
                "READS_ITSELF",
                f'"{name}" would read itself',
                table,
                hint="read what it is made from; an answer that builds on the one before cannot be said in SQL here",
            )

"""What is kept of a standing query: its text, what it reads, and whether it should run."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from anabranch.catalog.readers import ObjectName
from anabranch.errors import CatalogError

INFO = "query.json"


@dataclass(frozen=True)
class QueryInfo:
    """A standing query: the SELECT it answers, and whether it is meant to run."""

    name: str
    sql: str
    running: bool = True
    kind: str = "query"
    """`query` for CREATE CONTINUOUS QUERY, `stream` for CREATE STREAM … AS, `archive` for what fills an archive.

    `host`: it runs others.
    """
    id: str = field(default_factory=lambda: secrets.token_hex(6))
    """Differs from that of a dropped query of the same name, so that nothing of it is taken for this one's."""
    reads: tuple[ObjectName, ...] | None = None
    """What it reads; None for one that was made when that was not written down: its plan says it."""
    owner: ObjectName | None = None
    """The archive that it fills, with which it comes and goes."""
    host: str | None = None
    """The host that it is a member of; None: it stands alone."""
    bound_for: str | None = None
    """The host that it is about to be a member of."""
    came_from: str | None = None
    """The host that it has left by itself, as it was too heavy, and goes back to."""
    times_left: int = 0
    """How often it has done so."""

    @staticmethod
    def from_json(data: dict[str, Any]) -> QueryInfo:
        reads, owner = data.get("reads"), data.get("owner")
        named = None if reads is None else tuple(ObjectName(*thing) for thing in reads)
        others = {"reads", "owner"}
        plain = {name: data[name] for name in QueryInfo.__dataclass_fields__ if name in data and name not in others}
        return QueryInfo(**plain, reads=named, owner=None if owner is None else ObjectName(*owner))

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def is_damaged(self) -> bool:
        """Whether nobody knows what it asks: its declaration cannot be read."""
        return not self.sql

    def damage(self) -> CatalogError:
        return CatalogError(
            "DECLARATION_IS_DAMAGED",
            f'what query "{self.name}" asks cannot be read',
            detail=f"its {INFO} is lost or not what was written",
            hint="put the file back from a copy of the database, or DROP QUERY it and create it again",
        )

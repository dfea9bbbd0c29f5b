"""The objects of the catalog. One table lists their kinds; each is a row here and a file."""

from __future__ import annotations

from anabranch.objects.archive import ArchivesOfStreams
from anabranch.objects.base import ObjectKind
from anabranch.objects.query import Queries
from anabranch.objects.stream import Streams
from anabranch.objects.table import Tables
from anabranch.objects.view import Views
from anabranch.sql.reading.objects import Sayings

__all__ = ["OBJECTS", "ObjectKind", "sayings"]

OBJECTS: dict[str, ObjectKind] = {
    kind.saying.kind: kind for kind in (Streams(), Tables(), Views(), Queries(), ArchivesOfStreams())
}
"""Every kind of object by its name. CREATE, SHOW, DESCRIBE, DROP and the graph of dependences read this table."""


def sayings() -> Sayings:
    """How statements speak of them."""
    return tuple(kind.saying for kind in OBJECTS.values())

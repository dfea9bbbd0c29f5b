"""What can be said of the objects of the catalog: CREATE, SHOW, DESCRIBE and DROP read these rows.

Each object of `anabranch.objects` has its row here; a database's own table of objects is what its statements are
read with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from anabranch.sql.reading.archive_statements import take_archive, take_create_archive
from anabranch.sql.reading.create_query import take_create_query, take_create_view
from anabranch.sql.reading.create_stream import take_create_stream
from anabranch.sql.reading.cursor import Cursor
from anabranch.sql.reading.names import take_name
from anabranch.sql.reading.table_statements import take_create_table
from anabranch.sql.statements import Statement


class Saying(NamedTuple):
    """How statements speak of one kind of object."""

    kind: str
    words: tuple[tuple[str, ...], ...]
    """The words for one, best first: DROP these, DESCRIBE these."""
    plural: str
    """The word for all: SHOW this."""
    creating: tuple[str, ...]
    """CREATE this."""
    take_create: Callable[[Cursor], Statement]
    """Reads what follows CREATE and its words."""
    take_named: Callable[[Cursor], tuple[str | None, str]] | None = None
    """Reads the name of one that exists, and what it lies on; without, a plain name."""
    shows_create: bool = False
    """Whether SHOW CREATE tells the statement that declares one."""

    @property
    def has_plain_names(self) -> bool:
        """Whether a name alone says which is meant."""
        return self.take_named is None

    def named(self, cursor: Cursor) -> tuple[str | None, str]:
        if self.take_named is not None:
            return self.take_named(cursor)
        return take_name(cursor, f"the {self.kind}'s name"), ""

    def take_word(self, cursor: Cursor) -> bool:
        """Takes a word for one, if it comes next."""
        return any(cursor.words(*words) for words in self.words)


Sayings = Sequence[Saying]

STREAM = Saying("stream", (("STREAM",),), "STREAMS", ("STREAM",), take_create_stream)
TABLE = Saying("table", (("TABLE",),), "TABLES", ("TABLE",), take_create_table, shows_create=True)
QUERY = Saying("query", (("QUERY",), ("CONTINUOUS", "QUERY")), "QUERIES", ("CONTINUOUS", "QUERY"), take_create_query)
VIEW = Saying(
    "view",
    (("VIEW",), ("MATERIALIZED", "VIEW")),
    "VIEWS",
    ("MATERIALIZED", "VIEW"),
    take_create_view,
    shows_create=True,
)
ARCHIVE = Saying("archive", (("ARCHIVE",),), "ARCHIVES", ("ARCHIVE",), take_create_archive, take_archive)

SAYINGS: Sayings = (STREAM, TABLE, VIEW, QUERY, ARCHIVE)
"""Those that every database has."""

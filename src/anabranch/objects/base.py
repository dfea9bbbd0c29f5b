"""What an object of the catalog is: what can be done with it, what it reads, and what it belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from anabranch.catalog import ObjectName
from anabranch.errors import AnabranchError
from anabranch.objects.page import Page
from anabranch.result import Result
from anabranch.sql.reading.objects import Saying
from anabranch.sql.statements import Statement

if TYPE_CHECKING:
    from anabranch.database import Database

Doing = Callable[["Database", Any], Result]
"""What a statement does."""


class ObjectKind(ABC):
    """One kind of object. The statements that speak of it, the graph of dependences and DROP read what it says."""

    saying: Saying
    """The words of its statements."""
    statements: ClassVar[Mapping[type[Statement], Doing]]
    """What is done to this kind alone: its CREATE, and whatever else it has."""
    absent: frozenset[str]
    """The errors that say there is no such object."""
    as_part: str = "STREAM_IS_USED"
    """The error where one that belongs to another is to be dropped by itself."""

    # -- which there are ---------------------------------------------------------------------------

    @abstractmethod
    def find(self, db: Database, name: str | None, on: str = "") -> ObjectName:
        """The object of a name as it was given to it, or an error; without a name, the only one."""

    def exists(self, db: Database, name: str | None, on: str = "") -> bool:
        try:
            self.find(db, name, on)
        except AnabranchError as problem:
            return problem.name not in self.absent
        return True

    @abstractmethod
    def all(self, db: Database) -> Iterable[ObjectName]:
        """The names of all of them."""

    @abstractmethod
    def show(self, db: Database, page: Page) -> pa.Table:
        """Those of a page, with what is worth knowing at a glance."""

    @abstractmethod
    def describe(self, db: Database, which: ObjectName) -> pa.Table:
        """What there is to know of one."""

    def declared(self, db: Database, name: str) -> str:
        """The statement that makes one; for kinds of which SHOW CREATE tells it."""
        raise NotImplementedError

    def told(self, which: ObjectName) -> str:
        """One of them in words."""
        return f'{which.kind} "{which.name}"'

    # -- what it has to do with others -------------------------------------------------------------

    def owner(self, db: Database, which: ObjectName) -> ObjectName | None:
        """What it is a part of, and comes and goes with."""
        return None

    def stands_for(self, owner: ObjectName) -> bool:
        """Whether who drops it means its owner."""
        return False

    def parts(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        """What goes with it when it is dropped."""
        return ()

    def reads(self, db: Database, which: ObjectName) -> Iterable[ObjectName]:
        """What it depends on."""
        return ()

    def read_as(self, db: Database, which: ObjectName) -> ObjectName | None:
        """As what others read it, if anyone would miss it."""
        return which

    # -- its end -----------------------------------------------------------------------------------

    def claim(self, db: Database, which: ObjectName) -> None:
        """An error if another process has it in hand; called before anything is removed."""
        return

    @abstractmethod
    def remove(self, db: Database, which: ObjectName) -> None:
        """Remove one that nobody needs any more; what goes with it is gone already."""


def properties(rows: Iterable[tuple[str, Any]]) -> pa.Table:
    """A table of properties and values."""
    shown = list(rows)
    return pa.table(
        {
            "property": pa.array([name for name, _ in shown], pa.string()),
            "value": pa.array([str(value) for _, value in shown], pa.string()),
        }
    )


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Properties of properties under one name each.

    >>> flat({"a": 1, "b": {"c": 2}})
    [('a', 1), ('b.c', 2)]
    """
    rows: list[tuple[str, Any]] = []
    for name, value in values.items():
        rows.extend(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else [(prefix + name, value)])
    return rows

"""A handle on a view: its rows, its version, and waiting for what was appended to be in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.log.stream import changes_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from anabranch.queries.query import Query
    from anabranch.tables.declaration import TableInfo
    from anabranch.tables.state import State


class View:
    """The answer of a SELECT as rows that change; get one from `Database.view`."""

    def __init__(self, info: TableInfo, query: Query, state: Callable[[int | None], State]) -> None:
        self.name = info.name
        self.query = query
        """What keeps it up to date: it is stopped, started and looked at like any other."""
        self._info = info
        self._state = state

    def __repr__(self) -> str:
        return f"<View {self.name}: {self.query.status}>"

    @property
    def version(self) -> int:
        """How many rows of its inputs are in it, of all together."""
        return self._state(None).version

    @property
    def changes(self) -> str:
        """The name of the stream of its changes."""
        return changes_name(self.name)

    def table(self, version: int | None = None) -> pa.Table:
        """Its rows as they are now, or were at a version, in the order of their key."""
        return self._state(version).table.select(self._info.shown.names)

    def wait(self, timeout: float | None = None) -> View:
        """Until all that was appended before this call is in it."""
        self.query.wait(timeout)
        return self

    def explain(self, format: str = "text") -> str:
        return self.query.explain(format)

"""Tables that are copies of files are compared with them now and then, by every process that has the database open.

What was read last is known to all of them (`tables.copying`): one reads the file, the others see that it is as it was.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from typing import NamedTuple

from anabranch.catalog import Catalog
from anabranch.catalog.tables import Tables
from anabranch.clock import Clock
from anabranch.errors import AnabranchError
from anabranch.queries.quietly import quietly
from anabranch.tables.copying import Copied
from anabranch.tables.declaration import TableInfo

_PATIENCE_SECONDS = 10.0
_SETTLED_NS = 2_000_000_000
"""Within so long a directory may be changed twice without that showing."""


class _Copy(NamedTuple):
    """A table, and after how many µs it is compared with its file again."""

    info: TableInfo
    every: int


class Refreshing:
    """See the module. Reading takes as long as files are large, so it is done in a thread of its own."""

    def __init__(self, catalog: Catalog, tables: Tables, clock: Clock) -> None:
        self._catalog = catalog
        self._tables = tables
        self._clock = clock
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._copies: dict[str, _Copy] = {}
        self._listed: int | None = None
        self._due: dict[str, int] = {}

    def look(self) -> None:
        """Refresh what is due, in the background, unless that is being done."""
        if (self._thread is None or not self._thread.is_alive()) and self._are_due():
            self._thread = threading.Thread(target=quietly, args=(self.refresh,), name="anabranch-tables", daemon=True)
            self._thread.start()

    def refresh(self) -> None:
        """Compare the tables that are due with their files. What goes wrong is told beside the table."""
        with self._one_at_a_time:
            for info, every in self._are_due():
                if self._closed:
                    return
                quietly(functools.partial(self._tables.refresh, info.name))
                self._due[info.id] = self._clock.now_us() + every

    def close(self) -> None:
        """Begin nothing more, and let what has begun come to its end."""
        self._closed = True
        if self._one_at_a_time.acquire(timeout=_PATIENCE_SECONDS):
            self._one_at_a_time.release()

    def _are_due(self) -> list[_Copy]:
        self._list()
        now = self._clock.now_us()
        return [copy for copy in list(self._copies.values()) if self._due_at(copy) <= now]

    def _due_at(self, copy: _Copy) -> int:
        if copy.info.id not in self._due:
            known = Copied.of(self._catalog.stream_storage(copy.info.changes))
            self._due[copy.info.id] = 0 if known is None else known.at + copy.every
        return self._due[copy.info.id]

    def _list(self) -> None:
        """See which tables there are, if one may have come or gone."""
        changed = self._catalog.streams_changed()
        if changed is not None and changed == self._listed:
            return
        found = {}
        for name in self._catalog.table_names():
            with contextlib.suppress(AnabranchError):  # one that is damaged hides no other
                info = self._catalog.table(name)
                if info.origin is not None and info.origin.refresh_us is not None:
                    found[info.id] = _Copy(info, info.origin.refresh_us)
        self._copies = found
        self._due = {id: at for id, at in self._due.items() if id in found}
        self._listed = changed if changed is not None and time.time_ns() - changed > _SETTLED_NS else None

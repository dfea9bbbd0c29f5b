"""The tables that a process changes, and the views that it reads: one writer or reader for each, made on first use."""

from __future__ import annotations

import threading

from anabranch.catalog.catalog import Catalog
from anabranch.clock import Clock
from anabranch.settings import Settings
from anabranch.tables.reader import ChangesReader
from anabranch.tables.state import State
from anabranch.tables.writing import TableWriter


class Tables:
    """See the module. One that was dropped and made anew has another writer."""

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()
        self._writers: dict[str, TableWriter] = {}
        self._views: dict[str, ChangesReader] = {}

    def of(self, table: str) -> TableWriter:
        info = self._catalog.table(table)
        with self._mutex:
            known = self._writers.get(table.lower())
            if known is None or known.info != info:
                if known is not None:
                    known.close()
                storage = self._catalog.stream_storage(info.changes)
                known = self._writers[table.lower()] = TableWriter(storage, self._settings, self._clock)
            return known

    def state_of_view(self, view: str) -> State:
        """The rows of a view after the newest of its changes."""
        info = self._catalog.view(view)
        with self._mutex:
            reader = self._views.get(view.lower())
            if reader is None or reader.table.id != info.id:
                storage = self._catalog.stream_storage(info.changes)
                reader = self._views[view.lower()] = ChangesReader(storage)
        reader.refresh()
        return reader.state_at(reader.end().row)

    def let_go(self, table: str) -> None:
        with self._mutex:
            known = self._writers.pop(table.lower(), None)
            self._views.pop(table.lower(), None)
        if known is not None:
            known.close()

    def close(self) -> None:
        for table in list(self._writers):
            self.let_go(table)

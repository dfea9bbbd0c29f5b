"""The tables that a process changes: one writer for each, made on first use and kept."""

from __future__ import annotations

import threading

from anabranch.catalog.catalog import Catalog
from anabranch.clock import Clock
from anabranch.settings import Settings
from anabranch.tables.writing import TableWriter


class Tables:
    """See the module. One that was dropped and made anew has another writer."""

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()
        self._writers: dict[str, TableWriter] = {}

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

    def let_go(self, table: str) -> None:
        with self._mutex:
            known = self._writers.pop(table.lower(), None)
        if known is not None:
            known.close()

    def close(self) -> None:
        for table in list(self._writers):
            self.let_go(table)

"""The tables that a process changes, and the views that it reads: one writer or reader for each, made on first use."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from anabranch.catalog.catalog import Catalog
from anabranch.clock import Clock
from anabranch.dataspace.access import Access
from anabranch.errors import CatalogError
from anabranch.log.storage import Storage
from anabranch.schema import sql_type
from anabranch.settings import Settings
from anabranch.tables.changes import Changes
from anabranch.tables.copying import Copier
from anabranch.tables.declaration import TableInfo
from anabranch.tables.file_reading import read_file
from anabranch.tables.origin import Origin
from anabranch.tables.reader import ChangesReader
from anabranch.tables.state import State
from anabranch.tables.versions import row_at_version
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

    def create_copy(
        self,
        name: str,
        origin: Origin,
        columns: Sequence[tuple[str, str]],
        key: Sequence[str],
        required: Sequence[str],
        retain_us: int | None,
    ) -> TableInfo:
        """A new table with the rows of a file; without columns, with those that it has."""
        read = None
        if not columns:
            read = read_file(origin, self._access, None)
            columns = [(field.name, sql_type(field.type)) for field in read.rows.schema]
        info = TableInfo.declare(name, columns, key, required, retain_us, origin)
        first = read or read_file(origin, self._access, info.schema)

        def fill(storage: Storage) -> None:
            writer = TableWriter(storage, self._settings, self._clock)
            try:
                Copier(storage, writer, self._access, self._clock).fill(first)
            finally:
                writer.close()

        self._catalog.create_table(info, fill)
        return info

    def refresh(self, table: str) -> Changes:
        """Have a table that is the copy of a file take over what is otherwise there by now."""
        writer = self.of(table)
        if writer.info.origin is None:
            raise CatalogError("TABLE_IS_NO_COPY", f'table "{writer.info.name}" is not the copy of a file')
        return Copier(self._catalog.stream_storage(writer.info.changes), writer, self._access, self._clock).refresh()

    @property
    def _access(self) -> Access:
        """What tables may be made from, as the settings say now."""
        return Access.of(self._settings, self._catalog.root)

    def state_of_view(self, view: str, version: int | None = None) -> State:
        """The rows of a view after the newest of its changes, or at a version."""
        info = self._catalog.view(view)
        with self._mutex:
            reader = self._views.get(view.lower())
            if reader is None or reader.table.id != info.id:
                storage = self._catalog.stream_storage(info.changes)
                reader = self._views[view.lower()] = ChangesReader(storage)
        reader.refresh()
        return reader.state_at(reader.end().row if version is None else row_at_version(reader, info.name, version))

    def let_go(self, table: str) -> None:
        with self._mutex:
            known = self._writers.pop(table.lower(), None)
            self._views.pop(table.lower(), None)
        if known is not None:
            known.close()

    def close(self) -> None:
        for table in list(self._writers):
            self.let_go(table)

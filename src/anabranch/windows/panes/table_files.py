"""Tables in the files of a folder: a cache that may be lost at any time, in part or as a whole.

A file is named KIND.NUMBERS.ROWS.BYTES.CRC; what the numbers say is up to whoever keeps it. It is written under a
temporary name and renamed, without waiting for the disk. One that is missing or torn (length or checksum differ) is
not there; whoever wanted it computes it again.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import zlib
from collections import OrderedDict
from typing import NamedTuple

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.kernels.values import one_array
from anabranch.log.storage import Storage

_MEMORY_BYTES = 256 << 20
_STALE_SECONDS = 3600


class TableFile(NamedTuple):
    """What a file's name says."""

    kind: str
    numbers: tuple[int, ...]
    rows: int
    size: int
    checksum: str

    @property
    def name(self) -> str:
        return ".".join(map(str, (self.kind, *self.numbers, self.rows, self.size, self.checksum)))

    @staticmethod
    def parse(name: str) -> TableFile | None:
        try:
            kind, *numbers, checksum = name.split(".")
            *own, rows, size = map(int, numbers)
        except ValueError:
            return None
        return TableFile(kind, tuple(own), rows, size, checksum)


class _Memory:
    """The tables used last, up to a number of bytes."""

    def __init__(self) -> None:
        self._tables: OrderedDict[tuple[str, str], pa.Table] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, folder: str, name: str) -> pa.Table | None:
        with self._lock:
            table = self._tables.get((folder, name))
            if table is not None:
                self._tables.move_to_end((folder, name))
            return table

    def put(self, folder: str, name: str, table: pa.Table) -> None:
        with self._lock:
            self._drop((folder, name))
            self._tables[folder, name] = table
            self._bytes += table.nbytes
            while self._bytes > _MEMORY_BYTES and len(self._tables) > 1:
                self._drop(next(iter(self._tables)))

    def drop(self, folder: str, name: str) -> None:
        with self._lock:
            self._drop((folder, name))

    def forget(self, folder: str) -> None:
        """Drop all tables of a folder."""
        with self._lock:
            for key in [key for key in self._tables if key[0] == folder]:
                self._drop(key)

    def exchange(self, tables: OrderedDict[tuple[str, str], pa.Table]) -> OrderedDict[tuple[str, str], pa.Table]:
        """Other tables in place of those that are here."""
        with self._lock:
            self._tables, tables = tables, self._tables
            self._bytes = sum(table.nbytes for table in self._tables.values())
            return tables

    def _drop(self, key: tuple[str, str]) -> None:
        table = self._tables.pop(key, None)
        if table is not None:
            self._bytes -= table.nbytes


memory = _Memory()
"""Tables that this process has read or written, by folder and name."""


class TableFiles:
    """The tables of one schema in one folder, as they are when it is made."""

    def __init__(self, folder: Storage, schema: pa.Schema) -> None:
        self._folder = folder
        self._schema = schema
        folder.sweep(older_than=_STALE_SECONDS)
        self._files = sorted(file for name in folder.names() if (file := TableFile.parse(name)))

    @property
    def folder(self) -> str:
        """Different for different folders."""
        return self._folder.address

    def of_kind(self, kind: str) -> list[TableFile]:
        """The files of a kind, by their numbers."""
        return [file for file in self._files if file.kind == kind]

    def read(self, file: TableFile) -> pa.Table | None:
        """The table of a file; None, and the file is gone, if it is not as it was written."""
        table = memory.get(self.folder, file.name)
        if table is not None:
            return table
        try:
            content = self._folder.read_bytes(file.name)
        except OSError:
            content = None
        table = None if content is None else self._whole(file, content)
        if table is None:
            self.delete(file)
        else:
            memory.put(self.folder, file.name, table)
        return table

    def _whole(self, file: TableFile, content: bytes) -> pa.Table | None:
        if len(content) != file.size or f"{zlib.crc32(content):08x}" != file.checksum:
            return None
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        return table if table.schema == self._schema else None

    def write(self, kind: str, numbers: tuple[int, ...], table: pa.Table) -> None:
        """Keep a table, if there is room for it."""
        table = pa.Table.from_arrays([one_array(column) for column in table.columns], schema=self._schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        file = TableFile(kind, numbers, table.num_rows, content.size, f"{zlib.crc32(content):08x}")
        if file in self._files:
            return
        # A full disk must not stop a query whose answer does not depend on this file.
        with contextlib.suppress(OSError, StreamError):
            self._folder.make(durable=False)
            self._folder.write(lambda out: out.write(content), file.name, durable=False)
            bisect.insort(self._files, file)
            memory.put(self.folder, file.name, table)

    def delete(self, file: TableFile) -> None:
        self._files.remove(file)
        memory.drop(self.folder, file.name)
        with contextlib.suppress(OSError):
            self._folder.delete(file.name)

    def size(self) -> tuple[int, int]:
        """Rows and bytes in files."""
        return sum(file.rows for file in self._files), sum(file.size for file in self._files)

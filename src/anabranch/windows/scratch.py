"""Partial answers kept between batches, in memory and in files; a cache that may be lost at any time.

Two kinds of file, both written under a temporary name and renamed, without waiting for the disk:

    panes.LOW.HIGH.SINCE.ROWS.BYTES.CRC    the nodes that end in (LOW, HIGH] and begin at SINCE or later
    open.ROW.PANE.PANE.ROWS.BYTES.CRC      the pane that was still filling when rows below ROW were folded

A node that a file speaks for and does not hold is empty. Of one that no file speaks for nothing is known: a
batch that is run again needs older nodes than what it wrote itself the first time speaks for. What is missing
or torn (length or checksum differ) is computed again from the log.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import threading
import time
import zlib
from collections import OrderedDict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from anabranch.kernels.values import one_array
from anabranch.windows.panes import Nodes, node_end, node_start

_MEMORY_BYTES = 256 << 20
_STALE_SECONDS = 3600


class _File(NamedTuple):
    kind: str
    low: int
    high: int
    since: int
    rows: int
    size: int
    checksum: str

    @property
    def name(self) -> str:
        return ".".join(map(str, self))

    @staticmethod
    def parse(name: str) -> _File | None:
        parts = name.split(".")
        if len(parts) != 7 or parts[0] not in ("panes", "open"):
            return None
        try:
            low, high, since, rows, size = map(int, parts[1:6])
        except ValueError:
            return None
        return _File(parts[0], low, high, since, rows, size, parts[6])

    def speaks_for(self, start: int, end: int) -> bool:
        """Whether it holds all there is of a node of the panes start ≤ n < end."""
        return self.low < end <= self.high and self.since <= start


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
"""Tables of the scratch files that this process has read or written."""


class Scratch:
    """The partial answers of one operator in one folder, as they are when it is made."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder = folder
        self._key = str(folder)
        self._schema = schema
        with contextlib.suppress(FileNotFoundError):
            self._tidy()
        names = os.listdir(folder) if folder.is_dir() else []
        self._files = sorted(file for name in names if (file := _File.parse(name)))

    @property
    def name(self) -> str:
        """Different for different folders."""
        return self._key

    # -- reading ---------------------------------------------------------------------------------

    def nodes(self, wanted: Nodes) -> list[pa.Table] | None:
        """Tables that hold all entries of the wanted nodes, or None if no file speaks for one of them."""
        runs = [file for file in self._files if file.kind == "panes"]
        chosen: dict[_File, None] = {}
        for start, end in zip(node_start(wanted).tolist(), node_end(wanted).tolist(), strict=True):
            newest = bisect.bisect_left(runs, end, key=lambda file: file.low) - 1
            file = next((runs[at] for at in range(newest, -1, -1) if runs[at].speaks_for(start, end)), None)
            if file is None:
                return None
            chosen[file] = None
        tables = []
        for file in chosen:
            table = self._read(file)
            if table is None:
                return None
            tables.append(table)
        # Files may overlap; entries of a node are the same in each that holds it.
        return tables

    def open_pane(self, row: int, pane: int) -> tuple[int, pa.Table] | None:
        """The newest entries of the open pane at or before `row`, with the row they were folded up to."""
        table = memory.get(self._key, f"open.{row}.{pane}")
        if table is not None:
            return row, table
        for file in reversed(self._files):
            if file.kind == "open" and file.low <= row and file.high == pane:
                table = self._read(file)
                if table is not None:
                    return file.low, table
        return None

    def _read(self, file: _File) -> pa.Table | None:
        table = memory.get(self._key, file.name)
        if table is not None:
            return table
        try:
            content = (self._folder / file.name).read_bytes()
        except OSError:
            return None
        if len(content) != file.size or f"{zlib.crc32(content):08x}" != file.checksum:
            self._delete(file)
            return None
        table = pa.ipc.open_file(pa.BufferReader(content)).read_all()
        if table.schema != self._schema:
            self._delete(file)
            return None
        memory.put(self._key, file.name, table)
        return table

    # -- writing ---------------------------------------------------------------------------------

    def keep_nodes(self, low: int, high: int, since: int, entries: pa.Table) -> None:
        """Keep all nodes that end in (low, high] and begin at `since` or later."""
        self._write("panes", low, high, since, entries)

    def keep_open(self, row: int, pane: int, entries: pa.Table) -> None:
        """Keep the open pane; on disk only if folding it again from the last file would cost more than the bytes."""
        memory.put(self._key, f"open.{row}.{pane}", entries)
        saved = [file.low for file in self._files if file.kind == "open" and file.high == pane and file.low <= row]
        if not saved or (row - max(saved)) * 4 >= entries.num_rows:
            self._write("open", row, pane, pane, entries)

    def clean(self, row: int, pane: int) -> None:
        """Delete what a batch that starts at `row` and needs panes from `pane` on cannot use."""
        opens = [file.low for file in self._files if file.kind == "open" and file.low <= row]
        oldest = max(opens, default=row)
        for file in list(self._files):
            if (file.kind == "panes" and file.high <= pane) or (file.kind == "open" and file.low < oldest):
                self._delete(file)

    def size(self) -> tuple[int, int]:
        """Rows and bytes in files."""
        return sum(file.rows for file in self._files), sum(file.size for file in self._files)

    def _write(self, kind: str, low: int, high: int, since: int, entries: pa.Table) -> None:
        table = pa.Table.from_arrays([one_array(c) for c in entries.columns], schema=self._schema)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self._schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        file = _File(kind, low, high, since, table.num_rows, content.size, f"{zlib.crc32(content):08x}")
        if file in self._files:
            return
        temporary = self._folder / f"{file.name}.{os.getpid()}.{threading.get_ident()}.tmp"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            temporary.replace(self._folder / file.name)
        except OSError:
            # A full disk must not stop a query whose answer does not depend on this file.
            temporary.unlink(missing_ok=True)
            return
        bisect.insort(self._files, file)
        memory.put(self._key, file.name, table)

    def _delete(self, file: _File) -> None:
        self._files.remove(file)
        memory.drop(self._key, file.name)
        (self._folder / file.name).unlink(missing_ok=True)

    def _tidy(self) -> None:
        """Remove temporary files that a killed process left."""
        for name in os.listdir(self._folder):
            if name.endswith(".tmp"):
                with contextlib.suppress(OSError):
                    path = self._folder / name
                    if path.stat().st_mtime < time.time() - _STALE_SECONDS:
                        path.unlink()

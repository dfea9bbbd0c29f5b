"""Rows of foreign files as memory-mapped Arrow: decoded once, then served without being touched again.

Each piece of a file (a row group of Parquet, a whole CSV) becomes an Arrow file in a folder of this
process. The pieces used longest ago are let go when there are too many bytes; who still reads one
keeps its mapping.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
from pyarrow import ipc

_PREFIX = "anabranch-blocks-"
_MOST_BYTES = 16 << 30
BLOCK_BYTES = 2 << 20
"""Rows are stored and sent in blocks of about this size: measured, larger ones are no faster."""
BLOCK_ROWS = 1 << 16


def rows_per_block(schema: pa.Schema) -> int:
    """How many rows make a block."""
    width = sum(field.type.bit_width // 8 if _is_fixed(field.type) else 32 for field in schema)
    return max(min(BLOCK_ROWS, BLOCK_BYTES // max(width, 1)), 1024)


def _is_fixed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


class _Kept(NamedTuple):
    """Rows, the file they are mapped from, and its bytes; 0 if the file is not ours."""

    rows: pa.Table
    path: str
    size: int


class BlockCache:
    """A folder of Arrow files, removed when the process ends; that of a process that was killed, by the next."""

    def __init__(self, folder: str | None = None, most_bytes: int = _MOST_BYTES) -> None:
        parent = folder or tempfile.gettempdir()
        _sweep(parent)
        self._path = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=parent)
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._made = 0
        self._mutex = threading.Lock()

    def get(self, name: str) -> pa.Table | None:
        """The rows kept under a name, mapped; None if there are none (any more)."""
        with self._mutex:
            known = self._kept.get(name)
            if known is None:
                return None
            self._kept.move_to_end(name)
            return known.rows

    def map(self, name: str, path: str) -> pa.Table:
        """Keep an Arrow file that is somewhere else; gives its rows, mapped."""
        return self._keep(name, path, 0)

    def put(self, name: str, schema: pa.Schema, tables: Iterator[pa.Table]) -> pa.Table:
        """Keep rows under a name as they come; gives them back, mapped."""
        with self._mutex:
            self._made += 1
            path = os.path.join(self._path, f"{self._made}.arrow")
        try:
            with ipc.new_file(path, schema) as out:
                for table in tables:
                    out.write_table(table, max_chunksize=rows_per_block(schema))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            raise
        return self._keep(name, path, os.path.getsize(path))

    def _keep(self, name: str, path: str, size: int) -> pa.Table:
        rows = ipc.open_file(pa.memory_map(path)).read_all().replace_schema_metadata(None)
        with self._mutex:
            self._kept[name] = _Kept(rows, path, size)
            while len(self._kept) > 1 and sum(block.size for block in self._kept.values()) > self._most_bytes:
                _, oldest = self._kept.popitem(last=False)
                if oldest.size:
                    os.unlink(oldest.path)
        return rows

    def close(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def _sweep(parent: str) -> None:
    """Remove the folders of processes that are gone."""
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            process = name.removeprefix(_PREFIX).split("-")[0]
            path = os.path.join(parent, name)
            if name.startswith(_PREFIX) and process.isdigit() and not os.path.exists(f"/proc/{process}"):
                with contextlib.suppress(OSError):
                    if os.path.isdir("/proc/self") and os.stat(path).st_uid == os.getuid():
                        shutil.rmtree(path, ignore_errors=True)

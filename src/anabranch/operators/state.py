"""State that operators keep from one micro-batch to the next, in one file for each offset.

Unlike other scratch it cannot always be computed again: records of a merge may wait in a window for a partner
long after retention has taken them from the log. So the file is written durably, and the ones before stay until
nobody can ask for them.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.operators.live import Live

_MAGIC = b"AMRG"
_FORMAT = 1
"""Raise it when tables or facts change their meaning: what has another number counts as lost."""
_KEPT_FILES = 16
"""Spark may run the last micro-batch again, and asks for what was kept at its start."""


@dataclass
class State:
    """Tables by name, and a few facts."""

    tables: dict[str, pa.Table]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables.values())


_live: Live[State] = Live()


class StateFiles:
    """The states of one query, of operators of one kind; without a folder, only what this process remembers."""

    def __init__(self, folder: str | None, kind: str, query: str) -> None:
        self._folder = Path(folder) if folder is not None else None
        self._kind = kind
        self._query = query

    def save(self, name: str, part: int, parts: int, state: State) -> None:
        """Keep what one of `parts` tasks has at an offset."""
        file = f"{self._kind}-{name}-{part}of{parts}"
        if self._folder is None:
            _live.put(f"{self._query} {file}", state)
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        temporary = self._folder / f"{file}.{os.getpid()}.{threading.get_ident()}.tmp"
        with temporary.open("wb") as out:
            _write(out, state)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(self._folder / file)
        if part == 0:
            self._remove_old(self._folder)

    def load(self, name: str) -> list[State] | None:
        """What all tasks kept at an offset, in order, however many they were; None if it is not there."""
        if self._folder is None:
            return self._remembered(name)
        sets: dict[int, list[Path]] = {}
        prefix = f"{self._kind}-{name}-"
        with contextlib.suppress(OSError):
            for path in self._folder.glob(f"{prefix}*of*"):
                count = path.name[len(prefix) :].partition("of")[2]
                if count.isdigit():
                    sets.setdefault(int(count), []).append(path)
        for parts, paths in sorted(sets.items()):
            if len(paths) == parts:
                with contextlib.suppress(OSError, ValueError, pa.ArrowInvalid):
                    return [_read(self._folder / f"{prefix}{part}of{parts}") for part in range(parts)]
        return None

    def _remembered(self, name: str) -> list[State] | None:
        key = f"{self._query} {self._kind}-{name}-0of1"
        state = _live.take(key)
        if state is None:
            return None
        _live.put(key, state)  # the micro-batch may be run again
        return [state]

    def _remove_old(self, folder: Path) -> None:
        """Leave the states of the last few offsets."""
        with contextlib.suppress(OSError):
            made: dict[str, float] = {}
            for path in folder.glob(f"{self._kind}-*"):
                offset = path.name.rsplit("-", 1)[0]
                made[offset] = max(made.get(offset, 0.0), path.stat().st_mtime_ns)
            for offset in sorted(made, key=made.__getitem__)[:-_KEPT_FILES]:
                for path in folder.glob(f"{offset}-*"):
                    path.unlink(missing_ok=True)


def _write(out: Any, state: State) -> None:
    head = json.dumps({"format": _FORMAT, "facts": state.facts, "tables": list(state.tables)}).encode()
    out.write(_MAGIC + struct.pack("<q", len(head)) + head)
    for table in state.tables.values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        data = sink.getvalue()
        out.write(struct.pack("<q", data.size))
        out.write(data)
    out.write(_MAGIC)


def _read(path: Path) -> State:
    data = path.read_bytes()
    if data[:4] != _MAGIC or data[-4:] != _MAGIC:
        raise ValueError(f"{path} is not whole")
    at = 12 + struct.unpack_from("<q", data, 4)[0]
    head = json.loads(data[12:at])
    if head.get("format") != _FORMAT:
        raise ValueError(f"{path} has another format")
    tables: dict[str, pa.Table] = {}
    names: Sequence[str] = head["tables"]
    for name in names:
        size = struct.unpack_from("<q", data, at)[0]
        tables[name] = pa.ipc.open_stream(pa.py_buffer(data)[at + 8 : at + 8 + size]).read_all()
        at += 8 + size
    return State(tables, head["facts"])

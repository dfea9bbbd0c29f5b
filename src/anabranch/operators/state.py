"""State that operators keep from one micro-batch to the next, in one file for each offset and task.

Unlike other scratch it cannot always be computed again: records of a merge may wait in a window for a partner
long after retention has taken them from the log. So the file is written durably and with a checksum, and the ones
before stay until nobody can ask for them. What is damaged counts as lost; the operator says what then.
"""

from __future__ import annotations

import functools
import json
import re
import struct
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.log.storage import Storage
from anabranch.operators.live import Live

STATES = "state"
"""In the scratch of a host: what its members keep that is state."""
_MAGIC = b"AnSt"
"""Every state file begins with it; then come the checksum of the rest, and the rest."""
_FORMAT = 2
"""Raise it when tables or facts change their meaning: what has another number counts as lost."""
_KEPT_FILES = 16
"""Spark may run the last micro-batch again, and asks for what was kept at its start."""
_STALE_SECONDS = 3600


@dataclass
class SavedState:
    """Tables by name, and a few facts."""

    tables: dict[str, pa.Table]
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values())

    @property
    def rows(self) -> int:
        return sum(table.num_rows for table in self.tables.values())


_live: Live[SavedState] = Live()


class StateFiles:
    """The states of one query, of operators of one kind; without a folder, only what this process remembers."""

    def __init__(self, folder: str | None, kind: str, query: str) -> None:
        self._folder = Storage(folder) if folder is not None else None
        self._kind = kind
        self._query = query

    def save(
        self,
        name: str,
        since: str,
        part: int,
        parts: int,
        state: SavedState,
        wanted: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """Keep what one of `parts` tasks of a micro-batch has at an offset; `since` says where the batch began.

        `wanted` tells the names of states that stay, however long ago they were kept.
        """
        file = f"{self._kind}-{name}-{part}of{parts}"
        if self._folder is None:
            _live.put(f"{self._query} {file}", state)
            return
        content = _content(state, since)
        if not self._folder.exists():
            self._folder.make()
        self._folder.write(lambda out: out.write(content), file)
        if part == 0:
            self._remove_old(self._folder, wanted)

    def load(self, name: str) -> list[SavedState] | None:
        """What all tasks kept at an offset, in order, however many they were; None if it is not all there."""
        if self._folder is None:
            return self._remembered(name)
        prefix = f"{self._kind}-{name}-"
        ends = [file[len(prefix) :] for file in self._folder.names() if file.startswith(prefix)]
        counts = {int(count) for _, of, count in (end.partition("of") for end in ends) if of and count.isdigit()}
        for parts in sorted(counts):
            files = [_read(self._folder.read_bytes(f"{prefix}{part}of{parts}")) for part in range(parts)]
            states = [state for state, _ in filter(None, files)]
            # Tasks of batches that began elsewhere have shared the rows out otherwise.
            if len(states) == parts and len({since for _, since in filter(None, files)}) == 1:
                return states
        return None

    def newest(self) -> str | None:
        """The name with the greatest number of what is in the folder, where names are numbers."""
        if self._folder is None:
            return None
        prefix = f"{self._kind}-"
        names = {file[len(prefix) :].split("-")[0] for file in self._folder.names() if file.startswith(prefix)}
        return max(filter(str.isdigit, names), key=int, default=None)

    def _remembered(self, name: str) -> list[SavedState] | None:
        key = f"{self._query} {self._kind}-{name}-0of1"
        state = _live.take(key)
        if state is None:
            return None
        _live.put(key, state)  # the micro-batch may be run again
        return [state]

    def _remove_old(self, folder: Storage, wanted: Callable[[], Collection[str]]) -> None:
        """Leave the states of the last few offsets, and those that are wanted."""
        folder.sweep(older_than=_STALE_SECONDS)
        made: dict[str, int] = {}
        files: dict[str, list[str]] = {}
        for file in folder.names():
            offset = file.rsplit("-", 1)[0]
            if file.startswith(f"{self._kind}-"):
                made[offset] = max(made.get(offset, 0), folder.made(file))
                files.setdefault(offset, []).append(file)
        if len(made) <= _KEPT_FILES:
            return
        stay = {f"{self._kind}-{name}" for name in wanted()}
        for offset in sorted(made, key=made.__getitem__)[:-_KEPT_FILES]:
            for file in files[offset] if offset not in stay else ():
                folder.delete(file)


_FILE = re.compile(r".+-\d+of\d+")


def is_whole(content: bytes | None, file: str) -> bool | None:
    """Whether a file of a scratch folder is a state as it was written; None if it is no state, or gone."""
    if content is None or not _FILE.fullmatch(file):
        return None
    return content[:4] == _MAGIC and struct.pack("<I", zlib.crc32(memoryview(content)[8:])) == content[4:8]


def _content(state: SavedState, since: str) -> bytes:
    head = json.dumps({"format": _FORMAT, "since": since, "facts": state.facts, "tables": list(state.tables)}).encode()
    parts = [struct.pack("<q", len(head)), head]
    for table in state.tables.values():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        data = sink.getvalue()
        parts += [struct.pack("<q", data.size), data]
    rest = b"".join(parts)
    return _MAGIC + struct.pack("<I", zlib.crc32(rest)) + rest


def _read(content: bytes | None) -> tuple[SavedState, str] | None:
    """A state and where its batch began; None if the file is not there, or not as it was written."""
    if content is None or content[:4] != _MAGIC:
        return None
    rest = memoryview(content)[8:]
    if struct.pack("<I", zlib.crc32(rest)) != content[4:8]:
        return None
    at = 8 + struct.unpack_from("<q", rest)[0]
    head = json.loads(bytes(rest[8:at]))
    if head.get("format") != _FORMAT:
        return None
    tables: dict[str, pa.Table] = {}
    names: Sequence[str] = head["tables"]
    for name in names:
        size = struct.unpack_from("<q", rest, at)[0]
        tables[name] = pa.ipc.open_stream(pa.py_buffer(rest)[at + 8 : at + 8 + size]).read_all()
        at += 8 + size
    return SavedState(tables, head["facts"]), head["since"]


def copy_states(source: Storage, target: Storage) -> None:
    """Have the states in a folder in another one, too; those that are swept away meanwhile were of older offsets."""
    for file in source.names():
        content = source.read_bytes(file)
        if content is not None and is_whole(content, file):
            if not target.exists():
                target.make()
            target.write(functools.partial(_write, content), file)


def _write(content: bytes, out: Any) -> None:
    out.write(content)

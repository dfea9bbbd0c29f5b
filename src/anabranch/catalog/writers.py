"""The writers that a process has: one for each stream it appends to, taken on first use and kept."""

from __future__ import annotations

import threading

from anabranch.catalog.catalog import Catalog
from anabranch.clock import Clock
from anabranch.connectors import connector_of
from anabranch.errors import CatalogError
from anabranch.log.writer import StreamWriter
from anabranch.settings import Settings


class Writers:
    """See the module. Taking one waits for the lock of its stream, and for nobody who takes another."""

    def __init__(self, catalog: Catalog, settings: Settings, clock: Clock) -> None:
        self._catalog = catalog
        self._settings = settings
        self._clock = clock
        self._mutex = threading.Lock()
        self._taking: dict[str, threading.Lock] = {}
        self._writers: dict[str, StreamWriter] = {}

    def of(self, stream: str) -> StreamWriter:
        """The writer of a stream, taken if need be."""
        key = stream.lower()
        with self._lock(key):
            if key not in self._writers:
                info = self._catalog.stream(stream)
                connector = connector_of(info)
                if not connector.appendable:
                    raise CatalogError(
                        "STREAM_IS_AN_ANSWER",
                        f'stream "{info.name}" is filled by {connector.filled_by(info)}, rows cannot be appended to it',
                    )
                self._writers[key] = StreamWriter(self._catalog.stream_storage(stream), self._settings, self._clock)
            return self._writers[key]

    def known(self, stream: str) -> StreamWriter | None:
        """The writer of a stream if this process has it."""
        return self._writers.get(stream.lower())

    def all(self) -> list[StreamWriter]:
        return list(self._writers.values())

    def let_go(self, stream: str) -> None:
        """Close the writer of a stream, if this process has it; what it holds back stays held back."""
        with self._lock(stream.lower()):
            writer = self._writers.pop(stream.lower(), None)
            if writer is not None:
                writer.close(release=False)

    def close(self) -> None:
        for writer in self.all():
            writer.close()

    def _lock(self, key: str) -> threading.Lock:
        with self._mutex:
            return self._taking.setdefault(key, threading.Lock())

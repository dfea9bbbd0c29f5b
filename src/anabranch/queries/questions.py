"""Operators that are asked once: over what the streams hold now, here or by an engine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.catalog import Catalog
from anabranch.engine.options import SourceOptions, frame_scratch, options_for
from anabranch.engine.protocol import Engine
from anabranch.engine.reducing import Reducing
from anabranch.log.offset import MAX_TIME, End
from anabranch.log.stream import INFO
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.offset import Offset, offsets_to_json
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_HERE = max(os.cpu_count() or 1, 1)
"""Threads that read archives in this process."""


Ends = Mapping[str, End]
"""Up to where streams are read, by their names in small letters; others as far as they have come."""
NOW: Ends = {}


class _Kept:
    """A reader that is kept, and of which declaration of its stream it is."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.made = 0
        self.reader: Reader | None = None


class Questions:
    """Asks operators. `claims_time`: time goes on by the clock for what an engine streams to a program."""

    def __init__(
        self, catalog: Catalog, settings: Settings, engine: Callable[[], Engine], *, claims_time: bool
    ) -> None:
        self._catalog = catalog
        self._settings = settings
        self._engine = engine
        self._claims_time = claims_time
        self._mutex = threading.Lock()
        self._histories: dict[str, _Kept] = {}

    def history(self, stream: str) -> Reader:
        """A reader of a stream's whole life, kept from question to question: opening Delta tables takes time."""
        made = self._catalog.stream_storage(stream).made(INFO)
        with self._mutex:
            kept = self._histories.setdefault(stream.lower(), _Kept())
        with kept.mutex:
            if kept.reader is None or kept.made != made:
                kept.made, kept.reader = made, self._catalog.open_stream(stream, history=True)
            kept.reader.refresh()
            return kept.reader

    def options(self, operator: Operator, *, ended: bool = False, ends: Ends = NOW) -> SourceOptions:
        """How an engine reads an operator over the streams as they are now, or up to some `ends`.

        `ended`: read once, they count as ended, so that nothing waits for rows to come.
        """
        to = {name: _end_of(operator, self._end(name, ends), ended) for name in operator.inputs}
        return options_for(
            operator,
            self._catalog,
            self._settings,
            self._engine().parallelism,
            scratch=None if ended else frame_scratch(self._catalog, operator),
            claims_time=self._claims_time,
            ends=offsets_to_json(to),
        )

    def _end(self, stream: str, ends: Ends) -> End:
        end = self.history(stream).end()
        return ends.get(stream.lower(), end)

    def ask(self, operator: Operator, seconds: float = 0.0, ends: Ends = NOW) -> pa.Table:
        """All rows of an operator: by an engine's tasks if there is much to read, else here.

        The engine may take so many seconds; 0 is for ever.
        """
        readers = {name: self.history(name) for name in operator.inputs}
        inputs = Inputs(readers, window_memory=self._settings["window_memory_bytes"])
        end = {name: Offset.at(self._end(name, ends)) for name in operator.inputs}
        size = operator.bytes_to_read(end, inputs)
        if size > self._settings["archive_local_bytes"]:
            engine, options = self._engine(), self.options(operator, ends=ends)
            return engine.ask(lambda: engine.collect(engine.read_once(options), size), seconds)
        start = {name: Offset(reader.first_row()) for name, reader in readers.items()}
        tasks = operator.plan(start, end, inputs, _HERE)
        with ThreadPoolExecutor(_HERE) as pool:  # Arrow and the kernels leave the interpreter's lock alone
            parts = list(pool.map(lambda task: list(operator.run(task, inputs)), tasks))
        return pa.Table.from_batches([batch for part in parts for batch in part], operator.schema(inputs))

    def forget(self) -> None:
        """Close what was kept open."""
        with self._mutex:
            self._histories.clear()


def _end_of(operator: Operator, end: End, ended: bool) -> Offset:
    """Up to where a stream is read once, and how much of its history."""
    offset = Offset.at(end)._replace(time=MAX_TIME) if ended else Offset.at(end)
    return offset._replace(keep=Reducing(operator).keep(End(), offset.place)) if operator.reduction() else offset

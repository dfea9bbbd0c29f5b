"""A connector that is only here: numbers that go down, as many as the options say. A file, and a row of the table."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from anabranch.connectors import Connector, Declared, Option
from anabranch.dataspace.access import Access
from anabranch.errors import CatalogError
from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.testing.memory_log import MemoryLog


class CountdownReader(MemoryLog):
    """All numbers at once, a second apart."""

    def __init__(self, info: StreamInfo) -> None:
        super().__init__(info.schema)
        start = int(info.options["start"])
        self.append({"n": list(range(start, 0, -1)), "at": pa.array(range(start)).cast(pa.timestamp("s", "UTC"))})

    def end(self) -> End:
        return self.offset().place

    def refresh(self) -> None:
        """They are all there."""

    def offset_at(self, row: int, limit: End) -> End:
        return self.offset(min(row, limit.row)).place

    def size(self) -> int:
        return 0


class Countdown(Connector):
    name = "countdown"
    options = (Option("start", "The first number.", needed=True), Option("key", "Unlocks it.", secret=True))
    example = "start '10'"
    said = True
    asks_for_columns = True
    logged = False
    place = "nobody's disk"

    def declare(self, said: Declared, access: Access) -> StreamInfo:
        self.check_options(said.name, said.options)
        if not said.options["start"].isdecimal():
            raise CatalogError("OPTION_MISSING", "a countdown starts with a whole number")
        schema = StreamSchema.of((("n", "INT"), ("at", "TIMESTAMP")), "at")
        return StreamInfo(said.name, schema, origin=self.name, options=dict(said.options))

    def open(self, info: StreamInfo, storage: Storage, access: Access | None, *, history: bool) -> Any:
        return CountdownReader(info)

    def look(self, info: StreamInfo, storage: Storage, access: Access | None) -> End | None:
        return CountdownReader(info).end()

    def filled_by(self, info: StreamInfo) -> str:
        return f"a countdown from {info.options['start']}"

    def note(self, info: StreamInfo) -> str:
        return self.filled_by(info)

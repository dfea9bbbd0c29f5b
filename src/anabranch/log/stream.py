"""What a stream is: its name, its columns, how much disorder it allows, how long it is kept."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.errors import StreamError
from anabranch.log.storage import Storage
from anabranch.schema import TIME_TYPE, StreamSchema

INFO = "stream.json"
DATASPACE = "dataspace"
"""The origin of a stream whose rows are a data set of a server; its options say of which."""

REJECTS = "rejects"
"""The origin of a stream of rows that another one refused."""


@dataclass(frozen=True)
class StreamInfo:
    """The declaration of a stream, kept beside its segments."""

    name: str
    schema: StreamSchema
    skew_us: int = 0
    retain_us: int | None = None
    origin: str = "append"
    """Where its rows come from: `append`, `dataspace`, or the standing query whose answer it is."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    idle_us: int | None = None
    """Silent this long, a stream with a time of its own goes on with the clock, where it is waited for."""
    id: str = field(default_factory=lambda: secrets.token_hex(6), compare=False, repr=False)
    """Differs from that of a dropped stream of the same name."""

    @property
    def goes_with_the_clock(self) -> bool:
        """True if its rows are stamped by us as they come: then its time is the clock's."""
        stamped = self.origin == "append" and self.schema.stamped_on_arrival and not self.skew_us
        return stamped or self.origin == REJECTS

    def create(self, storage: Storage) -> None:
        storage.make()
        if self.origin != DATASPACE:
            storage.child("segments").make()
        if "token" in self.options and storage.is_local:
            os.chmod(storage.path, 0o700)
        self.save(storage)

    def save(self, storage: Storage) -> None:
        """Write the declaration."""
        storage.write_json(
            INFO,
            {
                "name": self.name,
                "schema": self.schema.to_json(),
                "skew_us": self.skew_us,
                "retain_us": self.retain_us,
                "origin": self.origin,
                "options": self.options,
                "idle_us": self.idle_us,
                "id": self.id,
            },
        )
        if "token" in self.options and storage.is_local:
            os.chmod(storage.full(INFO), 0o600)

    @staticmethod
    def load(storage: Storage) -> StreamInfo:
        data: dict[str, Any] | None = storage.read_json(INFO)
        if data is None and not has_rows(storage) and not storage.exists(INFO):
            raise StreamError("STREAM_NOT_FOUND", f"there is no stream in {storage.path}")
        try:
            return StreamInfo(**{"id": "", **(data or {}), "schema": StreamSchema.from_json((data or {})["schema"])})
        except (TypeError, KeyError, ValueError, AttributeError):
            raise StreamError(
                "DECLARATION_IS_DAMAGED",
                f"what was declared of the stream in {storage.path} cannot be read",
                detail=f"{storage.full(INFO)} is lost or not what was written",
                hint="put the file back from a copy of the database",
            ) from None


def has_rows(storage: Storage) -> bool:
    """Whether there are files of a stream's rows, whatever became of its declaration."""
    return bool(storage.child("segments").files())


def rejects_info(info: StreamInfo) -> StreamInfo:
    """The stream that keeps what `info`'s stream refused: its columns, when, and why."""
    fields = [*info.schema.arrow, pa.field("_reason", pa.string()), pa.field("_rejected_at", TIME_TYPE)]
    return StreamInfo(f"{info.name}.rejects", StreamSchema(pa.schema(fields), "_rejected_at"), origin=REJECTS)

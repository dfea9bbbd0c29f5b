"""Small streams to write to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.settings import Settings


class Clock:
    """A clock that only tests turn."""

    def __init__(self, now_us: int = 1_800_000_000_000_000) -> None:
        self.now = now_us

    def now_us(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def storage(tmp_path: Path) -> Callable[..., Storage]:
    """Makes a stream of (id BIGINT, ts TIMESTAMP) and gives its directory."""

    def make(name: str = "s", **declared: Any) -> Storage:
        place = Storage(str(tmp_path / name))
        StreamInfo(name, StreamSchema.of({"id": "BIGINT", "ts": "TIMESTAMP"}, "ts"), **declared).create(place)
        return place

    return make


@pytest.fixture
def writer(clock: Clock) -> Callable[..., StreamWriter]:
    def make(place: Storage, **settings: Any) -> StreamWriter:
        return StreamWriter(place, Settings(settings, environment={}), clock)

    return make


def rows(*pairs: tuple[int, float | None]) -> list[dict[str, Any]]:
    """Rows of (id, seconds since 2026-01-01)."""
    base = 1_767_225_600
    return [{"id": i, "ts": None if s is None else _time(base + s)} for i, s in pairs]


def _time(seconds: float) -> Any:
    import datetime as dt

    return dt.datetime.fromtimestamp(seconds, tz=dt.UTC)


def ids(place: Storage) -> list[int]:
    """The ids of all rows of a stream, in order."""
    reader = StreamReader(place)
    end = reader.end()
    found: list[int] = reader.read(reader.first_row(), end.row).column("id").to_pylist()
    return found


def killed(writer: StreamWriter) -> None:
    """As if its process had died: its lock is free, and nothing was closed."""
    assert writer._lock is not None
    writer._lock.release()

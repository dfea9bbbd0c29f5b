"""How late an answer is while events come: from an append to the end of the micro-batch that took it in."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa

import anabranch as ab
from anabranch.database import Database
from anabranch.queries import Query as Standing
from benchmarks.harness import percentile, say
from tests.nexmark.events import AUCTIONS, CREATE, EPOCH, PEOPLE, STREAMS, blocks, side_rows
from tests.nexmark.texts import Query

_PARTS = {"person": PEOPLE, "auction": AUCTIONS, "bid": EPOCH - PEOPLE - AUCTIONS}
_WARM = 2
"""Seconds that do not count."""


def made(db: Database) -> None:
    """The streams and the table of Nexmark."""
    db.sql(CREATE)
    db.sql("CREATE TABLE side_input (key BIGINT PRIMARY KEY, value STRING)")
    db.upsert("side_input", side_rows())


def standing(db: Database, query: Query) -> Standing:
    """What keeps the answer of a query."""
    return db.get_query(f"{query.name}.changes" if query.is_view else query.name)


def late(path: Path, query: Query, per_second: int, seconds: int) -> tuple[float, float]:
    """Half and 99 of 100 looks, fifty a second, find that the oldest event that waits came so many seconds ago."""
    each = max(EPOCH, per_second // 20 // EPOCH * EPOCH)
    count = (seconds + _WARM) * per_second
    some = list(blocks(0, count, per_second=per_second))
    events = {name: pa.concat_tables([block.stream(name) for block in some]) for name in STREAMS}
    watched = next(name for name in ("bid", "auction") if name in query.sources)
    with ab.open(path) as db:
        made(db)
        db.sql(query.statement)
        for number in range(2):  # what is started once is started
            _append(db, events, number * each, each)
            standing(db, query).wait(300)
        lags = _Lags(standing(db, query), watched)
        began, at = time.monotonic(), 2 * each
        while at + each <= count:
            _append(db, events, at, each)
            at += each
            lags.came(at // EPOCH * _PARTS[watched])
            time.sleep(max(0.0, began + (at - 2 * each) / per_second - time.monotonic()))
        found = lags.stop()
    p50, p99 = percentile(found, 0.5), percentile(found, 0.99)
    say(f"{query.name} at {per_second:,} events/s: p50 {p50:.3f} s, p99 {p99:.3f} s")
    return p50, p99


class _Lags:
    """How long ago the oldest row came that is not taken in."""

    def __init__(self, query: Standing, stream: str) -> None:
        self._query = query
        self._stream = stream
        self._seen: list[tuple[int, float]] = []
        self._lags: list[float] = []
        self._stopped = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def came(self, rows: int) -> None:
        """So many rows are there now."""
        self._seen.append((rows, time.monotonic()))

    def _look(self) -> None:
        while not self._stopped.wait(0.02):
            done = self._query._done()[self._stream].row
            now = time.monotonic()
            while self._seen and self._seen[0][0] <= done:
                self._seen.pop(0)
            if now > self._began + _WARM:
                self._lags.append(now - self._seen[0][1] if self._seen else 0.0)

    def stop(self) -> list[float]:
        self._stopped.set()
        self._thread.join()
        return self._lags


def _append(db: Database, events: dict[str, pa.Table], begin: int, count: int) -> None:
    for name, part in _PARTS.items():
        db.append(name, events[name].slice(begin // EPOCH * part, count // EPOCH * part))

"""Where a file is played: a database of its own, with a clock that only the file turns."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from anabranch.connectors import connector_of
from anabranch.database import Database
from anabranch.testing.clock import ManualClock
from anabranch.testing.slt.cells import Rows, shown, table_of, time_of
from anabranch.testing.sparkless import SparklessDatabase

NOW = "2026-01-02 00:00:00"
"""What the clock says when a file begins."""
PATIENCE = 120.0
"""How long a query may take to catch up, in seconds."""


class Stage:
    """A database that a file is played against; `play` says what the calls mean."""

    def __init__(self, open_database: Callable[[ManualClock], Database], now: str = NOW) -> None:
        self._open = open_database
        self._clock = ManualClock(now)
        self._db = open_database(self._clock)

    def sql(self, text: str) -> Rows:
        self.settle()
        return shown(self._db.sql(text).table())

    def push(self, stream: str, lines: tuple[str, ...], batch: int) -> None:
        """Append rows; a batch that was pushed before is passed over."""
        table = table_of(lines, self._db.catalog.schema(stream).arrow)
        self._db.append(stream, table, producer="slt", batch=batch)

    def flush(self, stream: str) -> None:
        self._db.flush(stream)

    def advance(self, stream: str, time: str) -> None:
        self._db.advance(stream, time_of(time))

    def clock(self, time: str) -> None:
        self._clock.set(time)

    def answers(self, query: str) -> Rows:
        self._wait(query)
        return shown(self._db.get_query(query).table())

    def store(self, query: str) -> Rows:
        self._wait(query)
        return shown(self._db.get_query(query).store())

    def settle(self) -> None:
        """Until every running query has taken in what there is."""
        for query in self._db.queries():
            if query.status in ("running", "starting"):
                self._wait(query.name)

    def _wait(self, query: str) -> None:
        if isinstance(self._db, SparklessDatabase):
            self._db.catch_up()
        standing = self._db.get_query(query)
        if standing.status != "stopped":
            standing.wait(PATIENCE)

    def restart(self) -> None:
        """Close without releasing what streams hold back, as a kill would, and open again."""
        self._end()
        self._db = self._open(self._clock)

    def _end(self) -> None:
        for info in self._db.streams():
            if connector_of(info).appendable:
                self._db.writer(info.name).close(release=False)
        self._db.close()

    def close(self) -> None:
        self._db.close()


class InterruptedStage(Stage):
    """A stage that ends before rows come, every time with another part of its queries' checkpoints lost."""

    _FAULTS = ("nothing", "all", "newest commit", "newest offsets", "metadata", "emptied offsets")

    def __init__(self, open_database: Callable[[ManualClock], Database], path: Path, now: str = NOW) -> None:
        super().__init__(open_database, now)
        self._path = path
        self._interrupted = 0

    def push(self, stream: str, lines: tuple[str, ...], batch: int) -> None:
        if self._interrupted % 2:
            self.settle()
        self.restart()
        super().push(stream, lines, batch)

    def restart(self) -> None:
        fault = self._FAULTS[self._interrupted % len(self._FAULTS)]
        self._interrupted += 1
        self._end()
        for checkpoint in self._path.glob("queries/*/checkpoint"):
            _lose(checkpoint, fault)
        self._db = self._open(self._clock)


def _lose(checkpoint: Path, fault: str) -> None:
    if fault == "all":
        shutil.rmtree(checkpoint)
        return
    if fault == "metadata":
        (checkpoint / "metadata").unlink(missing_ok=True)
    log = {"newest commit": "commits", "newest offsets": "offsets", "emptied offsets": "offsets"}.get(fault)
    numbered = [file for file in checkpoint.glob(f"{log}/*") if file.name.isdigit()] if log else []
    if not numbered:
        return
    newest = max(numbered, key=lambda file: int(file.name))
    if fault.startswith("emptied"):
        newest.write_bytes(b"")
    else:
        newest.unlink()

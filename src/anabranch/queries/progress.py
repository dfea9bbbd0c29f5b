"""How a query is doing: counted by the process that runs it, readable by any other."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset, Offsets, offsets_from_json
from anabranch.operators.reports import REPORTS
from anabranch.operators.work import Work

PROGRESS = "progress.json"
_RATE_SECONDS = 10.0
_KEPT_EVENTS = 100

_log = logging.getLogger("anabranch.queries")


@dataclass
class Counts:
    """Totals over the life of a query; `done` is how far it has taken in each stream."""

    batches: int = 0
    last_batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    rows_thrown: int = 0
    scratch_rows: int = 0
    scratch_bytes: int = 0
    reports: dict[str, Any] = field(default_factory=dict)
    """What is kept of what its operator reports, by the kind of report (`operators.reports`)."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What happened to it that people should know, the newest last."""
    done: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    last_batch_ms: float = 0.0
    rows_per_second: float = 0.0
    at: float = 0.0
    answers: int | None = None
    """How many rows its Stream had when it had come to `done`."""


_COUNTED = {count.name for count in fields(Counts)}


class Progress:
    """The counts of a query, kept in a small file beside it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._changed = threading.Condition()
        self._recent: list[tuple[float, int]] = []
        saved = storage.read_json(PROGRESS) or {}
        saved["done"] = {name: tuple(offset) for name, offset in saved.get("done", {}).items()}
        self.counts = Counts(**{name: value for name, value in saved.items() if name in _COUNTED})

    def done(self) -> dict[str, Offset]:
        return offsets_from_json(self.counts.done)

    def place(self) -> tuple[dict[str, Offset], int | None]:
        """How far it has taken in each stream, and how many rows its Stream had then."""
        with self._changed:
            return self.done(), self.counts.answers

    def speaks_of(self, answers: int, position: Offsets) -> bool:
        """Whether it was written with the answers that are there, or when micro-batches after them had none.

        `position` is where those answers end. A directory that was copied or put back in parts may have counts of
        another time.
        """
        done = self.done()
        return (
            bool(done)
            and self.counts.answers == answers
            and all(name in done and done[name].place >= offset.place for name, offset in position.items())
        )

    def batch(
        self,
        number: int,
        end: dict[str, Offset],
        *,
        milliseconds: float,
        rows_in: int,
        rows_out: int,
        work: Work,
        answers: int,
    ) -> None:
        """Count a micro-batch whose answer is in the log."""
        now = time.time()
        with self._changed:
            counts = self.counts
            done = self.done()
            if any(name not in done or offset.place > done[name].place for name, offset in end.items()):
                counts.last_batch = number
                counts.batches += 1
                counts.rows_in += rows_in
                counts.rows_out += rows_out
                counts.rows_thrown += work.rows_thrown
                counts.bytes_in += work.bytes_read
                self._take_reports(work, now)
            if work.measured:  # a micro-batch in which nothing had to be done leaves it as it is
                counts.scratch_rows, counts.scratch_bytes = work.scratch_rows, work.scratch_bytes
            counts.done.update({name: tuple(offset) for name, offset in end.items()})
            counts.last_batch_ms = milliseconds
            counts.answers = answers
            self._recent = [(t, n) for t, n in self._recent if now - t < _RATE_SECONDS] + [(now, rows_in)]
            span = now - self._recent[0][0]
            counts.rows_per_second = sum(n for _, n in self._recent[1:]) / span if span > 0 else 0.0
            counts.at = now
            self._changed.notify_all()
        self._storage.write_json(PROGRESS, asdict(counts), durable=False)

    def _take_reports(self, work: Work, now: float) -> None:
        """Keep what the operator reports, and tell what people should know of it."""
        kept = self.counts.reports
        for kind, said in work.reports.items():
            for event, text in REPORTS[kind].events(kept.get(kind), said):
                self._tell(event, text, now)
            kept[kind] = REPORTS[kind].after(kept.get(kind), said)

    def tell(self, name: str, text: str) -> None:
        """Note something people should know."""
        with self._changed:
            self._tell(name, text, time.time())
        self._storage.write_json(PROGRESS, asdict(self.counts), durable=False)

    def note(self, name: str, text: str) -> None:
        """Note something that mended itself: nobody has to be told."""
        with self._changed:
            self._keep(name, text, time.time())
        self._storage.write_json(PROGRESS, asdict(self.counts), durable=False)

    def _tell(self, name: str, text: str, now: float) -> None:
        _log.warning("%s %s", name, text)
        self._keep(name, text, now)

    def _keep(self, name: str, text: str, now: float) -> None:
        self.counts.events = [*self.counts.events[1 - _KEPT_EVENTS :], {"at": now, "event": name, "text": text}]

    def wait_for(self, timeout: float) -> None:
        """Until the next micro-batch, or until time is up."""
        with self._changed:
            self._changed.wait(timeout)

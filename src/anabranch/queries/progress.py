"""How a query is doing: counted by the process that runs it, readable by any other."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from anabranch.log.offset import Offset
from anabranch.log.storage import Storage
from anabranch.log.writer import StreamWriter
from anabranch.operators.base import Work

PROGRESS = "progress.json"
_RATE_SECONDS = 10.0
_KEPT_EVENTS = 100

_log = logging.getLogger("anabranch.queries")


@dataclass
class Counts:
    """Totals over the life of a query; `done` is how far it has taken in each stream.

    `found` and `expected` are about approximate joins: results, and how many there would have been, as
    estimated; `completeness` is their ratio in the last batch that had any.
    """

    batches: int = 0
    last_batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    rows_thrown: int = 0
    scratch_rows: int = 0
    scratch_bytes: int = 0
    found: float = 0.0
    expected: float = 0.0
    completeness: float = 1.0
    merges: list[dict[str, Any]] = field(default_factory=list)
    """What its merges count, see `operators.merge.counts`."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """What happened to it that people should know, the newest last."""
    done: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    last_batch_ms: float = 0.0
    rows_per_second: float = 0.0
    at: float = 0.0
    answers: int | None = None
    """How many rows its Stream had when it had come to `done`."""


class Progress:
    """The counts of a query, kept in a small file beside it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._changed = threading.Condition()
        self._recent: list[tuple[float, int]] = []
        saved = storage.read_json(PROGRESS) or {}
        saved["done"] = {name: tuple(offset) for name, offset in saved.get("done", {}).items()}
        self.counts = Counts(**saved)

    def done(self) -> dict[str, Offset]:
        return {name: Offset(*offset) for name, offset in self.counts.done.items()}

    def speaks_of(self, writer: StreamWriter) -> bool:
        """Whether it was written with the answers that are there, or when micro-batches after them had none.

        A directory that was copied or put back in parts may have counts of another time.
        """
        counts, position = self.counts, writer.position("query") or {}
        done = self.done()
        return (
            bool(done)
            and counts.answers == writer.next_row
            and all(name in done and done[name][:2] >= offset[:2] for name, offset in position.items())
        )

    def batch(
        self, number: int, end: dict[str, Offset], *, milliseconds: float, work: Work, answers: int, **added: int
    ) -> None:
        """Count a micro-batch whose answer is in the log."""
        now = time.time()
        with self._changed:
            counts = self.counts
            done = self.done()
            if any(name not in done or offset[:2] > done[name][:2] for name, offset in end.items()):
                counts.last_batch = number
                counts.batches += 1
                for name in ("rows_in", "rows_out", "rows_thrown"):
                    setattr(counts, name, getattr(counts, name) + added[name])
                counts.bytes_in += work.bytes_read
                counts.found += work.found
                counts.expected += work.expected
            if work.merges:
                self._tell_promises(work, now)
                counts.merges = work.merges
            if work.expected:
                counts.completeness = work.found / work.expected
            counts.scratch_rows, counts.scratch_bytes = work.scratch_rows, work.scratch_bytes
            counts.done.update({name: tuple(offset) for name, offset in end.items()})
            counts.last_batch_ms = milliseconds
            counts.answers = answers
            self._recent = [(t, n) for t, n in self._recent if now - t < _RATE_SECONDS] + [(now, added["rows_in"])]
            span = now - self._recent[0][0]
            counts.rows_per_second = sum(n for _, n in self._recent[1:]) / span if span > 0 else 0.0
            counts.at = now
            self._changed.notify_all()
        self._storage.write_json(PROGRESS, asdict(counts), durable=False)

    def _tell_promises(self, work: Work, now: float) -> None:
        """An event where a merge no longer keeps its promise of completeness, and where it does again."""
        before = Work(merges=self.counts.merges).report or {}
        after = work.report or {}
        earlier = {tuple(each["streams"]): each.get("promise") for each in before.get("merges", [before]) if before}
        for each in after.get("merges", [after]):
            was, now_is = earlier.get(tuple(each["streams"])), each.get("promise")
            if now_is == "broken" and was != "broken":
                self._event("merge_promise_broken", each, now)
            elif was == "broken" and now_is == "kept":
                self._event("merge_promise_kept", each, now)

    def _event(self, name: str, merge: dict[str, Any], now: float) -> None:
        best = merge["kappa_max"]
        text = (
            f"Δ of {' and '.join(merge['streams'])} is {merge['delta']:.3f}, promised was less than "
            f"{merge['promised']:g}; its window has {merge['window']} records and its step {merge['step']}"
            + (f"; at best {best:.3f} of the records could merge" if best is not None else "")
        )
        self._tell(name, text, now)

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

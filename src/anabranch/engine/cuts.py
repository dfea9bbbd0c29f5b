"""Where queries stop for a moment, so that several can be read at one version of what they are made from.

Who reads writes down how far each stream has come, and which queries are to stop there. Their sources look for it when
they decide where a micro-batch ends, and go no further until it is taken away again, or nobody confirms it any more.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.log.offset import End
from anabranch.log.storage import Storage

FILE = "cut.json"
"""In the directory of the database. There is one cut at a time."""

_HOLDS_SECONDS = 2.0
"""After so long without a word the one who reads is taken to be gone."""

_REMOTE_SECONDS = 0.2
"""A file on another machine is not looked for more often."""


@dataclass(frozen=True)
class Cut:
    """`queries` take in no more of any stream than up to its end."""

    id: str
    until: float
    queries: frozenset[str]
    ends: Mapping[str, End]

    def limited(self, ends: Mapping[str, End]) -> dict[str, End]:
        """Ends of streams, none further than here."""
        return {
            name: End(*map(min, end, self.ends[name])) if name in self.ends else end for name, end in ends.items()
        }


class Cuts:
    """The cut of a database, as any process sees it."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._made = 0
        self._looked = 0.0
        self._cut: Cut | None = None

    def now(self) -> Cut | None:
        """The cut there is."""
        if self._storage.is_local or time.monotonic() - self._looked > _REMOTE_SECONDS:
            self._look()
        cut = self._cut
        return cut if cut is not None and time.time() < cut.until else None

    def _look(self) -> None:
        self._looked = time.monotonic()
        made = self._storage.made(FILE)
        if made != self._made:
            saved = self._storage.read_json(FILE) if made else None
            self._made, self._cut = made, None if saved is None else _read(saved)

    def limited(self, query: str | None, ends: dict[str, End]) -> dict[str, End]:
        """How far a query may take in its streams."""
        cut = self.now()
        return cut.limited(ends) if cut is not None and query in cut.queries else ends

    def make(self, queries: frozenset[str], ends: Mapping[str, End]) -> Cut:
        """Stop queries at some ends; only where there is no other cut."""
        cut = Cut(secrets.token_hex(8), time.time() + _HOLDS_SECONDS, queries, dict(ends))
        self._write(cut)
        return cut

    def confirm(self, cut: Cut) -> Cut | None:
        """The cut, which holds for longer now; None if it does not hold any more."""
        self._look()
        left = cut.until - time.time()
        if self._cut is None or self._cut.id != cut.id or left <= 0:
            return None
        if left < _HOLDS_SECONDS / 2:
            cut = Cut(cut.id, time.time() + _HOLDS_SECONDS, cut.queries, cut.ends)
            self._write(cut)
        return cut

    def end(self, cut: Cut) -> None:
        """Let the queries go on."""
        self._look()
        if self._cut is not None and self._cut.id == cut.id:
            self._storage.delete(FILE)

    def _write(self, cut: Cut) -> None:
        ends = {name: list(end) for name, end in cut.ends.items()}
        saved = {"id": cut.id, "until": cut.until, "queries": sorted(cut.queries), "ends": ends}
        self._storage.write_json(FILE, saved, durable=False)


def _read(saved: Mapping[str, object]) -> Cut | None:
    match saved:
        case {"id": str(name), "until": float(until), "queries": list(queries), "ends": dict(ends)}:
            return Cut(name, until, frozenset(queries), {stream: End(*end) for stream, end in ends.items()})
    return None

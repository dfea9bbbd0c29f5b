"""Where queries stop for a moment, so that what they answer can be read at one version of what they are made from.

    cuts/<id>.json    of one who reads: how far each stream is to be taken in meanwhile, and by which queries

Whoever reads writes it down, and says now and then that it is still there. The sources of the queries look for it when
they decide where a micro-batch ends, and go no further. A cut of which nothing is heard any more holds nobody: each
source measures that with its own clock. Nothing rests on a cut being seen, it only has what is read come to one place.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import NamedTuple, Self

from anabranch.log.offset import End
from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset, Offsets

FOLDER = "cuts"
"""In the directory of the database."""

HOLDS_SECONDS = 2.0
"""After so long without a word the one who reads is taken to be gone."""

_REMOTE_SECONDS = 0.2
"""A directory on another machine is not looked at more often."""
_LEFT_SECONDS = 60.0
"""A file of so long ago is deleted by the next one who reads."""


class Cut:
    """One who reads makes it, moves it if some have gone past it, and takes it away."""

    def __init__(self, folder: Storage, queries: Iterable[str]) -> None:
        self._folder = folder
        self._file = f"{secrets.token_hex(8)}.json"
        self._queries = sorted(query.lower() for query in queries)
        self._said = 0.0
        self.ends: Mapping[str, End] | None = None
        """How far streams are taken in; None: it does not stand yet."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ends is not None:
            self._folder.delete(self._file)

    def stand(self, ends: Mapping[str, End]) -> None:
        """Have the queries stop at some ends."""
        if self.ends is None:
            self._folder.make(durable=False)
            _clear(self._folder)
        self.ends = dict(ends)
        self._say()

    def confirm(self) -> None:
        """Say that it is still there, if that was a while ago."""
        if self.ends is not None and time.monotonic() - self._said > HOLDS_SECONDS / 4:
            self._say()

    def _say(self) -> None:
        self._said = time.monotonic()
        ends = {name.lower(): list(end) for name, end in (self.ends or {}).items()}
        self._folder.write_json(self._file, {"queries": self._queries, "ends": ends}, durable=False)


class _Seen(NamedTuple):
    """A cut as a source has met it."""

    made: int
    since: float
    ends: Mapping[str, End] | None
    """None: it is not about this query."""


class Cuts:
    """The cuts that hold one query, for its source."""

    def __init__(self, folder: str | None, query: str | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = None if folder is None or query is None else Storage(folder)
        self._query = (query or "").lower()
        self._clock = clock
        self._looked: float | None = None
        self._seen: dict[str, _Seen] = {}

    def limited(self, begin: Offsets, ends: dict[str, End]) -> dict[str, End]:
        """How far the query, which is at `begin`, may take in its streams, whose `ends` were looked at before."""
        now = self._clock()
        if self._folder is not None and (
            self._folder.is_local or self._looked is None or now - self._looked > _REMOTE_SECONDS
        ):
            self._looked = now
            self._look(self._folder, now)
        for cut in self._seen.values():
            if cut.ends is not None and now - cut.since < HOLDS_SECONDS:
                ends = {name: _held(begin[name], end, cut.ends.get(name.lower())) for name, end in ends.items()}
        return ends

    def _look(self, folder: Storage, now: float) -> None:
        names = folder.names()
        if not names and not self._seen:
            return
        seen = {}
        for name in names:
            known, made = self._seen.get(name), folder.made(name)
            if known is not None and known.made == made:
                seen[name] = known
            elif made:
                seen[name] = _Seen(made, now, self._read(folder, name))
        self._seen = seen

    def _read(self, folder: Storage, name: str) -> Mapping[str, End] | None:
        with contextlib.suppress(TypeError, ValueError):  # it is no cut
            match folder.read_json(name):
                case {"queries": list(queries), "ends": dict(ends)} if self._query in queries:
                    return {stream: End(int(row), int(time)) for stream, (row, time) in ends.items()}
        return None


def _held(begin: Offset, end: End, cut: End | None) -> End:
    if cut is None:
        return end
    return End(max(begin.row, min(end.row, cut.row)), max(begin.time, min(end.time, cut.time)))


def _clear(folder: Storage) -> None:
    """Delete what those left who were killed."""
    until = time.time() - _LEFT_SECONDS
    for name in folder.names():
        if 0 < folder.made(name) / 1e9 < until:
            folder.delete(name)

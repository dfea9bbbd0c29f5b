"""A look through everything a stream has on disk: segments, arrivals, marks; beside a writer, without false alarms."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from pyarrow import fs

from anabranch.errors import StreamError
from anabranch.log import lost, retention
from anabranch.log.findings import Finding, Seen
from anabranch.log.reader import StreamReader
from anabranch.log.segment import Segment, chain, read_notes
from anabranch.log.storage import TEMPORARY, Storage
from anabranch.log.stream import INFO, StreamInfo
from anabranch.log.sums import read_whole
from anabranch.log.writer import missing_arrivals

_PATIENCE_SECONDS = 2.0
_SUMMED = re.compile(r".*-([0-9a-f]{16})\.arrow")
_MARK = ".json"
"""What is written down beside the rows: the time that was claimed, what was let go, what was lost, …"""

Mend = Callable[[list[Segment], lost.Loss], tuple[str | None, Callable[[], None] | None]]
"""Says what can be done about rows that are lost, given the segments that are damaged, and does it."""


def check_stream(storage: Storage, info: StreamInfo, written: bool, mend: Mend, seen: Seen) -> Iterator[Finding]:
    """What is wrong with a stream; `written` while a process writes it."""
    yield from left_over(storage, ("segments", "arrivals"), written, info.name)
    damaged = list(_damaged(storage.child("segments"), info, seen))
    bad = [segment for segment, _ in damaged]
    for rows in _joined([*(lost.Loss(s.first, s.end) for s in bad), *_gaps(storage)]):
        inside = [(s, why) for s, why in damaged if s.first < rows.end and rows.first < s.end]
        remedy, action = mend([segment for segment, _ in inside], rows)
        files = "; ".join(f"{segment.name}: {why}" for segment, why in inside) or "no file holds them"
        yield Finding(
            "rows missing" if not inside else "file damaged",
            storage.child("segments").path,
            f'{rows} of stream "{info.name}" cannot be read: {files}',
            info.name,
            rows,
            remedy,
            action,
        )
    if info.skew_us:
        yield from _arrivals(storage, info, written, seen)
    yield from _marks(storage, info)


def _gaps(storage: Storage) -> list[lost.Loss]:
    """Rows that no whole segment holds; a list that is made while segments are merged is made again."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        gaps = StreamReader(storage).gaps()
        if not gaps or time.monotonic() > deadline:
            return gaps
        time.sleep(0.05)


def _joined(losses: list[lost.Loss]) -> list[lost.Loss]:
    joined: list[lost.Loss] = []
    for loss in sorted(losses):
        if joined and loss.first <= joined[-1].end:
            joined[-1] = lost.Loss(joined[-1].first, max(joined[-1].end, loss.end))
        else:
            joined.append(loss)
    return joined


def _damaged(segments: Storage, info: StreamInfo, seen: Seen) -> Iterator[tuple[Segment, str]]:
    """Segments of which rows are wanted and that are not as they were written."""
    for segment in chain(s for name, size in segments.files().items() if (s := Segment.parse(name, size))):
        try:
            table = read_whole(segments, segment.name, segment.sum, again=True)
            if table.num_rows != segment.rows:
                yield segment, f"it holds {table.num_rows} of {segment.rows} rows"
        except FileNotFoundError:
            continue  # merged, or let go; if not, its rows are missing
        except ValueError as problem:
            yield segment, str(problem)
        seen(segment.size)


def _arrivals(storage: Storage, info: StreamInfo, written: bool, seen: Seen) -> Iterator[Finding]:
    """Files of rows that were acknowledged and are not in order yet."""
    arrivals = storage.child("arrivals")
    bad = []
    for name, size in sorted(arrivals.files().items()):
        match = _SUMMED.fullmatch(name)
        try:
            read_whole(arrivals, name, int(match[1], 16) if match else None, again=True)
        except FileNotFoundError:
            continue
        except ValueError as problem:
            bad.append(name)
            yield Finding(
                "file damaged",
                arrivals.full(name),
                f'rows of stream "{info.name}" that wait for older ones cannot be read: {problem}',
                info.name,
                None,
                "moves it to damaged/; the stream goes on without its rows",
                lambda name=name: _give_up_arrivals(storage, info, [name]),  # type: ignore[misc]
            )
        seen(size)
    if written or bad:
        return
    kept = chain(s for n, z in storage.child("segments").files().items() if (s := Segment.parse(n, z)))
    try:
        notes = read_notes(storage.child("segments"), kept[-1], info.name) if kept else {}
    except StreamError:
        return  # found with the segments
    missing = missing_arrivals(storage, info, notes)
    if missing:
        yield Finding(
            "rows missing",
            arrivals.path,
            f'{missing.files} files of rows of stream "{info.name}" that wait for older ones are not there',
            info.name,
            None,
            "records the loss; the stream goes on without their rows",
            lambda: lost.agree_to(storage, [], [missing.record]),
        )


def _give_up_arrivals(storage: Storage, info: StreamInfo, names: list[str]) -> None:
    for name in names:
        set_aside(storage, "arrivals", name)
    kept = chain(s for n, z in storage.child("segments").files().items() if (s := Segment.parse(n, z)))
    notes = read_notes(storage.child("segments"), kept[-1], info.name) if kept else {}
    missing = missing_arrivals(storage, info, notes)
    if missing:
        lost.agree_to(storage, [], [missing.record])


def _marks(storage: Storage, info: StreamInfo) -> Iterator[Finding]:
    for name in sorted(storage.names()):
        if name.endswith(_MARK) and name != INFO and storage.read_json(name) is None and storage.exists(name):
            means = f'a mark of stream "{info.name}" cannot be read, and counts as if it were not there'
            yield Finding("file damaged", storage.full(name), means, info.name, None, "moves it to damaged/",
                          lambda name=name: set_aside(storage, "", name))  # type: ignore[misc]  # fmt: skip
    holds = storage.child(retention.HOLDS)
    for name in holds.files():
        if holds.read_json(name) is None and holds.exists(name):
            means = "what a query or an archive still needs cannot be read; nothing is let go until it says it again"
            yield Finding("file damaged", holds.full(name), means, info.name)


def left_over(storage: Storage, places: tuple[str, ...], written: bool, stream: str | None) -> Iterator[Finding]:
    """Files of writes that never ended; while a process writes they may be its own."""
    for place in () if written else places:
        folder = storage.child(place)
        for about in folder.filesystem.get_file_info(fs.FileSelector(folder.path, allow_not_found=True)):
            if about.type == fs.FileType.File and about.base_name.endswith(TEMPORARY):
                means = "left by a write that never ended; nobody reads it"
                yield Finding("left over", about.path, means, stream, None, "deletes it",
                              lambda folder=folder, name=about.base_name: folder.delete(name))  # type: ignore[misc]  # fmt: skip


def set_aside(stream: Storage, place: str, name: str) -> None:
    """Move a file of a stream out of the way, to `damaged/` beside it."""
    source = stream.child(place) if place else stream
    target = stream.child("damaged")
    target.make()
    source.filesystem.move(source.full(name), target.full(name))

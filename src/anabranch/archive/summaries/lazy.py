"""Summaries that earlier questions computed, kept beside an archive (the lazy form of the paper's section 4.2.2).

    summaries/<shape>/shape.json          every, keys, values, and the types of their columns
                      <start>.<end>.parquet   all summaries of the windows from start to end (µs)

What a file holds is a function of the stream's rows, so processes that write the same at once do no harm, and
a file that is lost only costs time. Only whole windows go in: those that the stream's time has passed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.archive.summaries.rollups import Shape
from anabranch.archive.summaries.time_spans import Span, joined
from anabranch.errors import StreamError
from anabranch.log.storage import Storage
from anabranch.schema import TIME_TYPE

_SHAPE = "shape.json"
_FILE = re.compile(r"(-?\d+)\.(-?\d+)\.parquet")
_MANY_FILES = 16
"""From how many files on they are put together into one per run of windows."""


class SummarySource(Protocol):
    """Where summaries can be had without reading rows."""

    def shapes(self) -> list[Shape]:
        """Which there are."""
        ...

    def covered(self, shape: Shape) -> list[Span]:
        """Of which times there are all windows; in order, apart from each other."""
        ...

    def read(self, shape: Shape, span: Span) -> pa.Table | None:
        """The summaries of covered windows; None if they have gone meanwhile."""
        ...


class LazySummaries:
    """The summaries kept below an archive's directory, for rows with a schema."""

    def __init__(self, storage: Storage, schema: pa.Schema) -> None:
        self._storage = storage.child("summaries")
        self._schema = schema

    def shapes(self) -> list[Shape]:
        return sorted(self._places(), key=lambda shape: (-shape.every, len(shape.keys), shape.keys, shape.values))

    def covered(self, shape: Shape) -> list[Span]:
        return joined(self._spans(shape))

    def read(self, shape: Shape, span: Span) -> pa.Table | None:
        place = self._place(shape)
        parts, at = [], span[0]
        for start, end in sorted(self._spans(shape)):
            if start <= at < min(end, span[1]):
                wanted = (at, min(end, span[1]))
                try:
                    parts.append(_read(place, (start, end), wanted))
                except FileNotFoundError:
                    return None
                except pa.ArrowInvalid:
                    place.delete(_name((start, end)))
                    return None
                at = wanted[1]
        if at < span[1]:
            return None
        return pa.concat_tables([shape.schema(self._schema).empty_table(), *parts])

    def add(self, shape: Shape, span: Span, summaries: pa.Table) -> None:
        """Keep the summaries of whole windows, if that is possible: no question fails because it is not."""
        if span[0] >= span[1] or any(start <= span[0] and span[1] <= end for start, end in self.covered(shape)):
            return
        with contextlib.suppress(OSError, StreamError):  # no room, not allowed, or dropped by another process
            self._add(shape, span, summaries)

    def _add(self, shape: Shape, span: Span, summaries: pa.Table) -> None:
        place = self._place(shape)
        if not place.exists(_SHAPE):
            place.make()
            place.write_json(_SHAPE, self._described(shape))
            self.drop_unfit()
        _write(place, span, summaries)
        if len(self._spans(shape)) > _MANY_FILES:
            self._merge(shape)

    def drop_unfit(self) -> None:
        """Delete summaries of columns that are gone or have another type now."""
        fit = {place.path for place in self._places().values()}
        for name in self._storage.directories():
            if self._storage.child(name).path not in fit:
                self._storage.child(name).delete_all()

    def forget_before(self, time: int) -> None:
        """Delete files of windows that all end by a time, because their rows were removed."""
        for shape in self.shapes():
            for span in self._spans(shape):
                if span[1] <= time:
                    self._place(shape).delete(_name(span))

    def drop_all(self) -> None:
        self._storage.delete_all()

    def bytes(self) -> int:
        """How much room they take."""
        return sum(sum(self._storage.child(name).files().values()) for name in self._storage.directories())

    # -- files -------------------------------------------------------------------------------------

    def _places(self) -> dict[Shape, Storage]:
        """The shapes there are that fit the columns of the stream, and where their files are."""
        places: dict[Shape, Storage] = {}
        for name in self._storage.directories():
            said = self._storage.child(name).read_json(_SHAPE)
            if not isinstance(said, dict):
                continue
            shape = Shape(said["every"], tuple(said["keys"]), tuple(said["values"]))
            if {*shape.keys, *shape.values} <= set(self._schema.names) and self._place(shape).path.endswith(name):
                places[shape] = self._place(shape)
        return places

    def _described(self, shape: Shape) -> dict[str, object]:
        types = {name: str(self._schema.field(name).type) for name in (*shape.keys, *shape.values)}
        return {"every": shape.every, "keys": shape.keys, "values": shape.values, "types": types}

    def _place(self, shape: Shape) -> Storage:
        """Named by all that the content depends on: columns of another type are another shape."""
        text = json.dumps(self._described(shape), sort_keys=True)
        return self._storage.child(hashlib.sha256(text.encode()).hexdigest()[:16])

    def _spans(self, shape: Shape) -> list[Span]:
        matches = (_FILE.fullmatch(name) for name in self._place(shape).files())
        return [(int(m[1]), int(m[2])) for m in matches if m]

    def _merge(self, shape: Shape) -> None:
        """Fewer files; readers that lose one of the old ones under their hands read rows instead."""
        place, old = self._place(shape), self._spans(shape)
        for span in joined(old):
            inside = [inner for inner in old if span[0] <= inner[0] and inner[1] <= span[1]]
            if len(inside) > 1 and (summaries := self.read(shape, span)) is not None:
                _write(place, span, summaries)
                for inner in inside:
                    if inner != span:
                        place.delete(_name(inner))


def _read(place: Storage, file: Span, wanted: Span) -> pa.Table:
    """The windows of a file that are wanted; row groups without any are not read."""
    low, high = (pa.scalar(time, pa.int64()).cast(TIME_TYPE) for time in wanted)
    filters = None if wanted == file else [("window_start", ">=", low), ("window_start", "<", high)]
    with place.open_file(_name(file)) as source:
        return pq.read_table(source, filters=filters)


def _write(place: Storage, span: Span, summaries: pa.Table) -> None:
    place.write(lambda sink: pq.write_table(summaries, sink, compression="zstd", row_group_size=1 << 16), _name(span))


def _name(span: Span) -> str:
    return f"{span[0]}.{span[1]}.parquet"

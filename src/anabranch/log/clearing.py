"""What of a log of many nobody can read any more, and its rows without that: arrays in, arrays out.

Answers of members that are gone are dead, and those that RETAIN has let go. Where a member goes on that has nothing
left in a segment, an entry without rows says up to where its numbers had come there: so they are known at the end of
every segment, should the log have to be computed again from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import ipc

from anabranch.log.slices import Index, entries_of, payload_rows

_GONE = np.iinfo(np.int64).max

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Living(NamedTuple):
    """Whose answers can be read, by number in order, and from which number on."""

    members: Numbers
    firsts: Numbers
    until: int
    """Members from this number on came later than it was looked who there is."""

    def kept_from(self, members: Numbers) -> Numbers:
        """From which number on the answers of some members are kept."""
        others = np.where(members < self.until, _GONE, 0)
        if not len(self.members):
            return others
        at = np.minimum(np.searchsorted(self.members, members), len(self.members) - 1)
        return np.where(self.members[at] == members, self.firsts[at], others)


class _Entries(NamedTuple):
    """The entries of some rows, and which of them are dead."""

    row: Numbers
    entry: Index
    dead: Mask
    gone: Mask
    """Those of members that are gone."""


def _entries(rows: pa.Table, living: Living) -> _Entries:
    row, index = entries_of(rows.column("index"))
    since = living.kept_from(index[:, 0])
    return _Entries(row, index, index[:, 1] + index[:, 2] <= since, since == _GONE)


def dead_bytes(rows: pa.Table, living: Living) -> int:
    """About how many bytes of some rows are dead."""
    entries = _entries(rows, living)
    counts = entries.entry[:, 2].astype(float)
    every, dead = (
        np.bincount(entries.row, weights, rows.num_rows) for weights in (counts, np.where(entries.dead, counts, 0))
    )
    sizes = pc.binary_length(rows.column("payload")).to_numpy().astype(float)
    share = np.divide(dead, every, out=np.zeros(rows.num_rows), where=every > 0)
    return int((sizes * share).sum()) + int(24 * (entries.dead & (counts > 0)).sum())


def is_empty(rows: pa.Table, living: Living) -> bool:
    """Whether all answers in some rows are dead."""
    entries = _entries(rows, living)
    return bool((entries.dead | (entries.entry[:, 2] == 0)).all())


def cleared(rows: pa.Table, living: Living) -> pa.Table:
    """As many rows, without what is dead."""
    entries = _entries(rows, living)
    counts = entries.entry[:, 2]
    marks = entries.dead & ~entries.gone & _last_of_each(entries.entry[:, 0])
    index = entries.entry.copy()
    index[marks, 1] += index[marks, 2]
    index[marks, 2] = 0
    stays = ~entries.dead | marks
    lengths = np.bincount(entries.row[stays], minlength=rows.num_rows)
    cuts = np.concatenate([[0], np.cumsum(np.bincount(entries.row, minlength=rows.num_rows))])
    touched = np.bincount(entries.row, entries.dead & (counts > 0), rows.num_rows) > 0
    payloads = [
        _without(payload.as_buffer(), counts[low:high], entries.dead[low:high]) if changed else payload.as_buffer()
        for payload, changed, low, high in zip(rows.column("payload"), touched, cuts[:-1], cuts[1:], strict=True)
    ]
    return pa.table(
        [
            rows.column(0),
            _joined(index[stays].tobytes(), 24 * lengths),
            _joined(b"".join(payloads), np.array([len(payload) for payload in payloads], np.int64)),
        ],
        schema=rows.schema,
    )


def _last_of_each(members: Numbers) -> Mask:
    """Which is the last of all entries of the same member."""
    _, places = np.unique(members[::-1], return_index=True)
    last = np.zeros(len(members), bool)
    last[len(members) - 1 - places] = True
    return last


def _without(payload: pa.Buffer, counts: Numbers, dead: Mask) -> pa.Buffer | bytes:
    """A payload without the rows of dead entries."""
    if dead[counts > 0].all():
        return b""
    rows = payload_rows(payload).filter(pa.array(np.repeat(~dead, counts))).combine_chunks()
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, rows.schema) as out:
        out.write_table(rows)
    return sink.getvalue()


def _joined(data: bytes, lengths: Numbers) -> pa.Array:
    """Values that lie one after the other."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])

"""Rows of (ts, saddr, daddr, id, length), made in batches before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

CREATE = "CREATE STREAM {name} (ts TIMESTAMP, saddr STRING, daddr STRING, id BIGINT, length INT) TIMESTAMP BY ts"
SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", tz="UTC")),
        ("saddr", pa.string()),
        ("daddr", pa.string()),
        ("id", pa.int64()),
        ("length", pa.int32()),
    ]
)
START = 1_760_000_000_000_000
"""The time (µs) of the first row."""
WINDOW = 10_000_000
"""The tumbling window (µs) the pipeline counts in."""
KEYS = 1000
LENGTH_ABOVE = 100

Ints = NDArray[np.int64]


class Packets:
    """`rows` packets over `seconds` of event time, in batches; the same for the same arguments."""

    def __init__(self, rows: int, batch: int, seconds: float) -> None:
        self.rows = rows
        self.batch = batch
        self._step = seconds * 1e6 / rows
        self._saddr, self._daddr = (pa.array([_text(n, i) for i in range(KEYS)]) for n in (10, 172))

    def batches(self) -> Iterator[pa.Table]:
        """All batches in order of time."""
        for first in range(0, self.rows, self.batch):
            yield self.table(first, min(first + self.batch, self.rows))

    def table(self, low: int, high: int) -> pa.Table:
        """Rows low ≤ n < high; `low` must be on the edge of a batch."""
        numbers = np.arange(low, high)
        saddr, daddr, length = self._draws(low, high)
        columns = [
            pa.array(self._times(numbers)).cast(SCHEMA.field("ts").type),
            self._saddr.take(pa.array(saddr)),
            self._daddr.take(pa.array(daddr)),
            pa.array(numbers),
            pa.array(length.astype(np.int32)),
        ]
        return pa.table(columns, schema=SCHEMA)

    def expected(self) -> dict[tuple[int, str], int]:
        """Rows longer than LENGTH_ABOVE per (end of window, saddr), for the windows that are complete."""
        base = START // WINDOW
        last = int(self._times(np.array([self.rows - 1]))[0])
        total = np.zeros((last // WINDOW - base + 1) * KEYS, np.int64)
        for low in range(0, self.rows, self.batch):
            high = min(low + self.batch, self.rows)
            saddr, _, length = self._draws(low, high)
            place = (self._times(np.arange(low, high)) // WINDOW - base) * KEYS + saddr
            total += np.bincount(place[length > LENGTH_ABOVE], minlength=len(total))
        names = self._saddr.to_pylist()
        ends = {int(i): (base + int(i) // KEYS + 1) * WINDOW for i in np.flatnonzero(total)}
        return {(end, names[i % KEYS]): int(total[i]) for i, end in ends.items() if end <= last}

    def _times(self, numbers: Ints) -> Ints:
        return START + (numbers * self._step).astype(np.int64)

    def _draws(self, low: int, high: int) -> tuple[Ints, Ints, Ints]:
        random = np.random.default_rng(low)
        saddr = random.integers(0, KEYS, high - low)
        daddr = random.integers(0, KEYS, high - low)
        return saddr, daddr, random.integers(40, 1500, high - low)


def _text(network: int, number: int) -> str:
    return f"{network}.{number % 7}.{number >> 8}.{number & 255}"

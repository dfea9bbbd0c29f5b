"""Rows for window joins: several streams of (k, v, ts) or (x, v, ts), the same for the same arguments.

Times are whole milliseconds, for that is as fine as Flink's event time goes. The check of an answer is its number of
rows and a sum over them in which the values of joined rows are multiplied, so that rows joined with the wrong partner
show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.schema import TIME_TYPE

START = 1_760_000_000_000
"""The time (ms) before which no row is."""
PRIME = 1_000_003
"""Products of values are taken modulo this, or else their sum would not fit."""
VALUES = 1 << 31
PIECE = 100_000

Ints = NDArray[np.int64]


class Answer(NamedTuple):
    """What is compared of a join's answer."""

    rows: int
    checksum: int


@dataclass(frozen=True)
class Feed:
    """`streams` streams of `rows` rows each, `rate` of them per second of event time.

    With `keys` the first column is k, uniform in 0 ≤ k < keys; without, it is x, uniform in 0 ≤ x < 1.
    """

    rows: int
    keys: int | None
    streams: int = 2
    rate: int = 1000
    seed: int = 0

    @property
    def names(self) -> list[str]:
        return list("abcd"[: self.streams])

    @property
    def columns(self) -> str:
        """As a CREATE STREAM lists them."""
        return f"{'x DOUBLE' if self.keys is None else 'k BIGINT'}, v BIGINT, ts TIMESTAMP"

    def pieces(self, stream: int) -> Iterator[pa.Table]:
        """All rows of a stream in order of time."""
        for low in range(0, self.rows, PIECE):
            yield self.piece(stream, low)

    def piece(self, stream: int, low: int) -> pa.Table:
        """The rows from number `low`, a multiple of PIECE, on."""
        count = min(PIECE, self.rows - low)
        random = np.random.default_rng([self.seed, stream, low])
        first, last = (START + number * 1000 // self.rate for number in (low, low + count))
        times = np.sort(random.integers(first, max(last, first + 1), count))
        key = random.random(count) if self.keys is None else random.integers(0, self.keys, count)
        columns = {
            "x" if self.keys is None else "k": key,
            "v": random.integers(0, VALUES, count),
            "ts": pa.array(times * 1000).cast(TIME_TYPE),
        }
        return pa.table(columns)

    def table(self, stream: int) -> pa.Table:
        return pa.concat_tables(self.pieces(stream)).combine_chunks()


def answer_of(values: Sequence[pa.ChunkedArray | Ints]) -> Answer:
    """The check of an answer from the columns `v` of the joined rows, one for each stream."""
    columns = [np.asarray(column, np.int64) for column in values]
    product = columns[0] % PRIME
    for column in columns[1:]:
        product = product * column % PRIME
    return Answer(len(product), int(product.sum()))


def check_sql(values: Sequence[str]) -> str:
    """The same sum in SQL, for engines that read `%` as the remainder."""
    product = f"{values[0]} % {PRIME}"
    for value in values[1:]:
        product = f"({product}) * {value} % {PRIME}"
    return f"CAST(sum({product}) AS BIGINT)"

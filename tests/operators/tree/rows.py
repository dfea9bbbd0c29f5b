"""Random changes, and rows as plain Python values that are equal where SQL says so."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.changes import Changes, together

Row = tuple[Any, ...]
Bag = Counter[Row]

NAN = "NaN"
MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

LIST = pa.list_(pa.float64())
STRUCT = pa.struct([("p", pa.int32()), ("q", LIST)])

VALUES: dict[pa.DataType, list[Any]] = {
    pa.int32(): [None, -3, 0, 1, 2, 7],
    pa.int64(): [None, -(2**63), -(2**40), 0, 1, 2**63 - 1],
    pa.float64(): [None, math.nan, -0.0, 0.0, 0.1, 1e16, -1e-9, math.inf, -math.inf, 3.5],
    pa.string(): [None, "", "a", "ab", "ä"],
    pa.bool_(): [None, True, False],
    pa.decimal128(10, 2): [None, decimal.Decimal("1.10"), decimal.Decimal("-0.05"), decimal.Decimal("99999999.99")],
    LIST: [None, [], [None], [0.0], [-0.0, None], [math.nan], [math.nan, 1.5]],
    STRUCT: [None, {"p": None, "q": None}, {"p": 1, "q": []}, {"p": 1, "q": [math.nan]}, {"p": 2, "q": [-0.0]}],
    pa.timestamp("us", tz="UTC"): [None, *(EPOCH + n * MICROSECOND for n in (-5, 0, 3, 10))],
}


def plain(value: Any) -> Any:
    """Something that is equal to what SQL calls equal."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, plain(part)) for name, part in value.items())
    return tuple(map(plain, value)) if isinstance(value, list) else value


def row(values: Iterable[Any]) -> Row:
    return tuple(map(plain, values))


def bag(changes: Changes) -> Bag:
    """How often each row is there."""
    found: Bag = Counter()
    columns = [column.to_pylist() for column in changes.rows.columns]
    for values, weight in zip(zip(*columns, strict=True), changes.weights.tolist(), strict=True):
        found[row(values)] += weight
    return settled(found)


def settled(rows: Bag) -> Bag:
    return Counter({row: count for row, count in rows.items() if count})


def changes_of(schema: pa.Schema, rows: Sequence[tuple[Row, int]]) -> Changes:
    """Changes of rows as Python values."""
    columns = [pa.array([values[i] for values, _ in rows], schema.field(i).type) for i in range(len(schema))]
    table = pa.Table.from_arrays(columns, schema=schema)
    return Changes(table, np.array([weight for _, weight in rows], np.int64))


class Source:
    """A table whose rows come and go at random, and never more often than they came."""

    def __init__(self, schema: pa.Schema, draw: random.Random, *, only_come: bool = False) -> None:
        self.schema = schema
        self.draw = draw
        self.only_come = only_come
        self.there: list[Row] = []

    def values(self) -> Row:
        return tuple(self.draw.choice(VALUES[field.type]) for field in self.schema)

    def some(self, count: int) -> Changes:
        """The next changes; a row may come and go in them."""
        rows: list[tuple[Row, int]] = []
        for _ in range(count):
            if self.there and not self.only_come and self.draw.random() < 0.45:
                at = self.draw.randrange(len(self.there))
                rows.append((self.there.pop(at), -1))
            else:
                weight = self.draw.choice([1, 1, 1, 2])
                came = self.values()
                self.there += [came] * weight
                rows.append((came, weight))
        return changes_of(self.schema, rows)


def cut(changes: Changes, draw: random.Random) -> list[Changes]:
    """The same changes in pieces, some of which are empty, and some of which lie in several chunks."""
    places = sorted(draw.randrange(len(changes) + 1) for _ in range(draw.randrange(5)))
    ends = [0, *places, len(changes)]
    pieces = [Changes(changes.rows.slice(a, b - a), changes.weights[a:b]) for a, b in pairwise(ends)]
    middles = [draw.randrange(len(piece) + 1) for piece in pieces]
    return [
        piece.with_rows(pa.concat_tables([piece.rows.slice(0, middle), piece.rows.slice(middle)])) if middle else piece
        for piece, middle in zip(pieces, middles, strict=True)
    ]


def all_of(parts: Sequence[Changes], schema: pa.Schema) -> Changes:
    return together(parts, schema)

"""The events of Nexmark: people, auctions and bids of an online auction, from a seed, as arrays at once.

Of 50 events one is a person, three are auctions and the rest are bids. Half of all bids are for a hot auction, three
quarters are by a hot bidder, and three quarters of all auctions are by a hot seller. Ids, ranges, lengths of auctions
and sizes of rows are those of the benchmark's own generator. An event's number says its kind and its time, and its
draws come from its block of `BLOCK` events, so events of a block are the same however many are asked for. With
1,000 events a second no two have the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]

EPOCH, PEOPLE, AUCTIONS = 50, 1, 3
"""So many events have so many people and auctions, in this order; bids follow."""
BLOCK = 50_000
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
BEGIN = 1_767_225_600_000_000
"""Midnight of 2026-01-01."""
ACTIVE, LEAD, IN_FLIGHT, HOT = 1000, 10, 100, 100
CHANNELS = 10_000
TIME = pa.timestamp("us", "UTC")

STREAMS = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, "
    "date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, "
    "date_time TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING",
}
CREATE = ";\n".join(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY date_time" for name, columns in STREAMS.items())
_TYPES = {"BIGINT": pa.int64(), "STRING": pa.string(), "TIMESTAMP": TIME}
SCHEMAS = {
    name: pa.schema([(part.split()[0], _TYPES[part.split()[1]]) for part in columns.split(", ")])
    for name, columns in STREAMS.items()
}
SIDE_ROWS = 10_000
"""Of the side table of query 13."""

_FIRST_NAMES = pa.array(["Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jana", "Kim"])
_LAST_NAMES = pa.array(["Adler", "Berg", "Costa", "Dietz", "Engel", "Frank", "Gruber", "Horn", "Ihle"])
_STATES = pa.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = pa.array(["Phoenix", "Fresno", "Oakland", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cody"])
_HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_POOL = 4096
"""So many different texts of a kind: what a row says is long, and few look at it."""


@dataclass(frozen=True)
class Events:
    """Some events that follow each other, in order of time, as the three streams."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    def stream(self, name: str) -> pa.Table:
        table: pa.Table = getattr(self, name)
        return table

    @property
    def rows(self) -> int:
        return int(sum(self.stream(name).num_rows for name in STREAMS))


def events(count: int, *, seed: int = 1, per_second: int = 1000) -> Events:
    """The first events."""
    some = list(blocks(0, count, seed=seed, per_second=per_second))
    return Events(*(pa.concat_tables([block.stream(name) for block in some]).combine_chunks() for name in STREAMS))


def blocks(first: int, count: int, *, seed: int = 1, per_second: int = 1000) -> Iterator[Events]:
    """Events from one on, a block at a time; `first` is a multiple of `BLOCK`."""
    if first % BLOCK:
        raise ValueError(f"{first} is in the midst of a block")
    for begin in range(first, first + count, BLOCK):
        yield _block(begin, min(BLOCK, first + count - begin), seed, per_second)


def side_rows() -> pa.Table:
    """The side table: a text for each key."""
    keys = np.arange(SIDE_ROWS)
    texts = _texts("value ", keys)
    return pa.table({"key": pa.array(keys), "value": texts})


def _block(first: int, count: int, seed: int, per_second: int) -> Events:
    draw = np.random.default_rng([seed, first])
    number = np.arange(first, first + BLOCK)
    place = number % EPOCH
    kinds = (place < PEOPLE, (place >= PEOPLE) & (place < PEOPLE + AUCTIONS), place >= PEOPLE + AUCTIONS)
    made = (_people, _auctions, _bids)
    tables = []
    for kind, make, schema in zip(kinds, made, SCHEMAS.values(), strict=True):
        mine = number[kind]
        columns = make(draw, mine, per_second)
        table = pa.Table.from_arrays([columns[name] for name in schema.names], schema=schema)
        tables.append(table.slice(0, int((mine < first + count).sum())))
    return Events(*tables)


def _people(draw: np.random.Generator, number: Numbers, per_second: int) -> dict[str, pa.Array]:
    count = len(number)
    names = [_pick(draw, texts, count) for texts in (_FIRST_NAMES, _LAST_NAMES)]
    cards = [_padded(draw.integers(0, 10_000, count)) for _ in range(4)]
    return {
        "id": pa.array(_last_person(number) + FIRST_ID),
        "name": _joined(names, " "),
        "email_address": _joined([_pick(draw, _pool(7), count), _pick(draw, _pool(5), count)], "@", ".com"),
        "credit_card": _joined(cards, " "),
        "city": _pick(draw, _CITIES, count),
        "state": _pick(draw, _STATES, count),
        "date_time": _time(number, per_second),
        "extra": _pick(draw, _pool(100), count),
    }


def _auctions(draw: np.random.Generator, number: Numbers, per_second: int) -> dict[str, pa.Array]:
    count = len(number)
    hot = _last_person(number) // HOT * HOT
    initial = _prices(draw, count)
    horizon = IN_FLIGHT * EPOCH // AUCTIONS * 1_000_000 // per_second
    length = (1000 + draw.integers(0, max(2 * horizon, 1000), count)) // 1000 * 1000
    return {
        "id": pa.array(_last_auction(number) + FIRST_ID),
        "item_name": _pick(draw, _pool(10), count),
        "description": _pick(draw, _pool(50), count),
        "initial_bid": pa.array(initial),
        "reserve": pa.array(initial + _prices(draw, count)),
        "date_time": _time(number, per_second),
        "expires": pa.array(_micros(number, per_second) + length).cast(TIME),
        "seller": pa.array(np.where(draw.integers(0, 4, count) > 0, hot, _any_person(draw, number)) + FIRST_ID),
        "category": pa.array(draw.integers(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES, count)),
        "extra": _pick(draw, _pool(360), count),
    }


def _bids(draw: np.random.Generator, number: Numbers, per_second: int) -> dict[str, pa.Array]:
    count = len(number)
    last = _last_auction(number)
    lowest = np.maximum(last - IN_FLIGHT, 0)
    any_auction = lowest + (draw.random(count) * (last - lowest + 1 + LEAD)).astype(np.int64)
    hot_bidder = _last_person(number) // HOT * HOT + 1
    channel = np.where(
        draw.integers(0, 2, count) > 0, draw.integers(0, 4, count), 4 + draw.integers(0, CHANNELS, count)
    )
    return {
        "auction": pa.array(np.where(draw.integers(0, 2, count) > 0, last // HOT * HOT, any_auction) + FIRST_ID),
        "bidder": pa.array(np.where(draw.integers(0, 4, count) > 0, hot_bidder, _any_person(draw, number)) + FIRST_ID),
        "price": pa.array(_prices(draw, count)),
        "channel": _channels()[0].take(pa.array(channel)),
        "url": _channels()[1].take(pa.array(channel)),
        "date_time": _time(number, per_second),
        "extra": _pick(draw, _pool(38), count),
    }


def _micros(number: Numbers, per_second: int) -> Numbers:
    """Times of events, cut to milliseconds, which others know times by."""
    return BEGIN + number * 1000 // per_second * 1000


def _time(number: Numbers, per_second: int) -> pa.Array:
    return pa.array(_micros(number, per_second)).cast(TIME)


def _last_person(number: Numbers) -> Numbers:
    """The newest person at an event, from 0 on."""
    return number // EPOCH * PEOPLE + np.minimum(number % EPOCH, PEOPLE - 1)


def _last_auction(number: Numbers) -> Numbers:
    """The newest auction at an event, from 0 on; the one before the first is the first, too."""
    place = number % EPOCH - PEOPLE
    return np.maximum(number // EPOCH * AUCTIONS + np.clip(place, -1, AUCTIONS - 1), 0)


def _any_person(draw: np.random.Generator, number: Numbers) -> Numbers:
    """Somebody who was active lately, or is about to come."""
    known = _last_person(number) + 1
    active = np.minimum(known, ACTIVE)
    found: Numbers = known - active + (draw.random(len(number)) * (active + LEAD)).astype(np.int64)
    return found


def _prices(draw: np.random.Generator, count: int) -> Numbers:
    prices: Numbers = np.rint(10 ** (draw.random(count) * 6) * 100).astype(np.int64)
    return prices


_pools: dict[int, pa.Array] = {}


def _pool(length: int) -> pa.Array:
    """Texts of small letters, of this length give or take a fifth."""
    if length not in _pools:
        draw = np.random.default_rng([7, length])
        lengths = draw.integers(length - length // 5, length + length // 5 + 1, _POOL)
        letters = draw.integers(ord("a"), ord("z") + 1, int(lengths.sum())).astype(np.uint8).tobytes()
        ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        _pools[length] = pa.StringArray.from_buffers(_POOL, pa.py_buffer(ends), pa.py_buffer(letters))
    return _pools[length]


def _pick(draw: np.random.Generator, texts: pa.Array, count: int) -> pa.Array:
    return texts.take(pa.array(draw.integers(0, len(texts), count)))


_known_channels: list[tuple[pa.Array, pa.Array]] = []


def _channels() -> tuple[pa.Array, pa.Array]:
    """Names and URLs of the four that are hot, and of all others; one in ten of these has no id in its URL."""
    if not _known_channels:
        draw = np.random.default_rng(11)
        count = len(_HOT_CHANNELS) + CHANNELS
        names = [*_HOT_CHANNELS, *(f"channel-{number}" for number in range(CHANNELS))]
        folders = [_pick(draw, _pool(5), count).to_pylist() for _ in range(3)]
        ids = draw.integers(0, 1 << 31, count)
        without = draw.integers(0, 10, count) == 0
        urls = [
            f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1"
            + ("" if without[n] or n < len(_HOT_CHANNELS) else f"&channel_id={ids[n]}")
            for n, (a, b, c) in enumerate(zip(*folders, strict=True))
        ]
        _known_channels.append((pa.array(names), pa.array(urls)))
    return _known_channels[0]


def _padded(numbers: Numbers) -> pa.Array:
    return _DIGITS.take(pa.array(numbers))


_DIGITS = pa.array([f"{number:04}" for number in range(10_000)])


def _texts(begin: str, numbers: Numbers) -> pa.Array:
    return pa.array([f"{begin}{number}" for number in numbers.tolist()])


def _joined(parts: list[pa.Array], between: str, end: str = "") -> pa.Array:
    found = pc.binary_join_element_wise(*parts, between)
    return pc.binary_join_element_wise(found, end, "") if end else found

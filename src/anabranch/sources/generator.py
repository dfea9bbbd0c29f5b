"""A simulated network: packet headers on a customer link and a backbone link.

The fields are those of Babu and Widom (2001, Figure 1). Every packet is a pure function of the
seed, its link and its number: the same range of time gives the same rows however it is cut into
batches, on any machine, with no state. Hosts are drawn by a Zipf-like law, lengths have two
modes (acknowledgements and full frames), a share of the customer's packets passes the backbone
a few milliseconds later with the same id, and now and then one host floods the backbone, so that
a query watching it has something to find.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import DataError
from anabranch.schema import StreamSchema
from anabranch.sources.base import END, NO_VALUE, NewValue, Reading, Source

Link = Literal["customer", "backbone"]
LINKS: tuple[Link, ...] = ("customer", "backbone")
PACKET = StreamSchema.of(
    {"saddr": "STRING", "daddr": "STRING", "id": "BIGINT", "length": "INT", "ts": "TIMESTAMP"}, time="ts"
)

SECOND = 1_000_000
FORWARDED_SHARE = 0.4
"""How much of the customer's traffic takes the backbone; the rest of the backbone's is from elsewhere."""
MIN_DELAY, MAX_DELAY = 2_000, 8_000
"""How long (µs) a packet needs from the customer's link to the backbone."""
FLOOD_EVERY = 8 * SECOND
FLOOD_PROBABILITY = 0.7
FLOOD_SHARE = 0.6
"""Packets a flood adds, as a share of the rate."""

_HOSTS = 4_000
_SKEW = 1.1
_FLOWS = {"customer": 1, "elsewhere": 2, "flood": 3}
_FIELDS = {"jitter": 1, "saddr": 2, "daddr": 3, "id": 4, "length": 5, "forwarded": 6, "delay": 7, "flood": 8}

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


class Packets:
    """The network of one seed.

    >>> Packets(seed=1).batch(0, 1_000_000, 100, "customer").num_rows
    100
    """

    def __init__(self, seed: int = 1) -> None:
        self.seed = seed
        weights = np.arange(1, _HOSTS + 1, dtype=np.float64) ** -_SKEW
        self._cumulative = np.cumsum(weights) / weights.sum()
        numbers = np.arange(_HOSTS)
        self._customer_hosts = _addresses(10, self._hash("customer", "saddr", numbers))
        self._other_hosts = _addresses(172, self._hash("elsewhere", "saddr", numbers))

    def batch(self, from_us: int, to_us: int, rate: int, link: Link = "backbone") -> pa.Table:
        """The packets seen on a link at from_us ≤ ts < to_us, by time, at `rate` packets a second."""
        if rate < 1:
            raise DataError("RATE_NOT_POSITIVE", f"a rate of {rate} packets a second gives no packets")
        if link == "customer":
            return self._rows(*self._flow("customer", from_us, to_us, rate))
        own_rate = max(1, round(rate * (1 - FORWARDED_SHARE)))
        flows = [
            self._forwarded(from_us, to_us, rate),
            self._flow("elsewhere", from_us, to_us, own_rate),
            self._floods(from_us, to_us, max(1, round(rate * FLOOD_SHARE))),
        ]
        rows = pa.concat_tables([self._rows(*flow) for flow in flows])
        order = np.argsort(rows.column("ts").cast(pa.int64()).to_numpy(), kind="stable")
        return rows.take(pa.array(order)).combine_chunks()

    def flood(self, period: int) -> tuple[int, int] | None:
        """When the flood of a period of FLOOD_EVERY begins and ends (µs), if it has one."""
        chance, start, length = (int(h) for h in self._hash("flood", "flood", np.arange(3) + 3 * period))
        if chance % 1000 >= FLOOD_PROBABILITY * 1000:
            return None
        begin = period * FLOOD_EVERY + start % (FLOOD_EVERY // 2)
        return begin, begin + SECOND + length % SECOND

    def _hash(self, flow: str, field: str, numbers: Ints) -> Hashes:
        """Random bits that depend on nothing but what they are for (SplitMix64's finaliser)."""
        with np.errstate(over="ignore"):
            salt = np.uint64((self.seed * 1_000_003 + _FLOWS[flow] * 101 + _FIELDS[field]) % 2**64)
            x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + salt * np.uint64(0xD1342543DE82EF95)
            x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            return x ^ (x >> np.uint64(31))

    def _uniform(self, flow: str, field: str, numbers: Ints) -> npt.NDArray[np.float64]:
        return (self._hash(flow, field, numbers) >> np.uint64(11)).astype(np.float64) / 2**53

    def _flow(self, flow: str, from_us: int, to_us: int, rate: int) -> tuple[str, Ints, Ints]:
        """The numbers and times of a flow's packets: packet n has its own slot of 1/rate seconds."""
        first = from_us * rate // SECOND - 1
        numbers = np.arange(first, to_us * rate // SECOND + 2, dtype=np.int64)
        seconds, place = np.divmod(numbers, rate)
        jitter = self._hash(flow, "jitter", numbers) % np.uint64(max(1, SECOND // rate))
        times = seconds * SECOND + place * SECOND // rate + jitter.astype(np.int64)
        inside = (times >= from_us) & (times < to_us)
        return flow, numbers[inside], times[inside]

    def _forwarded(self, from_us: int, to_us: int, rate: int) -> tuple[str, Ints, Ints]:
        flow, numbers, times = self._flow("customer", from_us - MAX_DELAY, to_us, rate)
        taken = self._uniform(flow, "forwarded", numbers) < FORWARDED_SHARE
        numbers, times = numbers[taken], times[taken]
        delay = self._hash(flow, "delay", numbers) % np.uint64(MAX_DELAY - MIN_DELAY)
        times = times + MIN_DELAY + delay.astype(np.int64)
        inside = (times >= from_us) & (times < to_us)
        return flow, numbers[inside], times[inside]

    def _floods(self, from_us: int, to_us: int, rate: int) -> tuple[str, Ints, Ints]:
        spans = [self.flood(p) for p in range(from_us // FLOOD_EVERY - 1, to_us // FLOOD_EVERY + 1)]
        parts = [
            self._flow("flood", max(begin, from_us), min(end, to_us), rate)
            for begin, end in (span for span in spans if span is not None)
            if begin < to_us and end > from_us
        ]
        empty = np.empty(0, np.int64)
        return (
            "flood",
            np.concatenate([empty, *(numbers for _, numbers, _ in parts)]),
            np.concatenate([empty, *(times for _, _, times in parts)]),
        )

    def _rows(self, flow: str, numbers: Ints, times: Ints) -> pa.Table:
        if flow == "flood":
            period = times // FLOOD_EVERY
            source = self._hash(flow, "saddr", period) % np.uint64(_HOSTS)
            saddr = self._other_hosts.take(pa.array(source.astype(np.int64)))
            lengths = np.full(len(numbers), 1500, np.int32)
        else:
            hosts = self._customer_hosts if flow == "customer" else self._other_hosts
            saddr = hosts.take(self._zipf(flow, "saddr", numbers))
            lengths = self._lengths(flow, numbers)
        daddr = self._other_hosts.take(self._zipf(flow, "daddr", numbers))
        ids = (self._hash(flow, "id", numbers) >> np.uint64(32)).astype(np.int64)
        ts = pa.array(times).cast(PACKET.arrow.field("ts").type)
        arrays = [saddr, daddr, pa.array(ids), pa.array(lengths), ts]
        return pa.Table.from_arrays(arrays, schema=PACKET.arrow)

    def _zipf(self, flow: str, field: str, numbers: Ints) -> pa.Array:
        return pa.array(np.searchsorted(self._cumulative, self._uniform(flow, field, numbers)))

    def _lengths(self, flow: str, numbers: Ints) -> npt.NDArray[np.int32]:
        u = self._uniform(flow, "length", numbers)
        small = 40 + (u / 0.55) ** 3 * 160
        middle = 200 + (u - 0.55) / 0.15 * 1200
        full = 1400 + np.minimum(100.0, (u - 0.70) / 0.15 * 100)
        return np.select([u < 0.55, u < 0.70], [small, middle], full).astype(np.int32)


def _addresses(net: int, hashes: Hashes) -> pa.Array:
    parts = hashes.astype(np.uint64)
    return pa.array([f"{net}.{16 + int(h) % 16}.{int(h >> 8) % 256}.{int(h >> 16) % 254 + 1}" for h in parts.tolist()])


class PacketSource(Source):
    """One link in real time: every reading gives the packets since the one before.

    `clock` gives µs since 1970; `until` (µs) ends the stream.
    """

    def __init__(
        self,
        schema: StreamSchema = PACKET,
        link: Link = "backbone",
        rate: int = 20_000,
        seed: int = 1,
        *,
        clock: Callable[[], int] = lambda: time.time_ns() // 1_000,
        until: int | None = None,
    ) -> None:
        if link not in LINKS:
            raise DataError("LINK_NOT_KNOWN", f'link "{link}" is not known', hint="there are: " + ", ".join(LINKS))
        self._packets, self._link, self._rate = Packets(seed), link, rate
        self._columns = [column for column in schema.names if column in PACKET.names]
        self._clock, self._until = clock, until
        self._at: int | None = None

    def init_stream(self) -> None:
        self._at = self._clock()

    def read_stream(self) -> Reading:
        if self._at is None or (self._until is not None and self._at >= self._until):
            return END
        now = self._clock() if self._until is None else min(self._clock(), self._until)
        if now <= self._at:
            return NO_VALUE
        rows = self._packets.batch(self._at, now, self._rate, self._link)
        self._at = now
        return NewValue(rows.select(self._columns), now) if rows.num_rows else NO_VALUE

    def close_stream(self) -> None:
        self._at = None

"""The simulated network: the same seed gives the same packets, and they look like a network's."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.errors import DataError
from anabranch.sources import END, NO_VALUE, NewValue, Packets, PacketSource
from anabranch.sources.generator import FLOOD_EVERY, LINKS, MAX_DELAY, MIN_DELAY, PACKET, SECOND, Link
from tests.sampling import examples

START = 1_763_208_000 * SECOND
RATE = 5_000


def times(table: pa.Table) -> NDArray[np.int64]:
    found: NDArray[np.int64] = table.column("ts").cast(pa.int64()).to_numpy()
    return found


@pytest.fixture(scope="module")
def backbone() -> pa.Table:
    return Packets(seed=7).batch(START, START + 20 * SECOND, RATE, "backbone")


@pytest.fixture(scope="module")
def customer() -> pa.Table:
    return Packets(seed=7).batch(START, START + 20 * SECOND, RATE, "customer")


@examples(40)
@given(
    seed=st.integers(0, 2**40),
    rate=st.integers(1, 3_000_000),
    start=st.integers(0, 4_000_000_000 * SECOND),
    cuts=st.lists(st.integers(0, 20_000), max_size=5),
    link=st.sampled_from(LINKS),
)
def test_rows_do_not_depend_on_how_time_is_cut(seed: int, rate: int, start: int, cuts: list[int], link: Link) -> None:
    packets = Packets(seed)
    bounds = [start, *sorted(start + cut for cut in cuts), start + 20_000]
    parts = [packets.batch(a, b, rate, link) for a, b in itertools.pairwise(bounds)]
    whole = packets.batch(start, start + 20_000, rate, link)
    assert (
        pa.concat_tables(parts)
        .sort_by([("ts", "ascending"), ("id", "ascending")])
        .equals(whole.sort_by([("ts", "ascending"), ("id", "ascending")]))
    )
    assert (np.diff(times(whole)) >= 0).all()
    assert whole.num_rows == 0 or (times(whole)[0] >= start and times(whole)[-1] < start + 20_000)


def test_seeds_differ(customer: pa.Table) -> None:
    assert not Packets(seed=8).batch(START, START + SECOND, RATE, "customer").equals(customer.slice(0, RATE))


def test_rows_fit_the_declared_schema(backbone: pa.Table, customer: pa.Table) -> None:
    for table in (backbone, customer):
        assert PACKET.conform(table).equals(table)
        assert all(column.null_count == 0 for column in table.columns)


def test_the_customer_link_carries_the_rate_exactly(customer: pa.Table) -> None:
    assert customer.num_rows == 20 * RATE


def test_lengths_have_two_modes(customer: pa.Table) -> None:
    lengths = customer.column("length").to_numpy()
    assert (lengths.min(), lengths.max()) == (40, 1500)
    assert np.mean(lengths < 200) > 0.45
    assert np.mean(lengths >= 1400) > 0.25


def test_a_few_hosts_send_most(customer: pa.Table) -> None:
    counts = np.sort(pc.value_counts(customer.column("saddr")).field("counts").to_numpy())[::-1]
    assert counts[:10].sum() > 0.3 * counts.sum()
    assert len(counts) > 1_000


def test_a_share_of_the_customers_packets_passes_the_backbone_soon_after(
    backbone: pa.Table, customer: pa.Table
) -> None:
    keys = ["saddr", "daddr", "id"]
    both = customer.join(backbone, keys, right_suffix="_b", join_type="inner")
    share = both.num_rows / customer.num_rows
    assert 0.35 < share < 0.45
    delay = times(both.select(["ts_b"]).rename_columns(["ts"])) - times(both)
    assert delay.min() >= MIN_DELAY
    assert delay.max() <= MAX_DELAY
    assert both.column("length").equals(both.column("length_b"))


def test_a_flood_comes_from_one_host_and_is_seen_in_the_load(backbone: pa.Table) -> None:
    packets = Packets(seed=7)
    floods = [packets.flood(period) for period in range(START // FLOOD_EVERY, START // FLOOD_EVERY + 200)]
    assert 100 < sum(flood is not None for flood in floods) < 180
    begin, end = next(flood for flood in floods if flood is not None)
    during = packets.batch(begin, begin + SECOND, RATE)
    before = packets.batch(begin - SECOND, begin, RATE)
    assert pc.sum(during.column("length")).as_py() > 1.8 * pc.sum(before.column("length")).as_py()
    counts = pc.value_counts(during.column("saddr")).field("counts").to_numpy()
    assert counts.max() > 0.3 * during.num_rows
    assert SECOND <= end - begin <= 2 * SECOND


def test_a_rate_of_nothing_is_refused() -> None:
    with pytest.raises(DataError, match="RATE_NOT_POSITIVE"):
        Packets().batch(0, SECOND, 0)


def test_source_gives_what_happened_since_it_was_last_asked() -> None:
    now = [START]
    source = PacketSource(link="customer", rate=RATE, seed=7, clock=lambda: now[0], until=START + SECOND)
    with source:
        assert source.read_stream() is NO_VALUE
        now[0] += SECOND // 2
        first = source.read_stream()
        now[0] += SECOND
        second = source.read_stream()
        assert source.read_stream() is END
    assert isinstance(first, NewValue)
    assert isinstance(second, NewValue)
    rows = pa.concat_tables([first.values, second.values])
    assert rows.equals(Packets(seed=7).batch(START, START + SECOND, RATE, "customer"))
    assert (first.time, second.time) == (START + SECOND // 2, START + SECOND)


def test_an_unknown_link_is_refused() -> None:
    with pytest.raises(DataError, match="LINK_NOT_KNOWN"):
        PacketSource(link="uplink")  # type: ignore[arg-type]

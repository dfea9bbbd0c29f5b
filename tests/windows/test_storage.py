"""Every storage equals counting with a dictionary."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows.index import Ranges
from anabranch.windows.storage import STORAGES, Entries, make_storage

COUNTING: dict[str, tuple[str, dict[str, Any]]] = {
    "AGGR": ("AGGR", {}),
    "HASH": ("HASH", {}),
    "HASH of five": ("HASH", {"buckets": 5, "hash": "mod"}),
    "HASH of five, mixed": ("HASH", {"buckets": 5}),
}


def as_counter(entries: Entries) -> Counter[tuple[int, int]]:
    groups = [0] * len(entries.codes) if entries.groups is None else entries.groups.tolist()
    counts = [1] * len(entries.codes) if entries.counts is None else entries.counts.tolist()
    counter: Counter[tuple[int, int]] = Counter()
    for group, code, count in zip(groups, entries.codes.tolist(), counts, strict=True):
        counter[group, code] += count
    return counter


@pytest.mark.parametrize("kind", COUNTING)
@given(
    tuples=st.lists(st.tuples(st.integers(0, 2), st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1)), max_size=60),
    grouped=st.booleans(),
)
def test_a_storage_equals_counting(kind: str, tuples: list[tuple[int, int]], grouped: bool) -> None:
    name, options = COUNTING[kind]
    codes = np.array([c for _, c in tuples], np.int64)
    groups = np.array([g for g, _ in tuples], np.int32) if grouped else None
    entries = make_storage(name, **options).build(codes, groups)
    naive = Counter((g if grouped else 0, c) for g, c in tuples)
    assert as_counter(entries) == naive
    assert len(entries.codes) == len(naive)
    assert entries.tuples == len(tuples)
    if kind == "AGGR":
        assert list(as_counter(entries)) == sorted(naive)
    if kind == "HASH":
        assert list(as_counter(entries)) == list(naive)


def test_a_table_grows_past_its_first_buckets() -> None:
    codes = np.random.default_rng(0).integers(0, 20_000, 50_000) * 2**40
    entries = make_storage("HASH").build(codes)
    assert as_counter(entries) == Counter((0, c) for c in codes.tolist())


@pytest.mark.parametrize("seed", range(5))
def test_equal_values_of_many_groups_are_told_apart_in_a_crowded_table(seed: int) -> None:
    dice = np.random.default_rng(seed)
    codes, groups = dice.integers(0, 3, 20_000), dice.integers(0, 1000, 20_000).astype(np.int32)
    entries = make_storage("HASH").build(codes, groups)
    naive = Counter(zip(groups.tolist(), codes.tolist(), strict=True))
    assert as_counter(entries) == naive
    assert len(entries.codes) == len(naive)


def test_a_list_keeps_each_tuple() -> None:
    entries = make_storage("LIST").build(np.array([3, 1, 3]))
    assert (entries.codes.tolist(), entries.counts, entries.tuples) == ([3, 1, 3], None, 3)


@given(values=st.lists(st.integers(-50, 150), max_size=50), grouped=st.booleans())
def test_group_counts_ranges(values: list[int], grouped: bool) -> None:
    ranges = Ranges.equal(0, 100, 10)
    groups = np.array([v % 2 for v in values], np.int32) if grouped else None
    entries = make_storage("GROUP", ranges=ranges).build(np.array(values, np.int64), groups)
    naive = Counter((v % 2 if grouped else 0, min(max(v // 10, 0), 9) * 10 + 4) for v in values)
    assert as_counter(entries) == naive
    assert list(as_counter(entries)) == sorted(naive)


def test_unknown_storage_names_the_ones_there_are() -> None:
    assert list(STORAGES) == ["LIST", "AGGR", "HASH", "GROUP"]
    with pytest.raises(ValueError, match="LIST, AGGR, HASH, GROUP"):
        make_storage("PILE")

"""Two windows under one index answer as two lists do."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows import Ranges, WindowPair, make_storage
from anabranch.windows.index import make_index
from anabranch.windows.pair import Side
from tests.sampling import examples
from tests.windows.naive import NaiveWindow


def counted(table: pa.Table) -> dict[Any, int]:
    return dict(zip(table.column("value").to_pylist(), table.column("count").to_pylist(), strict=True))


def check(pair: WindowPair, left: NaiveWindow, right: NaiveWindow) -> None:
    a, b = Counter(left.values()), Counter(right.values())
    assert pair.intersection().to_pylist() == sorted(set(a) & set(b))
    assert pair.union().to_pylist() == sorted(set(a) | set(b))
    assert pair.difference().to_pylist() == sorted(set(a) - set(b))
    assert counted(pair.intersection(all=True)) == a & b
    assert counted(pair.union(all=True)) == a + b
    assert counted(pair.difference(all=True)) == a - b
    assert pair.draw() == "\n".join(f"{v}: {a[v]} | {b[v]}" for v in sorted(a | b))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["left", "right", "advance"]),
        st.lists(st.tuples(st.none() | st.integers(0, 12), st.sampled_from([0, 1, 3, 25])), max_size=12),
    ),
    max_size=20,
)


@pytest.mark.parametrize("unit", ["rows", "time"])
@pytest.mark.parametrize("index", ["L", "T", "H", "UH"])
@pytest.mark.parametrize("storage", ["LIST", "AGGR", "HASH"])
@examples(25)
@given(events=EVENTS, text=st.booleans(), memory_bytes=st.sampled_from([None, 30]), delay=st.sampled_from([0, 5]))
def test_a_pair_equals_two_lists(
    unit: Any,
    index: str,
    storage: str,
    events: list[tuple[Any, list[tuple[int | None, int]]]],
    text: bool,
    memory_bytes: int | None,
    delay: int,
) -> None:
    delay = delay if unit == "time" else 0
    type_ = pa.string() if text else pa.int64()
    pair = WindowPair(12, 4, unit, storage=storage, index=index, type=type_, delay=delay, memory_bytes=memory_bytes)
    pair.domain._spacing = 1
    naive = {side: NaiveWindow(12, 4, unit, delay) for side in ("left", "right")}
    time = 500
    for side, rows in events:
        if side == "advance":
            if unit == "time":
                time += len(rows)
                before = sum(n.went for n in naive.values())
                for window in naive.values():
                    window.advance(time)
                assert pair.advance(time) == sum(n.went for n in naive.values()) - before
        else:
            times = []
            values = []
            before = naive[side].went
            for number, step in rows:
                time += step
                times.append(time)
                values.append(None if number is None else f"{number * 7 % 13:02}" if text else number)
                naive[side].append(values[-1], time)
            went = pair.append(side, pa.array(values, type_), np.array(times, np.int64))
            assert went == naive[side].went - before
            assert pair.late(side) == naive[side].late
        check(pair, naive["left"], naive["right"])


def test_a_value_one_window_still_has_is_not_purged_when_it_leaves_the_other() -> None:
    pair = WindowPair(2, 2)
    pair.append("left", [7, 7])
    for value in range(100, 140):
        pair.append("right", [value])
        assert pair.union().to_pylist() == sorted({7, max(value - 1, 100), value})
    assert pair.nbytes < 20_000


def test_ranges_in_both_windows_hold_all_values_that_are() -> None:
    dice = np.random.default_rng(2)
    ranges = Ranges.equal(0, 1000, 50)
    pair = WindowPair(200, 10, storage=make_storage("GROUP", ranges=ranges), index=make_index("G", ranges=ranges))
    exact = WindowPair(200, 10)
    for _ in range(30):
        taken: dict[Side, Any] = {"left": dice.integers(0, 500, 50), "right": dice.integers(300, 999, 50)}
        for side, values in taken.items():
            pair.append(side, values)
            exact.append(side, values)
        found = pair.intersection()
        inside = [(low, high) for low, high in zip(*found.to_pydict().values(), strict=True)]
        assert all(any(low <= v < high for low, high in inside) for v in exact.intersection().to_pylist())
        assert all(280 <= low < high <= 520 for low, high in inside)
        sides = [Counter(v // 20 for v in values) for values in held(exact)]
        assert [low // 20 for low, _ in inside] == sorted(set(sides[0]) & set(sides[1]))
        assert pair.union(all=True).column("count").to_pylist() == [n for _, n in sorted((sides[0] + sides[1]).items())]
    assert pair.draw().splitlines()[0].startswith("[0, 20): ")


def held(pair: WindowPair) -> list[list[int]]:
    """The tuples of each window, by their counts."""
    nodes = pair._index.ordered_nodes()
    values = pair._index.key(nodes)
    return [np.repeat(values, side.of(nodes)).tolist() for side in pair._sides.values()]

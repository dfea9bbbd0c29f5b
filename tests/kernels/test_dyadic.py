"""Blocks of a run are what it is made of, each place once, and few."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.dyadic import blocks_of_runs, level_sizes


@given(st.integers(1, 200), st.data())
def test_a_run_is_its_blocks(count: int, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, count))
    high = data.draw(st.integers(low, count))
    sizes = level_sizes(count)
    places = [
        [range(i << level, min((i + 1) << level, count)) for i in range(size)] for level, size in enumerate(sizes)
    ]
    numbered = [block for blocks in places for block in blocks]
    blocks, bounds = blocks_of_runs(np.array([low, 0]), np.array([high, count]), count)
    for run, wanted in enumerate([range(low, high), range(count)]):
        own = blocks[bounds[run] : bounds[run + 1]].tolist()
        assert sorted(place for block in own for place in numbered[block]) == list(wanted)
        assert len(own) <= 2 * len(sizes)

"""Panes, windows and nodes against counting on fingers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.spans import pane_runs, window_ends
from anabranch.kernels.values import frozen
from anabranch.windows.panes.axis import Panes, children, node_end, node_start


@given(axis=st.lists(st.integers(-100, 100)).map(sorted), length=st.integers(1, 30))
def test_pane_runs_say_where_each_pane_begins(axis: list[int], length: int) -> None:
    panes, bounds = pane_runs(frozen(np.array(axis, np.int64)), length)
    assert np.repeat(panes, np.diff(bounds)).tolist() == [a // length for a in axis]
    assert np.all(np.diff(panes) > 0)


@given(
    panes=st.sets(st.integers(-30, 30)),
    per_window=st.integers(1, 9),
    per_slide=st.integers(1, 9),
    after=st.integers(-30, 30),
    length=st.integers(0, 40),
)
def test_window_ends_are_those_of_windows_that_hold_a_pane(
    panes: set[int], per_window: int, per_slide: int, after: int, length: int
) -> None:
    found = window_ends(np.array(sorted(panes), np.int64), per_window, per_slide, after, after + length)
    assert found.tolist() == [
        end
        for end in range(after + 1, after + length + 1)
        if end % per_slide == 0 and any(end - per_window <= pane < end for pane in panes)
    ]


@given(end=st.integers(-5000, 5000), panes=st.builds(Panes, st.integers(1, 3000), st.just(1)))
def test_the_nodes_of_a_window_tile_it_in_order(end: int, panes: Panes) -> None:
    nodes, bounds = panes.cover(np.array([end]))
    assert bounds.tolist() == [0, len(nodes)]
    starts, ends = node_start(nodes), node_end(nodes)
    assert starts[0] == end - panes.per_window
    assert ends[-1] == end
    assert starts[1:].tolist() == ends[:-1].tolist()
    assert len(nodes) <= 6 * (panes.top + 1) + 8


def test_children_tile_their_node() -> None:
    nodes = np.array([5 * 16 + 2, -1 * 16 + 1])
    parts = children(nodes)
    assert node_start(parts)[::4].tolist() == node_start(nodes).tolist()
    assert node_end(parts)[3::4].tolist() == node_end(nodes).tolist()
    assert node_start(parts)[1:4].tolist() == node_end(parts)[:3].tolist()


@given(size=st.integers(1, 40), slide=st.integers(1, 40), axis=st.integers(-200, 200))
def test_the_first_needed_pane_is_that_of_the_next_window(size: int, slide: int, axis: int) -> None:
    panes = Panes(size, slide)
    end = next(e for e in range(axis + 1, axis + slide + 1) if e % slide == 0)
    assert panes.next_end(axis) == end
    assert panes.first_needed(axis) * panes.length == end - size
    some = np.arange(-50, 50)
    inside = [any(e - size <= p * panes.length < e for e in range(-4000, 4000) if e % slide == 0) for p in some[:20]]
    assert panes.used(some)[:20].tolist() == inside

"""Integer geometry of panes: where rows change pane, which windows hold rows, which nodes make a window.

A *node* is a block of 4^level panes that starts at a multiple of 4^level; level 0 is one pane.
Any run of panes is a short sequence of nodes, the same one whoever asks: so partial answers of
nodes can be kept and shared by all windows over them. A node is written as one number,
`index * 16 + level`.
"""

from __future__ import annotations

import numpy as np

from anabranch.kernels.compiled import compiled

LEVELS = 16
"""Levels fit below this; a node's number is index * LEVELS + level."""


@compiled
def pane_runs(axis, length):  # type: ignore[no-untyped-def]
    """For a non-decreasing axis: the panes that occur, and the bounds of their entries."""
    panes = np.empty(len(axis), np.int64)
    bounds = np.empty(len(axis) + 1, np.int64)
    count = 0
    limit = 0
    for i in range(len(axis)):
        if i == 0 or axis[i] >= limit:
            panes[count] = axis[i] // length
            limit = (panes[count] + 1) * length
            bounds[count] = i
            count += 1
    bounds[count] = len(axis)
    return panes[:count].copy(), bounds[: count + 1].copy()


@compiled
def window_ends(panes, per_window, per_slide, after, upto):  # type: ignore[no-untyped-def]
    """The ends (in panes) after < end ≤ upto of the windows that hold one of the given, ascending panes."""
    listed = []
    last = after
    for pane in panes:
        end = (pane // per_slide + 1) * per_slide
        if end <= last:
            end = (last // per_slide + 1) * per_slide
        while end <= pane + per_window and end <= upto:
            listed.append(end)
            last = end
            end += per_slide
    ends = np.empty(len(listed), np.int64)
    for i in range(len(listed)):
        ends[i] = listed[i]
    return ends


@compiled
def cover(ends, per_window, top):  # type: ignore[no-untyped-def]
    """For each window the nodes it is made of, in pane order, none above level `top`: (nodes, bounds)."""
    nodes = []
    bounds = np.zeros(len(ends) + 1, np.int64)
    for w in range(len(ends)):
        low, high = ends[w] - per_window, ends[w]
        level = 0
        right = []
        while level < top and low < high:
            while low % 4 != 0 and low < high:
                nodes.append(low * LEVELS + level)
                low += 1
            while high % 4 != 0 and low < high:
                high -= 1
                right.append(high * LEVELS + level)
            low //= 4
            high //= 4
            level += 1
        while low < high:
            nodes.append(low * LEVELS + level)
            low += 1
        for i in range(len(right) - 1, -1, -1):
            nodes.append(right[i])
        bounds[w + 1] = len(nodes)
    flat = np.empty(len(nodes), np.int64)
    for i in range(len(nodes)):
        flat[i] = nodes[i]
    return flat, bounds


@compiled
def expand(members, bounds, first, last):  # type: ignore[no-untyped-def]
    """The entries first[m] ≤ i < last[m] of each list's members, in order: (entries, bounds of the lists)."""
    total = 0
    for m in members:
        total += last[m] - first[m]
    entries = np.empty(total, np.int64)
    ends = np.zeros(len(bounds), np.int64)
    count = 0
    for j in range(len(bounds) - 1):
        for at in range(bounds[j], bounds[j + 1]):
            for i in range(first[members[at]], last[members[at]]):
                entries[count] = i
                count += 1
        ends[j + 1] = count
    return entries, ends

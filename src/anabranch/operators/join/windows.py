"""Which times rows of two sources may have in one result.

A constraint (i, j, low, high) says low ≤ time(j) − time(i) ≤ high. What follows for pairs that
have none of their own is the shortest path between them, so that the period of a partial result
is the intersection over its rows (M. A. Hammad et al., 2002, §6.2.2).
"""

from __future__ import annotations

from collections.abc import Sequence

Window = tuple[int, int, int, int]
FOREVER = 1 << 60
"""More than any two times are apart."""


def latest(count: int, windows: Sequence[Window]) -> list[list[int]]:
    """For each pair (i, j), how much later than i's row j's may be at most (FOREVER: nothing binds them).

    >>> latest(3, [(0, 1, -5, 5), (1, 2, -1, 10)])
    [[0, 5, 15], [5, 0, 10], [6, 1, 0]]
    """
    most = [[0 if i == j else FOREVER for j in range(count)] for i in range(count)]
    for i, j, low, high in windows:
        most[i][j] = min(most[i][j], high)
        most[j][i] = min(most[j][i], -low)
    for k in range(count):
        for i in range(count):
            for j in range(count):
                most[i][j] = min(most[i][j], most[i][k] + most[k][j], FOREVER)
    return most


def unbound(count: int, windows: Sequence[Window]) -> list[list[int]]:
    """The groups of sources that constraints bind together; more than one is not a window join.

    >>> unbound(4, [(0, 1, 0, 0), (2, 3, 0, 0)])
    [[0, 1], [2, 3]]
    """
    group = list(range(count))
    for i, j, *_ in windows:
        old, new = max(group[i], group[j]), min(group[i], group[j])
        group = [new if number == old else number for number in group]
    return [[i for i in range(count) if group[i] == number] for number in sorted(set(group))]

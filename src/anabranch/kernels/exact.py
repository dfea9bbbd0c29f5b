"""Keys as kernels compare them: doubles, or where those would not be exact, whole numbers of 256 bits.

A matrix of keys has a row for each key and a column for each record. Whole numbers have a third axis: four limbs,
the most significant first, with 2^255 added, so that numbers are in the order of their limbs. Among them a key that
is a double is one limb, its order number. Tolerances are doubles, or of five limbs: how many units records may be
apart (`IS_DOUBLE` for a double), and the bits of the tolerance as a double.

What is asked of `ndim` is decided when machine code is made, so doubles pay nothing for the others.
"""

from __future__ import annotations

import math

import numpy as np

from anabranch.kernels.compiled import compiled

LIMBS = 4
IS_DOUBLE = 1 << 63
"""The first limb of the tolerance of a double: no number of units is as large."""


@compiled
def is_below(xs, k, i, ys, m, j):  # type: ignore[no-untyped-def]
    """Whether key k of record i is smaller than key m of record j."""
    if xs.ndim == 2:
        return xs[k, i] < ys[m, j]
    for limb in range(LIMBS):
        if xs[k, i, limb] != ys[m, j, limb]:
            return xs[k, i, limb] < ys[m, j, limb]
    return False


@compiled
def is_near(xs, k, i, ys, m, j, tolerance, t):  # type: ignore[no-untyped-def]
    """Whether two keys are at most the tolerance of key t apart."""
    if xs.ndim == 2:
        return abs(xs[k, i] - ys[m, j]) <= tolerance[t]
    if tolerance[t, 0] == np.uint64(IS_DOUBLE):
        return apart(xs, k, i, ys, m, j, tolerance, t) <= width(tolerance, t)
    return difference(xs, k, i, ys, m, j) <= (tolerance[t, 0], tolerance[t, 1], tolerance[t, 2], tolerance[t, 3])


@compiled
def apart(xs, k, i, ys, m, j, tolerance, t):  # type: ignore[no-untyped-def]
    """How far apart two keys are, as the nearest double."""
    if xs.ndim == 2:
        return abs(xs[k, i] - ys[m, j])
    if tolerance[t, 0] == np.uint64(IS_DOUBLE):
        return abs(double_of(xs[k, i, 0]) - double_of(ys[m, j, 0]))
    return rounded(difference(xs, k, i, ys, m, j))


@compiled
def width(tolerance, t):  # type: ignore[no-untyped-def]
    """The tolerance of key t as a double."""
    if tolerance.ndim == 1:
        return tolerance[t]
    return np.uint64(tolerance[t, LIMBS]).view(np.float64)


@compiled
def comparable(far, xs, i, ys, j, tolerance):  # type: ignore[no-untyped-def]
    """A distance in tolerances, `far`, as something that can be compared: doubles would be equal too soon.

    If there is but one key, the difference itself decides between distances that are the same double.
    """
    if xs.ndim == 2:
        return far
    bits, zero = np.float64(far).view(np.uint64), np.uint64(0)
    if len(tolerance) > 1 or tolerance[0, 0] == np.uint64(IS_DOUBLE):
        return bits, zero, zero, zero, zero
    units = difference(xs, 0, i, ys, 0, j)
    return bits, units[0], units[1], units[2], units[3]


@compiled
def room_for_distances(keys, count):  # type: ignore[no-untyped-def]
    """An array for what `comparable` gives."""
    if keys.ndim == 2:
        return np.empty(count, np.float64)
    return np.empty((count, 1 + LIMBS), np.uint64)


@compiled
def put_distance(room, i, far):  # type: ignore[no-untyped-def]
    if room.ndim == 1:
        room[i] = far
    else:
        room[i, 0], room[i, 1], room[i, 2], room[i, 3], room[i, 4] = far


@compiled
def distance_at(room, i):  # type: ignore[no-untyped-def]
    if room.ndim == 1:
        return room[i]
    return room[i, 0], room[i, 1], room[i, 2], room[i, 3], room[i, 4]


@compiled
def corners(keys):  # type: ignore[no-untyped-def]
    """For each key the places of the lowest and of the highest."""
    places = np.zeros((2, keys.shape[0]), np.int64)
    for k in range(keys.shape[0]):
        for i in range(1, keys.shape[1]):
            if is_below(keys, k, i, keys, k, places[0, k]):
                places[0, k] = i
            if is_below(keys, k, places[1, k], keys, k, i):
                places[1, k] = i
    return places


@compiled
def lie_between(keys, low, high, tolerance, wider):  # type: ignore[no-untyped-def]
    """Which records are inside a cube with these corners or, if it is `wider`, within tolerance of it."""
    inside = np.ones(keys.shape[1], np.bool_)
    for k in range(low.shape[0]):
        for i in range(keys.shape[1]):
            if (is_below(keys, k, i, low, k, 0) and not (wider and is_near(low, k, 0, keys, k, i, tolerance, k))) or (
                is_below(high, k, 0, keys, k, i) and not (wider and is_near(high, k, 0, keys, k, i, tolerance, k))
            ):
                inside[i] = False
    return inside


@compiled
def difference(xs, k, i, ys, m, j):  # type: ignore[no-untyped-def]
    """The limbs of the difference of two whole numbers, whichever is larger."""
    if is_below(xs, k, i, ys, m, j):
        return subtracted(ys, m, j, xs, k, i)
    return subtracted(xs, k, i, ys, m, j)


@compiled
def subtracted(xs, k, i, ys, m, j):  # type: ignore[no-untyped-def]
    x1, x2, x3 = xs[k, i, 1], xs[k, i, 2], xs[k, i, 3]
    y1, y2, y3 = ys[m, j, 1], ys[m, j, 2], ys[m, j, 3]
    borrow3 = np.uint64(x3 < y3)
    borrow2 = np.uint64(x2 < y2 or (x2 == y2 and x3 < y3))
    borrow1 = np.uint64(x1 < y1 or (x1 == y1 and borrow2 != 0))
    return xs[k, i, 0] - ys[m, j, 0] - borrow1, x1 - y1 - borrow2, x2 - y2 - borrow3, x3 - y3


@compiled
def rounded(limbs):  # type: ignore[no-untyped-def]
    """The double nearest to a number from 0 on, of two the even one."""
    first = 0
    while first < LIMBS - 1 and limbs[first] == 0:
        first += 1
    top, power = limbs[first], 64 * (LIMBS - 1 - first)
    if power == 0:
        return np.float64(top)
    rest = limbs[first + 1]
    while top >> np.uint64(63) == 0:
        top = (top << np.uint64(1)) | (rest >> np.uint64(63))
        rest = rest << np.uint64(1)
        power -= 1
    for limb in range(first + 2, LIMBS):
        rest = rest | limbs[limb]
    if rest != 0:  # far below the last bit of a double, it only says which side of the middle the number is on
        top = top | np.uint64(1)
    return math.ldexp(np.float64(top), power)


@compiled
def double_of(limb):  # type: ignore[no-untyped-def]
    """The double behind an order number."""
    if limb >> np.uint64(63) != 0:
        return np.uint64(limb ^ np.uint64(IS_DOUBLE)).view(np.float64)
    return np.uint64(~limb).view(np.float64)

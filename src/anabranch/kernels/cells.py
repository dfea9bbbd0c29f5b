"""Sampling by cells: records with nearly the same key are all in the sample, or none of them is."""

from __future__ import annotations

import math

import numpy as np

from anabranch.kernels.compiled import compiled


@compiled
def mixed(value, seed):  # type: ignore[no-untyped-def]
    """A number from 0 to 1 that looks random, the same for the same doubles."""
    bits = np.float64(value + 0.0).view(np.uint64) ^ (np.float64(seed).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((bits ^ (bits >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


@compiled
def places_of_cells(groups, keys, usable, width):  # type: ignore[no-untyped-def]
    """A place from 0 to 1 for the cell of each record, 2 if it has no key; cells are `width` wide, or single values.

    `groups` has a number for each record, or one for all.
    """
    places = np.empty(len(keys), np.float64)
    cell, group, place = np.nan, np.nan, 2.0
    for i in range(len(keys)):
        if not usable[i]:
            places[i] = 2.0
            continue
        its_cell = math.floor(keys[i] / width) if width > 0 else keys[i]
        its_group = groups[i] if len(groups) > 1 else groups[0]
        if its_cell != cell or its_group != group:  # neighbours are mostly of the same cell
            cell, group = its_cell, its_group
            place = mixed(cell, group)
        places[i] = place
    return places

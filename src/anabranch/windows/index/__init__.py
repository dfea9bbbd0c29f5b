"""Indices for set-valued queries: which values are in the window, and how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.windows.index.base import SetIndex
from anabranch.windows.index.grouped import GroupedIndex
from anabranch.windows.index.hash_table import HashIndex, UnsortedHashIndex
from anabranch.windows.index.linked_list import ListIndex
from anabranch.windows.index.ranges import Ranges
from anabranch.windows.index.tree import TreeIndex

__all__ = ["INDICES", "Ranges", "SetIndex", "make_index"]

INDICES: Mapping[str, Callable[..., SetIndex]] = {
    "L": ListIndex,
    "T": TreeIndex,
    "H": HashIndex,
    "UH": UnsortedHashIndex,
    "G": GroupedIndex,
}
"""Every index by the paper's name for it."""


def make_index(name: str, **options: Any) -> SetIndex:
    """A new index by name.

    >>> make_index("T").name
    'T'
    """
    if name not in INDICES:
        raise ValueError(f"there is no index {name!r}; there are {', '.join(INDICES)}")
    return INDICES[name](**options)

"""How one basic window is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.windows.storage.aggregated import AggregatedStorage
from anabranch.windows.storage.base import Entries, Storage
from anabranch.windows.storage.grouped import GroupedStorage
from anabranch.windows.storage.hashed import HashedStorage
from anabranch.windows.storage.tuples import ListStorage

__all__ = ["STORAGES", "Entries", "Storage", "make_storage"]

STORAGES: Mapping[str, Callable[..., Storage]] = {
    "LIST": ListStorage,
    "AGGR": AggregatedStorage,
    "HASH": HashedStorage,
    "GROUP": GroupedStorage,
}
"""Every storage by the paper's name for it."""


def make_storage(name: str, **options: Any) -> Storage:
    """A storage by name.

    >>> make_storage("HASH", buckets=5, hash="mod").name
    'HASH'
    """
    if name not in STORAGES:
        raise ValueError(f"there is no storage {name!r}; there are {', '.join(STORAGES)}")
    return STORAGES[name](**options)

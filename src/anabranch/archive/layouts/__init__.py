"""How archives lie on disk: one file each, one contract (`base`), one table that lists them."""

from __future__ import annotations

from anabranch.archive.declaration import ArchiveInfo
from anabranch.archive.layouts.base import PRIMARY, Layout, ReadPlace
from anabranch.archive.layouts.on_read_modify import COPY, OnReadModify
from anabranch.archive.layouts.on_write_replicate import OnWriteReplicate
from anabranch.archive.layouts.plain import Plain
from anabranch.archive.layouts.randomize_then_sort import RandomizeThenSort
from anabranch.log.storage import Storage

__all__ = ["COPY", "PRIMARY", "Layout", "ReadPlace", "layout_of"]

_LAYOUTS: dict[str, type[Layout]] = {layout.name: layout for layout in (Plain, OnWriteReplicate, RandomizeThenSort)}


def layout_of(info: ArchiveInfo, time_column: str, storage: Storage) -> Layout:
    """The layout of an archive that lies in `storage`."""
    if info.layout == OnReadModify.name:
        return OnReadModify(info, time_column, has_copy=storage.child(COPY, "_delta_log").exists())
    return _LAYOUTS[info.layout](info, time_column)

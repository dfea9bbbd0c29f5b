"""LIST: every tuple by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from anabranch.windows.draw import draw_list
from anabranch.windows.index.base import Codes, Groups
from anabranch.windows.storage.base import Entries, Storage, labelled


class ListStorage(Storage):
    """The tuples in order of arrival: O(1) per tuple, O(b) space."""

    name: ClassVar[str] = "LIST"

    def build(self, codes: Codes, groups: Groups | None = None) -> Entries:
        return Entries(groups, codes, None)

    def draw(self, entries: Entries, decode: Callable[[int], str] = str) -> str:
        return draw_list(labelled(entries, decode))

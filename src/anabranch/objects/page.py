"""Which of the objects of a kind SHOW shows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

T = TypeVar("T")


class Page(NamedTuple):
    """Those whose name is like a pattern, and of them a number after some others."""

    like: str | None = None
    limit: int | None = None
    offset: int = 0

    def of(self, objects: Iterable[T], name: Callable[[T], str]) -> list[T]:
        """Those of some objects that are on the page, in the order they have.

        >>> Page("b%", 2, 1).of(["a", "b", "ba", "BB", "bc"], str)
        ['ba', 'BB']
        """
        every = list(objects)
        if self.like is not None:  # names match without regard to case
            names = pa.array([name(each) for each in every], pa.string())
            alike = pc.match_like(names, self.like, ignore_case=True).to_pylist()
            every = [each for each, is_alike in zip(every, alike, strict=True) if is_alike]
        return every[self.offset : None if self.limit is None else self.offset + self.limit]

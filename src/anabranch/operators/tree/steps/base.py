"""What every step of a tree is: changes of its inputs in, changes of its answer out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes


class Step(Protocol):
    """A node at work, with what it has to remember: always in arrangements, which others write down and bring back.

    What it has answered so far, added up, is the node's answer over what it has been given so far, added up. That holds
    after each call, however changes were cut, and in whatever order rows stand in them. It is made by
    `steps.step_of(node, schemas of what it reads, for each whether its rows only ever come)`.
    """

    schema: pa.Schema
    only_comes: bool
    """Whether what it answers never goes again."""
    keeps_rows: bool = True
    """Whether it remembers rows of what it reads, besides what its answer says itself."""
    dropped: int = 0
    """How many rows it has thrown as they came: they are needed neither now nor later."""
    forgotten: int = 0
    """How many rows it has remembered and thrown since."""
    why_thrown: str = ""

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        """The change of the answer, for those of what it reads; `reached`: the time (µs) of all streams."""
        ...

    def kept(self) -> Mapping[str, Arrangement]:
        """All it remembers, by names that stay the same. They may be filled anew before the first call."""
        ...

    def why(self) -> str:
        """How it goes on, for EXPLAIN: on changes as they are, by arrangement, per touched group; and why."""
        ...

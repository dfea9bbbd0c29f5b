"""What all families are: members that one operator answers together.

What a family keeps does not depend on who is in it, so that members come and go without it being computed again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Protocol

from anabranch.operators.base import Inputs, Offset, Operator
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Slices


class Family(Protocol):
    """See the module."""

    @property
    def operator(self) -> Operator:
        """What runs in place of its members; what it keeps and waits for is what they do."""
        ...

    @property
    def entries(self) -> list[Entry]:
        """Its members."""
        ...

    @property
    def folder(self) -> str:
        """Where it keeps its scratch: what it is, whoever is in it."""
        ...

    @property
    def told(self) -> str:
        """What EXPLAIN says of it."""
        ...

    def run(self, start: dict[str, Offset], end: dict[str, Offset], inputs: Inputs) -> Iterator[Slices]:
        """The answers of its members; raises what makes all of them fail."""
        ...


Kind = Callable[[list[Entry]], tuple[list[Family], list[Entry]]]
"""A kind of families: those it finds among some members, and the members that are in none of them."""


def folder_of(operator: Operator, *more: str) -> str:
    """A name for the scratch of a family by what it is."""
    said = json.dumps([operator.to_json(), *more])
    return f"family-{hashlib.sha256(said.encode()).hexdigest()[:16]}"

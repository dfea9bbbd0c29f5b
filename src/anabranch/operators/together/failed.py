"""Members that cannot go on, or not with the others: told by their numbers, with where they are and why.

What a member answers in the micro-batch in which it fails counts for nothing: it is where it was when that began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError, StreamError
from anabranch.operators.budget import OverBudget
from anabranch.operators.offset import Offset

if TYPE_CHECKING:
    from anabranch.operators.together.roster import Entry
    from anabranch.operators.together.selections import Slices

FAILED = "failed"
FLOODED = "flooded"
"""The kinds of reports: those that fail, and those whose answers are too many for a micro-batch."""

OF_THE_HOST = (StreamError, OSError)
"""What is not the fault of a member: rows or files that are not there are missed by all. Anything else is."""

Told = dict[str, Any]
"""By the number of a member: `at`, where it is in its host's streams; `why`, or of how many `rows` it had answers."""


class Troubles:
    """The members that cannot go on in a task."""

    def __init__(self) -> None:
        self.failed: Told = {}
        self.flooded: Told = {}

    def take(self, member: int, problem: Exception, at: Mapping[str, Offset], rows: int) -> None:
        """A member that was at some place raised, over so many rows; what is the host's goes on up."""
        if isinstance(problem, OF_THE_HOST):
            raise problem
        if isinstance(problem, OverBudget):
            self.flooded[str(member)] = {"at": _plain(at), "rows": rows}
        else:
            self.fail(member, _why(problem), at)

    def fail(self, member: int, why: str, at: Mapping[str, Offset]) -> None:
        """A member that was at some place cannot go on."""
        self.failed[str(member)] = {"at": _plain(at), "why": why}

    def reports(self) -> dict[str, Told]:
        said = {FAILED: self.failed, FLOODED: self.flooded}
        return {kind: told for kind, told in said.items() if told}


def without_those_that_fail(
    members: list[Entry], answers: Callable[[list[Entry]], list[Slices]], failed: Callable[[Entry, Exception], None]
) -> Iterator[Slices]:
    """What members answer together; where that fails, what each half of them does, down to who it is."""
    try:
        found = answers(members)
    except OF_THE_HOST:
        raise
    except Exception as problem:
        if len(members) == 1:
            failed(members[0], problem)
            return
        half = len(members) // 2
        for some in (members[:half], members[half:]):
            yield from without_those_that_fail(some, answers, failed)
    else:
        yield from found


def _plain(at: Mapping[str, Offset]) -> dict[str, list[int]]:
    return {name: list(offset.place) for name, offset in at.items()}


def _why(problem: Exception) -> str:
    return str(problem) if isinstance(problem, AnabranchError) else f"{type(problem).__name__}: {problem}"


def together(one: Told, other: Told) -> Told:
    return {**one, **other}


def after(before: Told | None, said: Told) -> Told:
    """Nothing is kept: the list of members says it."""
    return {}


def told(kept: Told | None) -> dict[str, Any]:
    return {}

"""What members of a host have kept is let go when they are dropped, or have taken it along to where they are now."""

from __future__ import annotations

from collections.abc import Iterable

from anabranch.log.storage import Storage
from anabranch.operators import operator_class
from anabranch.operators.state import STATES
from anabranch.operators.together.families import state_of
from anabranch.operators.together.roster import Entry, Roster


class ScratchUpkeep:
    """Of one host, in the process that runs it."""

    def __init__(self, scratch: Storage) -> None:
        self._scratch = scratch
        self._seen: tuple[int, int] | None = None

    def look(self, roster: Roster, listed: int) -> None:
        """Let go of what nobody has who stood at version `listed` of the list: no micro-batch goes back before it."""
        gone = [entry for entry in list(roster.dropped) if entry.turns[-1].row < listed]
        seen = (roster.drops, len(gone))
        if seen == self._seen:
            return
        numbers = {str(entry.number) for entry in gone}
        for folder in self._scratch.directories():
            forgotten = folder.isdecimal() and int(folder) < listed and int(folder) not in roster.entries
            if folder in numbers or forgotten:
                self._scratch.child(folder).delete_all()
        states = self._scratch.child(STATES)
        if states.exists():
            stay = _states([*roster.by_name.values(), *roster.leaving.values()])
            for state in _states(gone) - stay:
                self._scratch.child(*state.split("/")).delete_all()
        self._seen = seen


def _states(entries: Iterable[Entry]) -> set[str]:
    """Where the state of some members is."""
    with_state = (entry for entry in entries if operator_class(entry.kind).scratch_is_state)
    return {state for entry in with_state if (state := state_of(entry)) is not None}

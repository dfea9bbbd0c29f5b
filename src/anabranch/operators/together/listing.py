"""A list of members without those that are forgotten (`roster`): their rows stay, and say nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.operators.together.changes import ADDED
from anabranch.operators.together.roster import Roster

_SAID = ("change", "member", "name", "body")


@dataclass(frozen=True)
class ListContents:
    """What compaction is told of a list (`log.compaction.Contents`)."""

    roster: Roster
    """It may be behind the list: nobody knows yet of whom later rows speak."""

    def wants(self, first: int) -> bool:
        return True

    def look(self, first: int, rows: pa.Table) -> int:
        dead = self._dead(first, rows)
        texts = [pc.binary_length(rows.column(name)).fill_null(0).to_numpy() for name in ("change", "name", "body")]
        return int(sum(lengths[dead].sum() for lengths in texts))

    def cleared(self, first: int, rows: pa.Table) -> pa.Table:
        # Taken, not masked: Arrow keeps the bytes of texts that are masked.
        places = pa.array(np.arange(rows.num_rows), mask=self._dead(first, rows))
        for name in _SAID:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), rows.column(name).take(places))
        return rows

    def is_empty(self, first: int, rows: pa.Table) -> bool:
        return bool(rows.column("change").null_count == rows.num_rows)

    def letting_go(self, end: int) -> None:
        """Nobody reads rows that say nothing."""

    def _dead(self, first: int, rows: pa.Table) -> NDArray[np.bool_]:
        """Rows that speak of members that are forgotten."""
        numbers = pa.array(np.arange(first, first + rows.num_rows))
        known_of = pc.less(numbers, self.roster.version)
        said = rows.column("change")
        members = pc.if_else(pc.equal(said, ADDED), numbers, rows.column("member"))
        known = pc.is_in(members, pa.array(list(self.roster.entries), pa.int64()))
        dead: NDArray[np.bool_] = pc.and_(pc.and_(said.is_valid(), known_of), pc.invert(known)).to_numpy()
        return dead

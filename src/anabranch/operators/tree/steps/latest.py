"""Latest: the table of which a change feed tells, by the last row of each key.

A row that comes takes the place of the one with its key, whatever the feed calls that; one that says that the row goes
takes it away, if it is there. So the answer follows from the last row of each key alone, however rows were cut. This is
the one step for which it counts in which order rows stand: it reads a source, or Rows of one, which give them as the
stream has them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernels.groups import encode
from anabranch.kernels.keyed import last_of_each
from anabranch.log.feed import goes, says_before
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes, together
from anabranch.operators.tree.nodes import Latest
from anabranch.operators.tree.replaced import Replaced
from anabranch.operators.tree.runs import hashed
from anabranch.operators.tree.steps.base import Step


class LatestStep(Step):
    """See the module."""

    only_comes = False

    def __init__(self, node: Latest, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> None:
        (read,) = schemas
        self._node = node
        self.schema = pa.schema([field for field in read if field.name != node.change])
        self._rows = Replaced(self.schema, node.key)

    def take(self, inputs: Sequence[Changes], reached: int) -> Changes:
        (changes,) = inputs
        told = changes.rows
        if len(changes) and (before := says_before(told.column(self._node.change))).any():
            told = told.filter(pa.array(~before))
        if not told.num_rows:
            return Changes.none(self.schema)
        groups = encode([told.column(name) for name in self._node.key], told.num_rows)
        told = told.take(pa.array(last_of_each(groups.codes, groups.size))).combine_chunks()
        stays = ~goes(told.column(self._node.change))
        rows = told.select(self.schema.names).replace_schema_metadata(None)
        keys = [rows.column(name).combine_chunks() for name in self._node.key]
        codes = hashed(keys, rows.num_rows)
        known = self._rows.latest(keys, codes)
        there = np.zeros(rows.num_rows, np.bool_)
        there[known.of] = True
        touched = np.flatnonzero(stays | there)  # what was not there and goes need not be remembered
        self._rows.put(rows.take(pa.array(touched)), codes[touched], stays[touched])
        come = rows.filter(pa.array(stays))
        return together([Changes.of(known.rows, -1), Changes.of(come)], self.schema)

    def kept(self) -> Mapping[str, Arrangement]:
        return {"rows": self._rows}

    def why(self) -> str:
        return f"per touched key: of each {', '.join(self._node.key)} it keeps the row that was told last"

"""Rows dealt at random to the blocks of a run, each block in the order of time (RandomizeThenSort, §4.1.3).

Block b of R holds the rows whose lots fall into the b-th R-th, so a reduced read takes the first ⌈R·f⌉ blocks
of each run and merges them back into order. With BY, lots are drawn by the value of a column: a reduced
read of whole keys takes some blocks, and one of rows takes all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from anabranch.archive.facts import facts_of
from anabranch.archive.files import APART, write_run
from anabranch.archive.layouts.base import PRIMARY, Layout, ReadPlace
from anabranch.archive.runs import Run
from anabranch.archive.table import Written
from anabranch.kernels.dealing import deal, deal_numbers, dealt
from anabranch.kernels.sampling import blocks_for, key_lots
from anabranch.log.storage import Storage

LEAST_ROWS = 64
"""A block has about this many rows at least: a small run has fewer blocks."""


@dataclass(frozen=True)
class RandomizeThenSort(Layout):
    """One table, whose runs are files and whose blocks are row groups."""

    name: ClassVar[str] = "randomize_then_sort"

    def write_run(self, storage: Storage, table: str, rows: pa.Table, numbers: range, rate: float) -> Written:
        seed, by = self.info.seed, self.info.by
        blocks = max(1, min(self.info.blocks, rows.num_rows // LEAST_ROWS))
        facts = facts_of(rows, self.measured(rows))
        if by is None:
            places, starts = deal_numbers(numbers.start, len(numbers), seed, blocks, facts.far)
        else:
            places, starts = deal(key_lots(rows.column(by), seed), blocks, facts.far)
        together = dealt(rows, places)
        filled = np.flatnonzero(np.diff(starts)).tolist()
        first = APART if len(facts.far) else 0
        return write_run(
            storage.child(table),
            rows,
            [together.slice(int(starts[b]), int(starts[b + 1] - starts[b])) for b in filled],
            [first + b for b in filled],
            rows=numbers,
            of=blocks,
            rate=rate,
            time_column=self.time_column,
            compression=self.info.compression,
            in_order=False,
            ranges=facts.ranges,
        )

    def choose(self, run: Run, keep: float, by: str | None, copies: Mapping[str, Mapping[int, Run]]) -> ReadPlace:
        same = by == self.info.by
        return ReadPlace(PRIMARY, run, blocks_for(keep, run.blocks) if same else run.blocks)

    @property
    def block(self) -> float:
        return 1 / self.info.blocks if self.info.by is None else super().block

    def in_order(self, table: str) -> bool:
        return False

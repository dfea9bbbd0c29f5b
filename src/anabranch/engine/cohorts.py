"""How members that are added to a host come up to the others: in cohorts, a piece in each micro-batch.

Which cohorts there are and how far each is stands in the offset of the list of members, beside the version of the list;
its time counts the micro-batches in which a cohort moved, so that it is seen to have gone on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa

from anabranch.engine.micro_batch import Ends, Limits, Log, end_of_batch
from anabranch.operators.offset import Cohort, Offset, Offsets
from anabranch.operators.together.changes import ADDED


class LoggedRows(Log, Protocol):
    """What is asked of a stream that members begin with."""

    def first_logged_row(self) -> int: ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table: ...


CATCH_UP_ROWS = 500_000
"""Of each stream, how many rows cohorts take in at most in one micro-batch, so that the others are not delayed."""


def next_members(begin: Offset, ends: Ends, listing: str, streams: Offsets, logs: Mapping[str, LoggedRows]) -> Offset:
    """The offset of the list at the end of a micro-batch that takes the streams to `streams`."""
    cohorts = [_gone_on(cohort, streams, logs, len(begin.catching)) for cohort in begin.catching]
    version = max(begin.row, ends[listing].row)
    catching = tuple(cohort for cohort in cohorts if cohort is not None)
    if version > begin.row and ADDED in logs[listing].read(begin.row, version, ["change"]).column(0).to_pylist():
        first = {name: (logs[name].first_logged_row(), Offset().time) for name in streams}
        catching += ((begin.row, version, first),)
    moved = bool(begin.catching or catching)
    return Offset(version, begin.time + moved, catching=catching)


def _gone_on(cohort: Cohort, target: Offsets, logs: Mapping[str, LoggedRows], cohorts: int) -> Cohort | None:
    """A cohort after one more piece; None once it is where the others are."""
    low, high, position = cohort
    at = {name: Offset(*place) for name, place in position.items()}
    ends = {name: target[name].place for name in at}
    rows: dict[str, int | None] = dict.fromkeys(at, max(CATCH_UP_ROWS // cohorts, 1))
    reached = end_of_batch(at, ends, logs, Limits(rows))
    if all(reached[name].place >= end for name, end in ends.items()):
        return None
    return low, high, {name: tuple(offset.place) for name, offset in reached.items()}

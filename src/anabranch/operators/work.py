"""What running tasks cost, and what operators report besides: counted where it happens, added up by the query."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from anabranch.operators.reports import REPORTS


@dataclass
class Work:
    """The work of one task, or of several together."""

    rows_read: int = 0
    bytes_read: int = 0
    rows_thrown: int = 0
    scratch_rows: int = 0
    scratch_bytes: int = 0
    measured: bool = False
    """Whether anything said what the scratch holds; else it is as it was."""
    reports: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What is reported of each kind (`operators.reports`), as plain data that goes through JSON."""

    def keeps(self, rows: int, nbytes: int) -> None:
        """So much is kept for the next micro-batch, besides what else is."""
        self.scratch_rows += rows
        self.scratch_bytes += nbytes
        self.measured = True

    def report(self, kind: str, said: Any) -> None:
        """Take in a report."""
        known = self.reports.get(kind)
        self.reports[kind] = said if known is None else REPORTS[kind].together(known, said)

    def add(self, other: Work) -> None:
        """Both together: of tasks of one micro-batch, each of which keeps something."""
        self.rows_read += other.rows_read
        self.bytes_read += other.bytes_read
        self.rows_thrown += other.rows_thrown
        self.scratch_rows += other.scratch_rows
        self.scratch_bytes += other.scratch_bytes
        self.measured |= other.measured
        for kind, said in other.reports.items():
            self.report(kind, said)

"""Tuples for archives, the same for the same arguments, and the archives they go to.

S. Chandrasekaran and M. Franklin (2004, §6.1.1): 20 million tuples (timestamp, userattr) of 12 bytes; the second
is a dummy, here a whole number that can be summed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.archive import files
from anabranch.archive.archived import ArchiveReader
from anabranch.archive.reader import HistoryReader
from anabranch.database import Database
from anabranch.schema import TIME_TYPE
from benchmarks.harness import check

Values: TypeAlias = NDArray[np.int32]

START = 1_700_000_000_000_000
"""Microseconds; when the first tuple comes."""
CHUNK = 1_000_000
MOST = 1_000_000
"""Values are below it."""
APART = 200
"""Microseconds between tuples are up to it."""
COLUMN = "userattr"
REDUCTIONS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Variant(NamedTuple):
    """A layout with its options: our name, and the one in the legends of the paper."""

    name: str
    layout: str
    options: dict[str, str]
    paper: str


VARIANTS = (
    Variant("plain", "plain", {}, "Strawman"),
    Variant("on_write_replicate", "on_write_replicate", {}, "Eager"),
    Variant("on_read_modify", "on_read_modify", {}, "Lazy"),
    Variant("blocks_10", "randomize_then_sort", {"blocks": "10"}, "Hybrid-10"),
    Variant("blocks_100", "randomize_then_sort", {"blocks": "100"}, "Hybrid-100"),
    Variant("blocks_500", "randomize_then_sort", {"blocks": "500"}, "Hybrid-500"),
)
LAZY = "on_read_modify"
"""The variant that reads change."""
COPIED = "on_read_modify_with_copy"
VACUUMED = "on_read_modify_vacuumed"
HYBRIDS = tuple(variant.name for variant in VARIANTS if variant.layout == "randomize_then_sort")
PAPER_NAMES = {**{variant.name: variant.paper for variant in VARIANTS}, COPIED: "Lazy-1copy", VACUUMED: "Lazy-Post Vac"}


class Totals(NamedTuple):
    """What count(*) and sum(userattr) answer."""

    rows: int
    sum: int


@dataclass(frozen=True)
class Tuples:
    """So many tuples, a chunk after the other."""

    rows: int
    seed: int = 0

    def chunks(self, size: int = CHUNK) -> Iterator[pa.Table]:
        time = START
        for number, low in enumerate(range(0, self.rows, size)):
            random = np.random.default_rng([self.seed, number])
            rows = min(size, self.rows - low)
            times = time + np.cumsum(random.integers(1, APART, rows, endpoint=True))
            time = int(times[-1])
            values = random.integers(0, MOST, rows, dtype=np.int32)
            yield pa.table({"ts": pa.array(times).cast(TIME_TYPE), COLUMN: pa.array(values)})

    def totals(self) -> Totals:
        sums = [int(chunk.column(COLUMN).to_numpy().sum(dtype=np.int64)) for chunk in self.chunks()]
        return Totals(self.rows, sum(sums))

    def values(self) -> Values:
        """Those of all tuples, by number."""
        return np.concatenate([chunk.column(COLUMN).to_numpy() for chunk in self.chunks()])

    def fill(self, db: Database, stream: str) -> None:
        """A stream with these tuples in its log."""
        create(db, stream)
        for chunk in self.chunks():
            db.append(stream, chunk)


def stream_of(prefix: str, archive: str) -> str:
    """The stream of an archive: each has its own, as most have, since looking at a stream looks at all it has."""
    return f"{prefix}_{archive}"


def create(db: Database, stream: str) -> None:
    db.sql(f"CREATE STREAM {stream} (ts TIMESTAMP, {COLUMN} INT) TIMESTAMP BY ts")


def archive_all(db: Database, stream: str, variant: Variant, run_rows: int) -> None:
    """Put what the log holds into a new archive of its variant's name."""
    options = {"run_rows": str(run_rows), **variant.options}
    db.create_archive(stream, variant.layout, variant.name, options=options)
    db.archive(stream, variant.name).append()


def reader_of(db: Database, stream: str, archive: str) -> ArchiveReader:
    """A reader that has not read yet of an archive."""
    return HistoryReader(db.catalog.stream_storage(stream), archive).archives[0]


def forget_footers() -> None:
    """The next read of a file reads its footer too."""
    files.FOOTERS = files.Footers()


def question(stream: str, archive: str, reduction: float | None) -> str:
    """Count and sum in SQL, of a part of the archive or, with None, of all of it."""
    reduced = "" if reduction is None else f" REDUCE BY uniform({reduction:g})"
    return f"SELECT count(*) AS n, sum({COLUMN}) AS total FROM ARCHIVE {archive} ON {stream}{reduced}"


def check_totals(found: pa.Table, expected: Totals, what: str, reduced: bool) -> None:
    """An answer in SQL: exact, or with bounds that hold it; those are widened, since one in twenty need not."""
    row = found.to_pylist()[0]
    if not reduced:
        got = Totals(int(row["n"]), int(row["total"]))
        check(got == expected, f"{what} answered {got}, not {expected}")
        return
    for name, value in zip(("n", "total"), expected, strict=True):
        slack = 3 * (row[f"{name}_high"] - row[f"{name}_low"]) + 1e-6
        held = row[f"{name}_low"] - slack <= value <= row[f"{name}_high"] + slack
        check(held, f"{what} answered {row}, and {name} is {value}")

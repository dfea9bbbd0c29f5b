"""Figures 13 to 18: inserting tuples while queries run, which are asked again as soon as they are answered (§6.4).

A stream is filled and archived while N others ask for count and sum of archives that are there already, at a
reduction. The time that takes, and how many were answered in it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.database import Database
from benchmarks.archive.data import (
    LAZY,
    PAPER_NAMES,
    VACUUMED,
    VARIANTS,
    Totals,
    Tuples,
    Variant,
    archive_all,
    check_totals,
    create,
    question,
    reader_of,
    stream_of,
)
from benchmarks.harness import say

QUERIES = (0, 1, 2, 4, 8, 16)
REDUCTIONS = (0.0, 0.25, 0.5, 0.75, 0.99)
ASKED, INSERTED = "asked", "inserted"


@dataclass(frozen=True)
class Cell:
    """One point of the figures."""

    variant: str
    legend: str
    reduction: float
    queries: int
    seconds: float
    completed: int

    @property
    def per_1000_seconds(self) -> float:
        return 1000 * self.completed / self.seconds


def measure(db: Database, rows: int, run_rows: int, queries: Sequence[int] = QUERIES) -> list[Cell]:
    """Every layout, the lazy one before and after it was vacuumed."""
    asked, inserted = Tuples(rows, seed=1), Tuples(rows, seed=2)
    expected = asked.totals()
    for variant in VARIANTS:
        asked.fill(db, stream_of(ASKED, variant.name))
        archive_all(db, stream_of(ASKED, variant.name), variant, run_rows)
    alone = {variant.name: _insert(db, inserted, variant, run_rows, (), expected)[0] for variant in VARIANTS}
    alone[VACUUMED] = alone[LAZY]
    cells = []
    for reduction in REDUCTIONS:
        for name, seconds_alone in alone.items():
            if name == VACUUMED and reduction:
                # The archiver would do it now and then; here each reduction has its own copy.
                reader_of(db, stream_of(ASKED, LAZY), LAZY).read_sample(0, rows, [], 1 - reduction)
                db.archive(stream_of(ASKED, LAZY)).vacuum()
            variant = next(each for each in VARIANTS if each.name == (LAZY if name == VACUUMED else name))
            sql = question(stream_of(ASKED, variant.name), variant.name, reduction)
            check_totals(db.sql(sql).table(), expected, sql, reduced=True)
            for count in queries:
                at_once = (sql,) * count
                seconds, completed = (
                    _insert(db, inserted, variant, run_rows, at_once, expected) if count else (seconds_alone, 0)
                )
                cells.append(Cell(name, PAPER_NAMES[name], reduction, count, seconds, completed))
        say(f"inserts with queries at {reduction:.0%}: " + _line(cells, reduction, max(queries)))
    for variant in VARIANTS:
        db.drop_stream(stream_of(ASKED, variant.name))
    return cells


def _line(cells: Sequence[Cell], reduction: float, queries: int) -> str:
    found = [cell for cell in cells if (cell.reduction, cell.queries) == (reduction, queries)]
    return ", ".join(f"{cell.variant} {cell.seconds:.1f} s, {cell.completed}" for cell in found)


def _insert(
    db: Database, tuples: Tuples, variant: Variant, run_rows: int, questions: Sequence[str], expected: Totals
) -> tuple[float, int]:
    """Seconds to append and archive the tuples, and how many questions were answered meanwhile."""
    create(db, INSERTED)
    chunks = list(tuples.chunks())
    done = threading.Event()
    answered = [0] * len(questions)
    failed: list[BaseException] = []

    def ask(place: int, sql: str) -> None:
        try:
            while not done.is_set():
                found = db.sql(sql).table()
                if not done.is_set():
                    check_totals(found, expected, sql, reduced=True)
                    answered[place] += 1
        except BaseException as problem:  # said by the thread that waits
            failed.append(problem)

    threads = [threading.Thread(target=ask, args=each, daemon=True) for each in enumerate(questions)]
    for thread in threads:
        thread.start()
    began = time.perf_counter()
    for chunk in chunks:
        db.append(INSERTED, chunk)
    archive_all(db, INSERTED, variant, run_rows)
    seconds = time.perf_counter() - began
    done.set()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    db.drop_stream(INSERTED)
    return seconds, sum(answered)

"""The parts of the archives' benchmark: its data, its answers, its formulas, its page."""

from __future__ import annotations

import itertools
from argparse import Namespace
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import anabranch as ab
from benchmarks.archive import inserts as archive_inserts
from benchmarks.archive import paper as archive_paper
from benchmarks.archive import reads as archive_reads
from benchmarks.archive import suite as archive
from benchmarks.archive import together as archive_together
from benchmarks.archive.cars import COMES, DAY, DAYS_BACK, EXIT, EXITS, HOUR, START, WITHIN, Traffic
from benchmarks.archive.claims import claims
from benchmarks.archive.coverage import Covered
from benchmarks.archive.data import (
    COLUMN,
    COPIED,
    HYBRIDS,
    LAZY,
    PAPER_NAMES,
    REDUCTIONS,
    VACUUMED,
    VARIANTS,
    Totals,
    Tuples,
    archive_all,
    check_totals,
    question,
    reader_of,
)
from benchmarks.archive.inserts import Insert
from benchmarks.archive.overload import Course, _Feeder, _judged
from benchmarks.archive.page import write
from benchmarks.archive.reads import FIRST, LAZY_REDUCTIONS, Read
from benchmarks.archive.together import Cell
from benchmarks.harness import Report, WrongAnswer
from benchmarks.peers import job
from benchmarks.peers.environments import REQUIREMENTS

from .tiny_archive import ARCHIVE

PAGE = Path(__file__).parents[2] / "docs" / "papers" / "oscar.md"


# -- tuples --------------------------------------------------------------------------------------------------


def test_tuples_are_the_same_whenever_they_are_made_and_come_in_order() -> None:
    tuples = Tuples(2500)
    made = [pa.concat_tables(tuples.chunks(1000)) for _ in range(2)]
    assert made[0].equals(made[1])
    assert (np.diff(made[0]["ts"].cast(pa.int64()).to_numpy()) > 0).all()
    assert tuples.totals() == Totals(2500, int(tuples.values().sum(dtype=np.int64)))


def test_an_answer_must_be_exact_or_near_its_bounds() -> None:
    exact = pa.table({"n": [10], "total": [70]})
    check_totals(exact, Totals(10, 70), "it", reduced=False)
    with pytest.raises(WrongAnswer, match="not"):
        check_totals(exact, Totals(10, 71), "it", reduced=False)
    bounds = {f"{name}{end}": [value] for name in ("n", "total") for end, value in (("_low", 9.0), ("_high", 11.0))}
    reduced = pa.table({"n": [10.0], "total": [10.0], **bounds})
    check_totals(reduced, Totals(10, 16), "it", reduced=True)
    with pytest.raises(WrongAnswer, match="total is 18"):
        check_totals(reduced, Totals(10, 18), "it", reduced=True)


# -- archives, without Spark ---------------------------------------------------------------------------------


@pytest.fixture
def db(tmp_path: Path) -> Any:
    with ab.open(tmp_path / "river") as opened:
        opened.archives.close()
        yield opened


@pytest.mark.slow
def test_what_is_written_is_what_table_1_says(db: Any) -> None:
    report = Report("nobody", ARCHIVE)
    inserts = {each.variant: each for each in archive_inserts.measure(db, "t", Tuples(40_000), 10_000, 1, report)}
    assert set(inserts) == set(archive_paper.WRITES)
    for name, insert in inserts.items():
        # A copy of a few first rows is smaller than the rest.
        assert insert.rows_written == pytest.approx(insert.formula * 40_000, rel=0.3 if name == COPIED else 0.01)
    assert inserts["on_write_replicate"].files_written == 5 * inserts["plain"].files_written
    assert {f.name for f in report.figures if f.bar is not None} == {
        "insert_blocks_10", "insert_blocks_100", "insert_blocks_500", "insert_on_write_replicate",
    }  # fmt: skip


def test_bytes_are_counted_and_rows_compared(db: Any) -> None:
    tuples = Tuples(50_000)
    tuples.fill(db, "t")
    hybrid = next(each for each in VARIANTS if each.name == "blocks_10")
    archive_all(db, "t", hybrid, 25_000)
    full, tenth = (archive_reads.counted(db, "t", "blocks_10", r, tuples.values()) for r in (0.0, 0.9))
    assert archive_reads.counted(db, "t", "blocks_10", 0.0, tuples.values()) == full
    assert 0.1 * full < tenth < 0.25 * full
    with pytest.raises(WrongAnswer, match="gave other rows"):
        archive_reads.counted(db, "t", "blocks_10", 0.9, tuples.values() + 1)


def test_the_question_in_sql_is_answered_for_a_part_and_for_all(db: Any) -> None:
    tuples = Tuples(30_000)
    tuples.fill(db, "t")
    archive_all(db, "t", VARIANTS[-1], 10_000)
    for reduction in (0.0, 0.5, 0.99):
        found = db.sql(question("t", VARIANTS[-1].name, reduction)).table()
        check_totals(found, tuples.totals(), "it", reduced=True)
        assert found["_fraction"][0].as_py() == pytest.approx(1 - reduction, abs=0.02)


@pytest.mark.slow
def test_inserting_while_queries_run_counts_both(db: Any) -> None:
    cells = archive_together.measure(db, 5000, 5000, queries=(0, 2))
    assert {(c.variant, c.reduction, c.queries) for c in cells} == set(
        itertools.product(set(PAPER_NAMES) - {COPIED}, archive_together.REDUCTIONS, (0, 2))
    )
    assert all((cell.completed == 0) == (cell.queries == 0) for cell in cells if cell.queries == 0)
    assert sum(cell.completed for cell in cells) > 0
    assert "inserted" not in {stream.name for stream in db.streams()}


# -- Query 2 -------------------------------------------------------------------------------------------------


def test_the_exact_answer_is_that_of_a_nested_loop() -> None:
    traffic = Traffic(300)
    today = DAYS_BACK + 1
    history = {day: traffic.history(day).to_pylist() for day in range(1, today)}
    counts: dict[int, int] = {}
    for row in traffic.live(today).to_pylist():
        at = _microseconds(row["ts"])
        seen = 0
        for ago in range(1, DAYS_BACK + 1):
            seen += any(
                past["plate"] == row["plate"]
                and past["exit"] == EXIT
                and abs(_microseconds(past["ts"]) - (at - ago * DAY)) <= WITHIN
                for past in history[today - ago]
            )
        if seen == DAYS_BACK:
            counts[at // HOUR * HOUR] = counts.get(at // HOUR * HOUR, 0) + 1
    assert counts
    assert traffic.seen_each_day(today) == counts


def _microseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000)


def test_cars_have_plates_of_their_own_and_days_follow_each_other() -> None:
    traffic = Traffic(5000)
    assert len(set(traffic.plates.to_pylist())) == 5000
    days = pa.concat_tables([traffic.history(day) for day in range(3)])
    assert (np.diff(days["ts"].cast(pa.int64()).to_numpy()) >= 0).all()
    assert traffic.live(1).num_rows == pytest.approx(5000 / EXITS * COMES, rel=0.1)


def test_the_lag_is_the_age_of_the_oldest_row_not_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    class Log:
        rows = 0

        def append(self, stream: str, table: pa.Table) -> int:
            self.rows += table.num_rows
            return self.rows

    clock = [100.0]
    monkeypatch.setattr("benchmarks.archive.overload.time.monotonic", lambda: clock[0])
    tables = (pa.table({"x": [day] * 7}) for day in itertools.count())
    feeder = _Feeder(cast(Any, Log()), tables, 1.0)
    for _ in range(3):
        feeder.append(10)
        clock[0] += 1
    assert feeder.rows == 30
    assert [feeder.lag(taken) for taken in (0, 9, 10, 25, 30)] == [3.0, 3.0, 2.0, 1.0, 0.0]


def test_answers_under_overload_are_compared_with_the_exact_ones() -> None:
    traffic = Traffic(3000)
    exact = traffic.seen_each_day(DAYS_BACK)
    (hour, count), *_ = exact.items()
    time = pa.array([hour + HOUR], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    answer = pa.table({"n": [count], "_time": time})
    assert _judged(traffic, None, 1.0, [1.0], [0.5], answer).held == 1
    with pytest.raises(WrongAnswer, match="were seen each day"):
        _judged(traffic, None, 1.0, [1.0], [0.5], answer.set_column(0, "n", pa.array([count + 1])))
    bounds = {"n": [count + 9.0], "n_low": [count + 1.0], "n_high": [count + 20.0], "_time": time, "_fraction": [0.3]}
    course = _judged(traffic, "load", 1.0, [1.0], [0.5], pa.table(bounds))
    assert (course.held, course.answers) == (0, 1)
    assert course.fractions == [((hour - START) / HOUR - 24 * DAYS_BACK, 0.3)]


# -- peers and sizes -----------------------------------------------------------------------------------------


def test_duckdb_answers_as_the_rows_are(tmp_path: Path) -> None:
    module = pytest.importorskip("benchmarks.peers.in_duckdb_scan")
    for i in range(2):
        parquet.write_table(pa.table({"v": [1, 2, 3 + i]}), tmp_path / f"{i}.parquet")
    said = module.work(job.Job(str(tmp_path), 6, 0, rounds=2))
    assert (said.count, said.checksum) == (6, 13)
    assert len(said.seconds) == 2


def test_peers_can_be_left_out_or_found_elsewhere() -> None:
    assert archive.chosen(archive.QUICK, Namespace(peers="none")).peers is None
    assert archive.chosen(archive.QUICK, Namespace(peers="/there")).peers == "/there"
    assert archive.chosen(archive.QUICK, Namespace(peers=None)) == archive.QUICK
    assert "\nduckdb==" in (REQUIREMENTS / "requirements.txt").read_text()


# -- the paper -----------------------------------------------------------------------------------------------


def test_the_formulas_give_the_papers_figures() -> None:
    assert archive_paper.insert_seconds("on_write_replicate") == pytest.approx(3 * 430)
    assert archive_paper.insert_seconds(COPIED) == 860
    assert archive_paper.query_seconds("plain", 0.99) == 20
    assert archive_paper.query_seconds("on_write_replicate", 0.5) == pytest.approx(12)
    assert archive_paper.query_seconds("on_write_replicate", 0.99) == pytest.approx(4)
    assert archive_paper.query_seconds(FIRST, 0.1) == 40
    assert archive_paper.query_seconds("blocks_10", 0.99) == pytest.approx(2)
    assert archive_paper.query_seconds("blocks_100", 0.99) == pytest.approx(0.2)
    assert archive_paper.query_seconds(VACUUMED, 0.75) == pytest.approx(5)


def inserts() -> list[Insert]:
    made = []
    for name, formula in archive_paper.WRITES.items():
        rows = round(1_000_000 * formula)
        seconds = 1.0 if name in HYBRIDS or name in ("plain", LAZY) else 0.8 * formula
        made.append(Insert(name, PAPER_NAMES[name], seconds, rows, 5 * rows, 4, formula, 430 * formula))
    return made


def reads() -> list[Read]:
    """As the paper would have measured: the hybrid layouts with short runs save no time."""
    made = []
    for name, formula in archive_paper.READS.items():
        lazy = name in (FIRST, LAZY, VACUUMED)
        for reduction in (0.0, *LAZY_REDUCTIONS) if lazy else REDUCTIONS:
            share = formula(1 - reduction)
            seconds = 1.0 if name == "blocks_10" else share
            made.append(Read(name, reduction, int(1e6 * share), share, share, seconds, 20 * share))
    return made


def cells() -> list[Cell]:
    made = []
    for name in (*(each.name for each in VARIANTS), VACUUMED):
        for reduction in archive_together.REDUCTIONS:
            for queries in archive_together.QUERIES:
                seconds = 430.0 if not queries else 1500.0
                read = archive_paper.READS[name](1 - reduction)
                made.append(
                    Cell(name, PAPER_NAMES[name], reduction, queries, seconds, 0 if not queries else round(30 / read))
                )
    return made


def courses() -> list[Course]:
    at = [1.0, 2.0, 3.0]
    return [
        Course("load(INTERVAL 2 SECONDS, plate)", 900.0, at, [0.5, 1.5, 1.0], [(1.0, 0.5), (2.0, 0.25)], 20, 19, 0.95),
        Course(None, 900.0, at, [1.0, 4.0, 9.0], [], 5, 5, 1.0),
    ]


def test_claims_hold_for_the_papers_own_figures_and_not_for_others() -> None:
    assert all(claim.holds for claim in claims(inserts(), reads(), cells()))
    worse = [replace(each, seconds=3.0) if each.variant in HYBRIDS else each for each in inserts()]
    short = [replace(each, seconds=each.share) for each in reads()]
    other = {claim.claim: claim.holds for claim in claims(worse, short, cells())}
    assert not other["hybrid layouts are written about as fast as the strawman (Figure 11)"]
    assert not other["of the hybrid layouts only that with runs of 500 blocks is always faster than the strawman"]
    assert other["Table 1, reads: what each layout reads at each reduction"]


@pytest.mark.slow
def test_one_command_makes_tables_and_pictures_on_the_page(tmp_path: Path) -> None:
    report = archive.ArchiveReport("nobody", ARCHIVE, inserts=inserts(), reads=reads(), cells=cells())
    report.coverage, report.overload = [Covered("uniform", 0.1, 0.95, 0.944, 0.96, 0.02)], courses()
    report.claims = claims(report.inserts, report.reads, report.cells)
    report.add("insert_plain", 5e6, "rows/s")
    report.notes |= {"peers": {"duckdb": "missing: no network"}, "fastest_layout": "blocks_500"}
    machine = {"cores": 2, "memory_mb": 2048, "python": "3", "pyspark": "4", "load_average_at_start": [0.5, 0, 0]}
    page = tmp_path / "oscar.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write(report.as_dict("archive", True, machine), page)
    text = page.read_text(encoding="utf-8")
    assert "| `insert_plain` | 5.00 M rows/s |" in text
    assert "| peers | duckdb missing: no network |" in text
    assert "| `on_write_replicate` | Eager | 2.40 | 2.40 | 3 B | 3.00 × | 15 | 3.00 | 4 | 1290 |" in text
    assert "0.100 (0.10)" in text
    assert "| uniform | 10% | 95.0% | 94.4% | 96.0% | 2.0% |" in text
    assert "| `load(INTERVAL 2 SECONDS, plate)` | 900 | 3 | 1.0 | 1.5 | 1.0 | 19 of 20 |" in text
    assert "| the paper's strawman | 430 s | 13 | 25 | about 1500 s, 30 |" in text
    assert text.count("**does not hold**") == 0
    for name in ("figure9_11", "figure10_12", "figure13_16", "figure17_18", "overload"):
        assert (tmp_path / "oscar" / f"{name}.svg").read_text().startswith("<?xml")
        assert f"oscar/{name}.svg" in text


def test_the_reader_is_fresh_each_time(db: Any) -> None:
    Tuples(1000).fill(db, "t")
    archive_all(db, "t", VARIANTS[0], 1000)
    reader = reader_of(db, "t", "plain")
    assert reader.bytes_read == 0
    assert reader.read_sample(0, 1000, [COLUMN], 1.0).num_rows == 1000
    assert reader.bytes_read > 0
    assert reader_of(db, "t", "plain").bytes_read == 0

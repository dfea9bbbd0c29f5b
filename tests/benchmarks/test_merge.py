"""The parts of the merge's benchmark: records out of order, merging in blocks and threads, the line, the page."""

from __future__ import annotations

import itertools
import os
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks.harness import Report, WrongAnswer
from benchmarks.merge import line as merge_line
from benchmarks.merge import paper as merge_paper
from benchmarks.merge import suite as merge
from benchmarks.merge import wire as merge_wire
from benchmarks.merge.claims import claims
from benchmarks.merge.client import Asked, Took, merge_all
from benchmarks.merge.data import PIECE, TOLERANCE, Disorder, MergeFeed, keys_of
from benchmarks.merge.index import KEYS
from benchmarks.merge.index import measure as measure_index
from benchmarks.merge.kernel import match_percent, merge_files, merge_files_in_threads
from benchmarks.merge.kernel import merge as merged_of
from benchmarks.merge.page import write
from benchmarks.merge.ranges import Files, RangeCell, here, merge_ranges
from benchmarks.merge.servers import check_answer, expected
from benchmarks.merge.spark import Timed
from benchmarks.merge.tables import Cell, Point, figure_4, figure_5
from benchmarks.peers import job
from benchmarks.peers.environments import ENVIRONMENTS, REQUIREMENTS, Peers
from benchmarks.window_join.data import Answer, answer_of

from .tiny_merge import MERGE

PAGE = Path(__file__).parents[2] / "docs" / "papers" / "merge.md"


# -- records out of order ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "piece"), [(0.0, 128), (0.1, 128), (0.33, 1), (1.0, 7)])
def test_every_record_is_there_once_however_much_is_out_of_order(share: float, piece: int) -> None:
    order = Disorder(share, 500, piece).order(10_001, np.random.default_rng(1))
    assert sorted(order.tolist()) == list(range(10_001))
    assert (share == 0) == bool((np.diff(order) > 0).all())


def test_pieces_move_no_further_than_they_may() -> None:
    order = Disorder(0.05, 1000).order(100_000, np.random.default_rng(2))
    moved = np.abs(order - np.arange(len(order)))
    # Others that move past a piece shift it too: a few pieces more.
    assert 500 < moved.max() < 1000 + 40 * PIECE
    assert (np.diff(order) != 1).sum() <= 3 * 0.05 * 100_000 / PIECE + 3


def test_the_streams_of_a_feed_have_the_same_records_with_keys_that_nearly_agree() -> None:
    feed = MergeFeed(3000, Disorder.of(0.2, 100), cells=True)
    a, b = (feed.table(i).sort_by("id") for i in (0, 1))
    assert a.equals(feed.table(0).sort_by("id"))
    assert a["id"].equals(b["id"])
    apart = np.abs(keys_of(a) - keys_of(b))
    assert 0 < apart.max() < TOLERANCE
    assert a.nbytes == 28 * 3000


# -- merging -------------------------------------------------------------------------------------------------


def test_whoever_merges_belongs_together_and_small_steps_miss_fewer() -> None:
    feed = MergeFeed(20_000, Disorder.of(0.33, 200))
    tables = [feed.table(i) for i in (0, 1)]
    counts = []
    for step in (40, 80, 160):
        found = merged_of([keys_of(table) for table in tables], 200, step)
        left, right = (t["id"].to_numpy()[at] for t, at in zip(tables, (found.left, found.right), strict=True))
        assert (left == right).all()
        assert len(np.unique(left)) == len(left)
        counts.append(len(left))
        assert match_percent(feed, 200, step) == 100 * len(left) / 20_000
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


@pytest.mark.parametrize(("left", "right"), [(64, 64), (1000, 70), (100, 4000)])
def test_merging_blocks_as_they_come_gives_the_same_as_merging_all_at_once(left: int, right: int) -> None:
    feed = MergeFeed(3000, Disorder(0.2, 300, piece=8), cells=True)
    asked = Asked("grid", 100, 60)
    blocks = [feed.table(i).to_batches(max_chunksize=size) for i, size in enumerate((left, right))]
    found = pa.concat_tables(merge_all(blocks, feed.table(0).schema, asked))
    wanted = expected(feed, asked)
    assert 0 < wanted.rows < 3000
    assert answer_of([found["a.id"], found["b.id"]]) == wanted


def test_a_merge_that_answers_something_else_is_not_measured() -> None:
    with pytest.raises(WrongAnswer, match="the merge answered"):
        check_answer(Took(rows=3, checksum=5), Answer(3, 6), "the merge")


def test_merging_files_in_one_thread_and_in_two_gives_the_same_records(tmp_path: Path) -> None:
    feed = MergeFeed(5000, Disorder.of(0.02, 400))
    files = [tmp_path / f"{name}.parquet" for name in "ab"]
    for i, file in enumerate(files):
        parquet.write_table(feed.table(i), file, row_group_size=700)
    one, two = (way(files, 400, 80) for way in (merge_files, merge_files_in_threads))
    assert one.equals(two)
    assert answer_of([one["id"], one["id_b"]]) == feed.all_merged
    assert (np.abs(one["k"].to_numpy() - one["k_b"].to_numpy()) <= TOLERANCE).all()


def test_the_answer_of_a_standing_query_lacks_what_is_not_known_yet() -> None:
    timed = Timed.make(30_000, 500)
    times = timed.tables[0]["ts"].cast(pa.int64()).to_numpy()
    later = timed.expected(int(times[-1]))
    sooner = timed.expected(int(times[15_000]))
    assert 0 < sooner.rows < 15_000 < later.rows < 30_000


def test_more_is_merged_with_small_steps_and_with_less_out_of_order() -> None:
    points = figure_4(10_000, 200, 1)
    assert [point.share for point in points] == sorted(point.share for point in points)
    assert points[0].match > points[-1].match
    points = figure_5(10_000, 200, 1)
    assert [point.step for point in points] == [20 * tenths for tenths in range(1, 10)]
    assert points[0].match > points[-1].match


# -- range queries -------------------------------------------------------------------------------------------


def test_asking_for_the_rest_misses_nobody_and_asking_for_the_difference_does() -> None:
    files = Files.make(5000, 0.33, 1)
    blocks = [files.driving.slice(at, 500) for at in range(0, 5000, 500)]
    ask = here(keys_of(files.asked), 500)
    found = {each: merge_ranges(blocks, ask, each) for each in ("difference", "rest")}
    for numbers, places in found.values():
        assert (files.asked["id"].to_numpy()[places] == numbers).all()
    assert sorted(found["rest"][0].tolist()) == list(range(5000))
    assert 500 < len(found["difference"][0]) < 5000


def test_range_queries_are_counted_without_peers(tmp_path: Path) -> None:
    report = Report("nobody", MERGE)
    measure_index(3000, 30, 1, tmp_path, Peers(None), report)
    assert {figure.name for figure in report.figures} == {"range_queries", "range_queries_one_by_one"}
    assert report.notes["range_indexes"]["rtree"] == "missing: no peers were asked for"
    assert parquet.read_schema(tmp_path / "points" / "lows.parquet").names == list(KEYS)


# -- peers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["polars_asof", "pandas_asof"])
def test_a_peer_answers_as_we_do(engine: str, tmp_path: Path) -> None:
    module = pytest.importorskip(f"benchmarks.peers.in_{engine}")
    feed = MergeFeed(4000, Disorder.of(0.02, 300))
    for i, name in enumerate("ab"):
        parquet.write_table(feed.table(i), tmp_path / f"{name}.parquet")
    said = module.work(job.Job(str(tmp_path), 8000, 0, TOLERANCE))
    assert (said.count, said.checksum) == feed.all_merged
    assert len(said.seconds) == 2


def test_every_peer_has_its_requirements() -> None:
    listed = (REQUIREMENTS / ENVIRONMENTS["polars_asof"]).read_text()
    for engine in ("polars", "pandas", "duckdb", "rtree"):
        assert f"\n{engine}==" in listed
    assert (REQUIREMENTS / "in_postgres.py").exists()


def test_peers_can_be_left_out_or_found_elsewhere() -> None:
    assert merge.chosen(merge.QUICK, Namespace(peers="none")).peers is None
    assert merge.chosen(merge.QUICK, Namespace(peers="/there")).peers == "/there"
    assert merge.chosen(merge.QUICK, Namespace(peers=None)) == merge.QUICK


# -- the line ------------------------------------------------------------------------------------------------


@pytest.fixture
def direction(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A direction of a line between two datagram sockets, 1000 bytes/s and 2 s long, with a clock to set."""
    import socket

    ends = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2)]
    for one, other in ends:
        one.setblocking(False)
        other.setblocking(False)
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(merge_wire, "QUEUE_SECONDS", 0.5)
    made = merge_wire.Direction(ends[0][1].fileno(), ends[1][0].fileno(), 1000, 2.0)
    yield made, ends[0][0], ends[1][1], clock
    for one, other in ends:
        one.close()
        other.close()


def test_a_packet_arrives_after_its_own_length_and_the_lines(direction: Any) -> None:
    way, sender, receiver, clock = direction
    sender.send(b"x" * 100)
    sender.send(b"y" * 200)
    way.take()
    assert way.next_arrival == pytest.approx(102.1)
    clock[0] = 102.2
    way.deliver()
    assert receiver.recv(1000) == b"x" * 100
    with pytest.raises(BlockingIOError):
        receiver.recv(1000)
    clock[0] = 102.31
    way.deliver()
    assert receiver.recv(1000) == b"y" * 200
    assert way.next_arrival is None


def test_a_packet_that_would_wait_too_long_is_lost(direction: Any) -> None:
    way, sender, _, _ = direction
    for _ in range(4):
        sender.send(b"z" * 300)
    way.take()
    assert way.lost == 2


def test_without_root_there_is_no_line_and_the_reason_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    report = Report("nobody", MERGE)
    merge_line.measure(1000, 100, 1, tmp_path, report)
    assert report.figures == []
    assert report.notes["line"].startswith("missing: network namespaces need root")


# -- the page ------------------------------------------------------------------------------------------------


def cells() -> list[Cell]:
    made = []
    for (window, share), lines in merge_paper.CGM.items():
        for part, paper in zip(merge_paper.STEPS, lines, strict=True):
            merging = 0.05 + share / 10
            made.append(
                Cell(window, int(part * window), share, paper.match, 99.5, 0.02, merging, merging, tuple(paper))
            )
    return made


def range_cells(extra: float = 0) -> list[RangeCell]:
    return [
        RangeCell(window, share, paper[0] + extra, 100.0, 1.5, 2.5, 0.03, 0.05, paper)
        for (window, share), paper in merge_paper.RTM.items()
    ]


DISORDER = [Point(0.02, 8000, 100.0, 0.1), Point(0.33, 8000, 49.0, 0.2)]
MATCHES = [Point(0.33, 1000, 100.0, 0.2), Point(0.33, 8000, 49.0, 0.1)]


def test_the_tables_of_the_paper_are_whole() -> None:
    everything = set(itertools.product((5000, 10_000), merge_paper.SHARES))
    assert set(merge_paper.CGM) == set(merge_paper.RTM) == everything
    assert all(len(lines) == len(merge_paper.STEPS) for lines in merge_paper.CGM.values())


def test_claims_hold_for_the_papers_own_figures_and_not_for_others() -> None:
    assert all(claim.holds for claim in claims(cells(), DISORDER, MATCHES, range_cells()))
    other = {claim.claim: claim.holds for claim in claims(cells(), DISORDER, MATCHES[::-1], range_cells(extra=-11))}
    assert not other["Tables 3 and 4: match % within 10 points in every cell"]
    assert not other["merging more records takes longer (Figure 5)"]
    assert other["Tables 1 and 2: match % within 10 points in every cell"]


@pytest.mark.slow
def test_one_command_makes_tables_and_pictures_on_the_page(tmp_path: Path) -> None:
    report = merge.MergeReport("nobody", MERGE, cells=cells(), range_cells=range_cells())
    report.figure_4, report.figure_5 = DISORDER, MATCHES
    report.claims = claims(report.cells, DISORDER, MATCHES, report.range_cells)
    report.add("servers_merged", 512, "MB/s")
    report.notes |= {"peers": {"duckdb": "missing: no network"}, "line": "missing: no root"}
    machine = {"cores": 2, "memory_mb": 2048, "python": "3", "pyspark": "4", "load_average_at_start": [0.5, 0, 0]}
    page = tmp_path / "merge.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write(report.as_dict("merge", True, machine), page)
    text = page.read_text(encoding="utf-8")
    assert "| `servers_merged` | 512 MB/s |" in text
    assert "| duckdb | missing: no network |" in text
    assert "| 4,000 | 33% | 48.0 | 48 | 99.5 | 20 | 83 | 83 | 0.639, 0.669, 1.31 |" in text
    assert "| 2% | 86.0 | 86 | 100.0 | 1.5 | 2.5 | 30 | 50 | 0.475 |" in text
    assert text.count("**does not hold**") == 0
    for number in (4, 5):
        assert (tmp_path / "merge" / f"figure{number}.svg").read_text().startswith("<?xml")

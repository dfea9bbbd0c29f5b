"""Tables 1 and 2 and Figures 4 and 5: the continuously generated data merge (CGM) over streams out of order.

M. Mazzucco et al. (2002, §6): windows of N records, steps of at least K, and a file of which 2 to 33 % is reordered.
Fetching, merging, and both at once are timed in a process that reads two data servers over the loopback device.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Report, check, median, say
from benchmarks.merge.client import Asked, ClientJob, Took
from benchmarks.merge.data import Disorder, MergeFeed, keys_of
from benchmarks.merge.kernel import match_percent, merge
from benchmarks.merge.paper import CGM, SHARES, STEPS
from benchmarks.merge.servers import check_answer, expected, merge_elsewhere, servers, store

RECORDS_MOVE = 5.0
"""Windows that records move by where they move one by one, the model that is shown beside that of pieces."""
FIGURE_4_SHARES = (0.02, 0.05, 0.10, 0.15, 0.20, 0.25, 0.33)
FIGURE_5_STEPS = tuple(tenths / 10 for tenths in range(1, 10))


@dataclass(frozen=True)
class Cell:
    """A line of Table 1 or 2; seconds of fetching, merging and both at once."""

    window: int
    step: int
    share: float
    match: float
    match_of_records: float
    fetch: float
    merge: float
    total: float
    paper: tuple[float, ...]


@dataclass(frozen=True)
class Point:
    """A point of Figure 4 or 5: how much is merged, and the processor time it takes."""

    share: float
    step: int
    match: float
    seconds: float


def feed_of(rows: int, window: int, share: float) -> MergeFeed:
    return MergeFeed(rows, Disorder.of(share, window), seed=window, cells=True)


def measure(rows: int, windows: Sequence[int], rounds: int, root: Path, report: Report) -> list[Cell]:
    """Every line of both tables."""
    asked = []
    for window in windows:
        for share in SHARES:
            store(feed_of(rows, window, share), root, _name(window, share))
            asked += [Asked(_name(window, share), window, int(window * step)) for step in STEPS]
    with servers(root) as urls:
        took = merge_elsewhere(ClientJob(urls, asked, rounds))
    cells = _cells(rows, windows, asked, took)
    far = {f"N = {c.window:,}, K = {c.step:,}, {c.share:.0%}": round(abs(c.match - c.paper[0]), 1) for c in cells}
    worst = max(far, key=lambda name: far[name])
    say(f"Tables 1 and 2: at most {far[worst]} points from the paper ({worst})")
    report.add("tables_1_and_2_points_from_the_paper", far[worst], "points")
    report.notes["tables_1_and_2_worst_cell"] = worst
    return cells


def _name(window: int, share: float) -> str:
    return f"window{window}_{round(share * 100)}"


def _cells(rows: int, windows: Sequence[int], asked: list[Asked], took: list[Took]) -> list[Cell]:
    lines = iter(zip(asked, took, strict=True))
    cells = []
    for number, window in enumerate(windows):
        for share in SHARES:
            feed = feed_of(rows, window, share)
            records = MergeFeed(rows, Disorder(share, RECORDS_MOVE * window, piece=1), seed=window)
            for place in range(len(STEPS)):
                each, seconds = next(lines)
                check_answer(seconds, expected(feed, each), f"the merge of {each.dataset} from two data servers")
                cells.append(
                    Cell(
                        window,
                        each.step,
                        share,
                        100 * seconds.rows / rows,
                        match_percent(records, window, each.step),
                        median(seconds.fetch),
                        median(seconds.merge),
                        median(seconds.total),
                        tuple(CGM[(5000, 10000)[number], share][place]),
                    )
                )
    return cells


def figure_4(rows: int, window: int, rounds: int) -> list[Point]:
    """The kernel with large steps and ever more records out of order."""
    return [_point(rows, window, share, STEPS[-1], rounds) for share in FIGURE_4_SHARES]


def figure_5(rows: int, window: int, rounds: int) -> list[Point]:
    """The kernel with a third of the records out of order and ever larger steps."""
    points = [_point(rows, window, SHARES[-1], part, rounds) for part in FIGURE_5_STEPS]
    check(points[0].match >= points[-1].match, "smaller steps merge fewer records")
    return points


def _point(rows: int, window: int, share: float, part: float, rounds: int) -> Point:
    feed = feed_of(rows, window, share)
    keys = [keys_of(feed.table(i)) for i in (0, 1)]
    step, taken = max(int(window * part), 1), []
    for _ in range(rounds + 1):
        began = time.process_time()
        found = merge(keys, window, step)
        taken.append(time.process_time() - began)
    return Point(share, step, 100 * len(found.left) / rows, min(taken))

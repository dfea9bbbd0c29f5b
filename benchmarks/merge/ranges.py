"""Tables 3 and 4: the R-tree merge (RTM), where one stream drives and the other answers range queries.

M. Mazzucco et al. (2002, §4.2, §6): blocks of N records, and windows of N of the records in the block's cube. An R-tree
gives records in no order, so the second stream is stored as leaves would be: 128 records whose keys follow each other
stand together, the leaves in any order. The paper's next question, the difference of cubes, and ours, the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc

from anabranch.dataspace.client import DataSpaceClient
from anabranch.dataspace.range_index import RangeIndex
from anabranch.operators.merge.range_rounds import Ask, Cube, Found, merge_block, wider
from benchmarks.harness import Report, check, median, say
from benchmarks.merge.data import PIECE, TOLERANCE, Disorder, MergeFeed, keys_of
from benchmarks.merge.paper import RTM, SECONDS_OF_RTM, SHARES
from benchmarks.merge.servers import servers
from benchmarks.window_join.data import Ints

MOVED = 0.035
"""Pieces move by up to this part of the file."""
Doubles = NDArray[np.float64]
Remainder = Literal["difference", "rest"]


@dataclass(frozen=True)
class RangeCell:
    """A line of Table 3 or 4: match % with the paper's question and with ours, questions per block, and seconds."""

    window: int
    share: float
    difference: float
    rest: float
    difference_questions: float
    rest_questions: float
    difference_seconds: float
    rest_seconds: float
    paper: tuple[float, float]


@dataclass(frozen=True)
class Files:
    """A file out of order, and one in the order of an R-tree's leaves."""

    driving: pa.Table
    asked: pa.Table

    @classmethod
    def make(cls, rows: int, share: float, seed: int) -> Files:
        feed = MergeFeed(rows, Disorder(share, MOVED * rows), seed=seed)
        leaves = MergeFeed(rows, Disorder(1.0, 10 * rows, piece=PIECE), seed=seed)
        return cls(feed.table(0), leaves.table(1))


def merge_ranges(blocks: Sequence[pa.Table], ask: Ask, remainder: Remainder) -> tuple[Ints, Ints]:
    """The numbers of records that merge: of the first stream their own, of the second their rows."""
    left, right = [], []
    for block in blocks:
        keys = np.array(keys_of(block)).reshape(1, -1)
        pairs = merge_block(keys, ask, np.array([TOLERANCE]), "first", remainder)
        left.append(block.column("id").to_numpy()[pairs.left])
        right.append(pairs.right)
    return np.concatenate(left), np.concatenate(right)


def here(keys: Doubles, window: int) -> Ask:
    """Range queries answered by the index in this process."""
    index = RangeIndex(1)
    index.extend(np.ascontiguousarray(keys[:, None]))

    def ask(cube: Cube, without: Cube | None, after: int) -> Found:
        rows, more = index.query(*_asked(cube), window, None, _cut(without), after)
        return _found(keys[rows], rows, more)

    return ask


def _asked(cube: Cube) -> tuple[Doubles, Doubles]:
    low, high = wider(float(cube.low[0, 0]), float(cube.high[0, 0]), TOLERANCE)
    return np.array([low]), np.array([high])


def _cut(without: Cube | None) -> tuple[Doubles, Doubles] | None:
    return None if without is None else (without.low[:, 0], without.high[:, 0])


def _found(keys: Doubles, rows: Ints, more: bool) -> Found:
    matrix = np.array(keys).reshape(1, -1)
    seen = Cube.around(matrix) if len(rows) else None
    return Found(matrix, rows, seen, int(rows[-1]) if more else None)


def from_server(client: DataSpaceClient, dataset: str, window: int) -> Ask:
    """Range queries answered by a data server, with all columns of the records."""

    def ask(cube: Cube, without: Cube | None, after: int) -> Found:
        table, more = client.range(dataset, ["k"], *_asked(cube), window, without=_cut(without), after=after)
        rows = table.column("_row").to_numpy()
        return _found(keys_of(table), rows, more)

    return ask


def measure(rows: int, windows: Sequence[int], files: int, rounds: int, root: Path, report: Report) -> list[RangeCell]:
    """Every line of both tables; match % over several files, since a single one has few pieces that move."""
    cells = []
    for share in SHARES:
        for i, side in enumerate("ab"):
            (root / side).mkdir(parents=True, exist_ok=True)
            table = (Files.make(rows, share, 0).driving, Files.make(rows, share, 0).asked)[i]
            with ipc.new_file(root / side / f"{_name(share)}.arrow", table.schema) as file:
                file.write_table(table)
    with servers(root) as urls:
        clients = [DataSpaceClient(url) for url in urls]
        for number, window in enumerate(windows):
            for share in SHARES:
                seconds = {each: _seconds(clients, rows, share, window, each, rounds) for each in _REMAINDERS}
                match = {each: _match(rows, share, window, each, files) for each in _REMAINDERS}
                paper = RTM[(5000, 10000)[number], share]
                cells.append(
                    RangeCell(
                        window=window,
                        share=share,
                        difference=match["difference"][0],
                        rest=match["rest"][0],
                        difference_questions=match["difference"][1],
                        rest_questions=match["rest"][1],
                        difference_seconds=seconds["difference"],
                        rest_seconds=seconds["rest"],
                        paper=paper,
                    )
                )
    far = max(abs(cell.difference - cell.paper[0]) for cell in cells)
    check(all(cell.rest > 99.99 for cell in cells), "the rest of the cube misses records")
    say(f"Tables 3 and 4: at most {far:.1f} points from the paper")
    report.add("tables_3_and_4_points_from_the_paper", far, "points")
    first = cells[0]
    for name, taken in (("rtm", first.rest_seconds), ("rtm_by_the_letter", first.difference_seconds)):
        report.add(name, rows / taken, "records/s", peer=100_000 / SECONDS_OF_RTM)
    return cells


_REMAINDERS: tuple[Remainder, ...] = ("difference", "rest")


def _name(share: float) -> str:
    return f"grid_{round(share * 100)}"


def _match(rows: int, share: float, window: int, remainder: Remainder, files: int) -> tuple[float, float]:
    """Match %, and how many questions are asked for a block."""
    merged = questions = blocks = 0
    for seed in range(files):
        made = Files.make(rows, share, seed)
        ask = here(keys_of(made.asked), window)

        def counted(cube: Cube, without: Cube | None, after: int, ask: Ask = ask) -> Found:
            nonlocal questions
            questions += 1
            return ask(cube, without, after)

        parts = [made.driving.slice(at, window) for at in range(0, rows, window)]
        numbers, places = merge_ranges(parts, counted, remainder)
        partners = made.asked.column("id").to_numpy()[places]
        check(bool((numbers == partners).all()), "records were merged that do not belong together")
        merged += len(numbers)
        blocks += len(parts)
    return 100 * merged / (rows * files), questions / blocks


def _seconds(
    clients: list[DataSpaceClient], rows: int, share: float, window: int, remainder: Remainder, rounds: int
) -> float:
    """From the first request to the last merged record; the index of the second server is made before."""
    name = _name(share)
    work: Callable[[], tuple[Ints, Ints]] = lambda: merge_ranges(  # noqa: E731
        [pa.Table.from_batches([batch]) for batch in clients[0].read(name, block_rows=window)],
        from_server(clients[1], name, window),
        remainder,
    )
    taken = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        numbers, _ = work()
        taken.append(time.perf_counter() - began)
    check(len(np.unique(numbers)) == len(numbers) <= rows, "a record was merged twice")
    return median(taken[1:])

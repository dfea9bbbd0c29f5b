"""The parts of the window join's benchmark: rows, the oracle, the four joins of Figure 7, peers, the page."""

from __future__ import annotations

import itertools
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.harness import WrongAnswer
from benchmarks.peers.environments import Peers, _environment, write_files
from benchmarks.peers.job import Job, Said, sum_up
from benchmarks.peers.programs import Missing
from benchmarks.window_join import figure7 as window_join_figure7
from benchmarks.window_join import memory as window_join_memory
from benchmarks.window_join import oracle as window_join_oracle
from benchmarks.window_join import suite as window_join
from benchmarks.window_join.data import PIECE, START, Answer, Feed, answer_of, check_sql
from benchmarks.window_join.figure7 import HOUR, JOINS, Claim, Curve, claims, merged, sales, serve
from benchmarks.window_join.kernel import kernel_rows_per_second
from benchmarks.window_join.page import write
from benchmarks.window_join.runs import all_pairs, join_sql

from .tiny_window_join import FIGURE7, MEMORY

PAGE = Path(__file__).parents[2] / "docs" / "papers" / "steam.md"


def brute_force(tables: list[pa.Table], windows: dict[tuple[int, int], int]) -> list[tuple[int, ...]]:
    """Every result as row numbers, by looking at every combination."""
    rows = [
        list(zip(t.column("k").to_pylist(), t.column("ts").cast(pa.int64()).to_pylist(), strict=True)) for t in tables
    ]
    return [
        numbers
        for numbers in itertools.product(*(range(len(each)) for each in rows))
        if len({rows[i][n][0] for i, n in enumerate(numbers)}) == 1
        and all(abs(rows[i][numbers[i]][1] - rows[j][numbers[j]][1]) <= w * 1000 for (i, j), w in windows.items())
    ]


@pytest.mark.parametrize(
    "windows",
    [
        {(0, 1): 40},
        {(0, 1): 0},
        all_pairs(3, 30),
        {(0, 1): 10, (1, 2): 25},
        {(0, 1): 60, (0, 2): 5},
        all_pairs(4, 15),
        {(0, 1): 5, (1, 2): 10, (2, 3): 8},
    ],
)
def test_the_oracle_finds_what_looking_at_every_combination_finds(windows: dict[tuple[int, int], int]) -> None:
    streams = 1 + max(j for _, j in windows)
    feed = Feed(24, 3, streams=streams, rate=500)
    tables = [feed.table(stream) for stream in range(streams)]
    wanted = brute_force(tables, windows)
    got = window_join_oracle.joined(tables, windows)
    assert wanted
    assert sorted(zip(*(rows.tolist() for rows in got), strict=True)) == wanted


def test_the_oracle_of_bands_finds_what_looking_at_every_pair_finds() -> None:
    feed = Feed(150, None, rate=500)
    tables = [feed.table(stream) for stream in range(2)]
    (x, t, v), (y, u, w) = ([table.column(n).cast("int64" if n == "ts" else table.schema.field(n).type).to_numpy()
                             for n in ("x", "ts", "v")] for table in tables)  # fmt: skip
    near = (np.abs(x[:, None] - y) <= 0.05) & (np.abs(t[:, None] - u) <= 40_000)
    left, right = np.nonzero(near)
    assert len(left) > 100
    assert window_join_oracle.near_values(tables, 40, 0.05) == answer_of([v[left], w[right]])


def test_rows_joined_with_the_wrong_partner_change_the_checksum() -> None:
    values = np.array([5, 7, 11])
    right = answer_of([values, np.array([2, 3, 4])])
    assert right == Answer(3, 10 + 21 + 44)
    assert answer_of([values, np.array([3, 2, 4])]).checksum != right.checksum
    assert check_sql(["a.v", "b.v"]) == "CAST(sum((a.v % 1000003) * b.v % 1000003) AS BIGINT)"


def test_a_feed_gives_the_same_rows_in_pieces_in_order_of_time() -> None:
    feed = Feed(PIECE + 500, 50)
    table = feed.table(1)
    assert table.equals(pa.concat_tables(feed.pieces(1)).combine_chunks())
    assert not table.equals(feed.table(0))
    times = table.column("ts").cast(pa.int64()).to_numpy()
    assert np.all(np.diff(times) >= 0)
    assert np.all(times % 1000 == 0)
    assert START * 1000 <= times[0] <= times[-1] < (START + PIECE + 500) * 1000
    assert set(table.column("k").to_pylist()) == set(range(50))


def test_the_sql_of_a_join_names_one_window_or_one_for_each_pair() -> None:
    assert join_sql(["p", "q"], {(0, 1): 10_000}) == (
        "SELECT A.k, A.v AS v0, B.v AS v1 FROM p A, q B WINDOW = INTERVAL 10 SECONDS WHERE A.k = B.k"
    )
    assert "WINDOW = INTERVAL 5 SECONDS" in join_sql(["p", "q", "r"], all_pairs(3, 5000))
    different = join_sql(["p", "q", "r"], {(0, 1): 5000, (1, 2): 9000})
    assert "WINDOW(A, B) = INTERVAL 5 SECONDS AND WINDOW(B, C) = INTERVAL 9 SECONDS" in different
    assert different.endswith("WHERE A.k = B.k AND B.k = C.k")


# -- Figure 7 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streams", [2, 3, 4])
@pytest.mark.parametrize("join", JOINS, ids=lambda join: join.name)
def test_all_four_joins_give_the_results_of_the_oracle(join: Any, streams: int) -> None:
    shops = [sales(shop, 2, 600, 60) for shop in range(streams)]
    pairs = all_pairs(streams, HOUR)
    expected = window_join_oracle.equal_keys(shops, pairs)
    assert expected.rows > 300
    quick_purge = join if join.purge_every == 0 else window_join_figure7.Join(join.name, join.hashing, 700)
    answer, micros = serve(quick_purge, merged(shops), streams, FIGURE7)
    assert answer == expected
    assert len(micros) == -(-streams * 1200 // window_join_figure7.BLOCK)


def test_shops_sell_in_their_opening_hours_only() -> None:
    hours = sales(0, 3, 500, 60).column("ts").cast(pa.int64()).to_numpy() // 1000 % (24 * HOUR)
    assert hours.min() >= 8 * HOUR
    assert hours.max() <= 21 * HOUR


def test_claims_are_refuted_where_the_curves_say_so() -> None:
    def curve(join: str, micros: list[float], days: list[float]) -> Curve:
        return Curve(join, 2, micros, days, 1)

    found = claims(
        [
            curve("NLW-join", [1.0, 1.0], [1.0, 1.0, 1.0]),
            curve("ripple join", [3.0, 5.0], [4.0, 4.0]),
            curve("HW-join", [2.0, 2.0], [1.0, 1.0, 2.0]),
            curve("XJoin", [1.0, 1.0], [1.0, 1.0]),
        ]
    )
    assert [claim.holds for claim in found] == [True, False, True, False]
    assert found[0] == Claim(
        "NLW-join faster than ripple join, 2 streams", True, "1.00 against 4.00 µs (4.0×), in 100% of blocks"
    )


# -- peers ---------------------------------------------------------------------------------------------------


@pytest.fixture
def job(tmp_path: Path) -> tuple[Job, Answer]:
    feed = Feed(3000, 100)
    tables = [feed.table(stream) for stream in range(2)]
    write_files(tmp_path / "rows", tables)
    return Job(str(tmp_path / "rows"), 6000, 500), window_join_oracle.equal_keys(tables, {(0, 1): 500})


@pytest.fixture
def own_python(tmp_path: Path) -> Peers:
    """Peers that run in this environment, which has Polars and none of the others."""
    peers = Peers(tmp_path)
    peers._ready["requirements.txt"] = Path(sys.executable)
    return peers


@pytest.mark.slow
def test_a_peers_answer_is_checked(own_python: Peers, job: tuple[Job, Answer]) -> None:
    said = own_python.ask("polars", *job)
    assert isinstance(said, Said)
    assert said.rows == 6000
    assert min(said.seconds) > 0
    with pytest.raises(WrongAnswer, match="polars answered"):
        own_python.ask("polars", job[0], job[1]._replace(checksum=1))


def test_a_peer_that_is_not_there_is_missing_with_the_reason(own_python: Peers, job: tuple[Job, Answer]) -> None:
    assert own_python.ask("nobody", *job) == Missing(f"{sys.executable}: No module named benchmarks.peers.in_nobody")
    assert Peers(None).ask("polars", *job) == Missing("no peers were asked for")


@pytest.mark.slow
def test_an_environment_that_cannot_be_installed_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wanted.txt").write_text("./there-is-no-such-folder\n")
    monkeypatch.setattr("benchmarks.peers.environments.REQUIREMENTS", tmp_path)
    found = _environment(tmp_path / "peers", "wanted.txt")
    assert isinstance(found, Missing)
    assert found.reason.startswith("could not install wanted.txt: ")


def test_an_answer_in_several_files_is_summed_up(tmp_path: Path) -> None:
    (tmp_path / "part-0").write_text("1,2,3\n9,10,20\n")
    (tmp_path / "part-1").write_text("4,5\n")
    (tmp_path / "_SUCCESS").write_text("")
    assert sum_up(tmp_path) == (3, 6 + 200 + 20)


def test_the_command_line_says_whether_memory_is_watched_and_who_is_asked() -> None:
    given = Namespace(memory=True, peers="none", quick=False)
    assert window_join.chosen(window_join.FULL, given).memory == window_join.MEMORY
    assert window_join.chosen(window_join.FULL, given).peers is None
    plain = Namespace(memory=False, peers=None, quick=False)
    assert window_join.chosen(window_join.FULL, plain) == window_join.FULL


# -- kernel, memory, page ------------------------------------------------------------------------------------


def test_the_kernels_answer_is_checked() -> None:
    feed = Feed(5000, 200)
    tables = [feed.table(stream) for stream in range(2)]
    expected = window_join_oracle.equal_keys(tables, {(0, 1): 700})
    assert kernel_rows_per_second(tables, 700, expected, 1) > 0
    with pytest.raises(WrongAnswer):
        kernel_rows_per_second(tables, 699, expected, 1)


def test_the_answer_over_many_rows_is_found_step_by_step() -> None:
    feed = Feed(MEMORY.rows // 2, MEMORY.keys, rate=MEMORY.rate)
    tables = [feed.table(stream) for stream in range(2)]
    wanted = window_join_oracle.equal_keys(tables, {(0, 1): MEMORY.window_seconds * 1000})
    assert window_join_memory.expected_answer(feed, MEMORY) == wanted


@pytest.mark.slow
def test_a_run_is_put_on_the_page(tmp_path: Path) -> None:
    curves = window_join_figure7.measure(FIGURE7)
    found = {
        "quick": True,
        "figures": {
            "two_way": {"value": 2.5e6, "unit": "rows/s", "peer": 1e5, "ratio": 25.0, "bar": "≥ 10", "met": True},
            "two_way_whole": {"value": 5.0, "unit": "rows/s"},
        },
        "notes": {"peers": {"flink": "missing: no Java"}},
        "sizes": {"rows": 10, "keys": 2, "chain_rows": 5},
        "machine": {"cores": 2, "memory_mb": 2048, "python": "3", "pyspark": "4", "load_average_at_start": [0.5, 0, 0]},
        "claims": [vars(claim) for claim in claims(curves)],
        "curves": window_join_figure7.as_dicts(curves),
    }
    page = tmp_path / "steam.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    write(found, page)
    text = page.read_text(encoding="utf-8")
    assert "| `two_way` | 2.50 M rows/s | 100,000 rows/s | 25.00× | ≥ 10 | met |" in text
    assert "| flink | missing: no Java |" in text
    assert text.count("streams |") >= 3
    assert (tmp_path / "steam" / "figure7.svg").read_text().startswith("<?xml")

"""Joins of streams inside windows, beside the engines one would pick instead.

The first case is a join of two streams on equal keys, |Δt| ≤ 10 s. Spark's own stream-stream join runs in the same
process with micro-batches of the same size; the other engines run before that, each in an environment of its own. Every
answer is compared with that of DuckDB's batch join and with NumPy's before a figure is given.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import anabranch as ab
from anabranch.database import Database
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.peers.environments import FOLDER, Peers, write_files
from benchmarks.peers.job import Job, Said
from benchmarks.peers.programs import Missing
from benchmarks.progress import keep_progress
from benchmarks.window_join import figure7
from benchmarks.window_join import memory as window_join_memory
from benchmarks.window_join import oracle as window_join_oracle
from benchmarks.window_join.data import Answer, Feed
from benchmarks.window_join.figure7 import Claim, Curve, FigureSizes
from benchmarks.window_join.kernel import kernel_rows_per_second, operator_rows_per_second
from benchmarks.window_join.memory import MemorySizes
from benchmarks.window_join.runs import Ran, Windows, all_pairs, fill, join_sql, run_ours
from benchmarks.window_join.spark import SparkJoins

PEER = "Spark's stream-stream join, Pathway, Flink, DuckDB"
WINDOW = 10_000
"""Milliseconds."""
WIDTH = 0.001
"""Of the band, the range of values being 1."""
SPARSE, DENSE = 100, 1000
"""Rows per second of event time in the streams that are joined by a band: about 4 and about 40 results a row."""
BACKLOG_BARS = {"pathway": 10.0, "flink": 8.0, "duckdb": 1.0, "polars": None, "bytewax": None}
CHAINS: dict[str, dict[tuple[int, int], int]] = {
    "three_way_uniform": all_pairs(3, WINDOW),
    "three_way_different": {(0, 1): 5_000, (1, 2): 10_000},
    "four_way_uniform": all_pairs(4, WINDOW),
    "four_way_different": {(0, 1): 5_000, (1, 2): 10_000, (2, 3): 8_000},
}


@dataclass(frozen=True)
class Sizes:
    """How much is run through, and how often."""

    rows: int
    """Of each stream of the first case; all rows below are per stream too."""
    keys: int
    batch_rows: int
    """Against Spark's own join."""
    backlog_batch_rows: int
    rounds: int
    slow_rows: int
    """For Bytewax, which is slow."""
    chain_rows: int
    chain_keys: int
    chain_batch_rows: int
    band_rows: int
    dense_band_rows: int
    growth_rows: int
    growth: int
    """How many times as large the larger window is."""
    figure7: FigureSizes
    memory: MemorySizes | None = None
    """Runs for long, so it must be asked for."""
    peers: str | None = str(FOLDER)
    """Where the other engines are installed; None: they are left out."""


FULL = Sizes(
    rows=2_000_000,
    keys=100_000,
    batch_rows=200_000,
    backlog_batch_rows=2_000_000,
    rounds=3,
    slow_rows=250_000,
    chain_rows=400_000,
    chain_keys=20_000,
    chain_batch_rows=100_000,
    band_rows=1_000_000,
    dense_band_rows=200_000,
    growth_rows=3_000_000,
    growth=100,
    figure7=FigureSizes(days=8, sales=10_000, rounds=5),
)
QUICK = replace(
    FULL,
    rows=400_000,
    keys=20_000,
    batch_rows=100_000,
    rounds=1,
    slow_rows=100_000,
    chain_rows=100_000,
    chain_batch_rows=50_000,
    band_rows=200_000,
    dense_band_rows=50_000,
    growth_rows=1_600_000,
    figure7=FigureSizes(days=4, sales=5_000, rounds=2),
)
MEMORY, QUICK_MEMORY = MemorySizes(rows=100_000_000), MemorySizes(rows=10_000_000)


def chosen(sizes: Sizes, given: Namespace) -> Sizes:
    """What was said on the command line about memory and peers."""
    if given.memory:
        sizes = replace(sizes, memory=QUICK_MEMORY if given.quick else MEMORY)
    if given.peers:
        sizes = replace(sizes, peers=None if given.peers == "none" else given.peers)
    return sizes


@dataclass
class JoinReport(Report):
    """The bars, and beside them the curves of Figure 7 with what they say to the paper's claims."""

    curves: list[Curve] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)

    def as_dict(self, name: str, quick: bool, machine: dict[str, Any]) -> dict[str, Any]:
        found = super().as_dict(name, quick, machine)
        found["claims"] = [vars(claim) for claim in self.claims]
        found["curves"] = figure7.as_dicts(self.curves)
        return found

    def show(self, name: str, machine: dict[str, Any], console: Console) -> None:
        super().show(name, machine, console)
        table = Table("the paper", "ours", "seen", title="figure 7", title_justify="left")
        for each in self.claims:
            table.add_row(each.claim, "[green]holds[/]" if each.holds else "[yellow]does not hold[/]", each.seen)
        console.print(table)


@dataclass(frozen=True)
class Case:
    """Rows of a join with their answer."""

    feed: Feed
    tables: list[pa.Table]
    expected: Answer

    @classmethod
    def equal_keys(cls, feed: Feed, windows: Windows) -> Case:
        tables = [feed.table(stream) for stream in range(feed.streams)]
        return cls(feed, tables, window_join_oracle.equal_keys(tables, windows))


def run(sizes: Sizes) -> Report:
    report = JoinReport(PEER, sizes)
    with tempfile.TemporaryDirectory(prefix="bench-join-") as root:
        say("making rows and their answers")
        case = Case.equal_keys(Feed(sizes.rows, sizes.keys), {(0, 1): WINDOW})
        bands = {"band": near_case(sizes.band_rows, SPARSE), "dense_band": near_case(sizes.dense_band_rows, DENSE)}
        peers = ask_peers(sizes, case, bands, Path(root), report)
        with ab.open(f"{root}/river", settings={"batch_rows": sizes.batch_rows}) as db:
            keep_progress(db)
            spark = SparkJoins(db, Path(root) / "spark")
            chains(db, spark, sizes, report)
            two_way(db, spark, case, peers, sizes, report)
            for name, band in bands.items():
                band_join(db, name, band, peers, sizes, report)
            window_growth(db, sizes, report)
        if sizes.memory is not None:
            window_join_memory.measure(root, sizes.memory, report)
    report.curves = figure7.measure(sizes.figure7)
    report.claims = figure7.claims(report.curves)
    report.notes["service_time_per_tuple"] = figure7.summary(report.curves)
    return report


def near_case(rows: int, rate: int) -> Case:
    feed = Feed(rows, None, rate=rate)
    tables = [feed.table(stream) for stream in range(2)]
    return Case(feed, tables, window_join_oracle.near_values(tables, WINDOW, WIDTH))


# -- other engines ---------------------------------------------------------------------------------------


def ask_peers(sizes: Sizes, case: Case, bands: dict[str, Case], root: Path, report: Report) -> dict[str, Said]:
    """The fastest round of each engine; those that are missing are noted with the reason."""
    peers = Peers(None if sizes.peers is None else Path(sizes.peers))
    slow = Case.equal_keys(Feed(sizes.slow_rows, sizes.keys), {(0, 1): WINDOW})
    cases = {**dict.fromkeys(BACKLOG_BARS, case), "bytewax": slow, **bands}
    found: dict[str, Said] = {}
    notes: dict[str, str] = {}
    for name, asked in cases.items():
        folder = root / f"rows_{id(asked)}"
        if not folder.exists():
            write_files(folder, asked.tables)
        job = Job(
            folder=str(folder),
            rows=2 * asked.feed.rows,
            window_ms=WINDOW,
            width=WIDTH if name in bands else None,
            rounds=sizes.rounds,
        )
        said = peers.ask("duckdb" if name in bands else name, job, asked.expected)
        if isinstance(said, Missing):
            notes[name] = f"missing: {said.reason}"
        else:
            found[name] = said
            notes[name] = f"{said.version}, {said.rows:,} rows, {said.measured}"
    report.notes["peers"] = notes
    return found


def speed(said: Said | None) -> float | None:
    """Rows/s of a peer's fastest round."""
    return None if said is None else said.rows / min(said.seconds)


# -- joins -------------------------------------------------------------------------------------------------


def two_way(db: Database, spark: SparkJoins, case: Case, peers: dict[str, Said], sizes: Sizes, report: Report) -> None:
    """The first case: against Spark in equal micro-batches, then as fast as we can against the others."""
    windows = {(0, 1): WINDOW}
    names = fill(db, "pair", case.feed)
    sql = join_sql(names, windows)
    spark.fill("pair", case.tables, sizes.batch_rows)
    against_spark(db, spark, "pair", "two_way", windows, sql, names, case, sizes.batch_rows, sizes.rounds, report)

    def backlog() -> Ran:
        return run_ours(db, sql, names, case.feed, sizes.backlog_batch_rows, case.expected)

    backlog()
    ran = [backlog() for _ in range(sizes.rounds)]
    for each in ran:
        say(f"catching up, {sizes.backlog_batch_rows:,} rows per stream and micro-batch: {each}")
    joined = median(each.joined for each in ran)
    report.add("backlog", joined, "rows/s")
    report.add("backlog_whole", median(each.whole for each in ran), "rows/s")
    for name, bar in BACKLOG_BARS.items():
        if name in peers:
            limit = None if bar is None else Bar(bar, "at least")
            report.add(f"backlog_against_{name}", joined, "rows/s", peer=speed(peers[name]), bar=limit)
    one_core(db, sql, names, case, sizes, report)


def one_core(db: Database, sql: str, names: Sequence[str], case: Case, sizes: Sizes, report: Report) -> None:
    operator = operator_rows_per_second(db, sql, names, case.expected, sizes.rounds)
    kernel = kernel_rows_per_second(case.tables, WINDOW, case.expected, sizes.rounds)
    say(f"on one core: the operator {operator:,.0f} rows/s, its kernel {kernel:,.0f}")
    report.add("operator_on_one_core", operator, "rows/s")
    report.add("kernel_on_one_core", kernel, "rows/s", bar=Bar(15e6, "at least"))


def against_spark(
    db: Database,
    spark: SparkJoins,
    prefix: str,
    name: str,
    windows: Windows,
    sql: str,
    names: Sequence[str],
    case: Case,
    batch_rows: int,
    rounds: int,
    report: Report,
) -> None:
    """Ours and Spark's join in turns, both with the same rows per micro-batch."""
    rows = case.feed.rows * case.feed.streams
    run_ours(db, sql, names, case.feed, batch_rows, case.expected)  # compiles, and starts what Spark starts
    ours, theirs = [], []
    for _ in range(rounds):
        ours.append(run_ours(db, sql, names, case.feed, batch_rows, case.expected))
        say(f"{name}: ours {ours[-1]}")
        theirs.append(spark.run(prefix, windows, rows, case.expected))
        say(f"{name}: Spark {theirs[-1]}")
    for kind, bar in (("joined", Bar(10, "at least")), ("whole", None), ("steady", None)):
        found = median(getattr(each, kind) for each in ours)
        ratio = median(getattr(a, kind) / getattr(b, kind) for a, b in zip(ours, theirs, strict=True))
        if name == "two_way" or bar is not None:
            report.add(name if bar else f"{name}_{kind}", found, "rows/s", peer=found / ratio, bar=bar)


def chains(db: Database, spark: SparkJoins, sizes: Sizes, report: Report) -> None:
    """Joins of three and four streams, against chains of Spark's joins."""
    feed = Feed(sizes.chain_rows, sizes.chain_keys, streams=4)
    names = fill(db, "chain", feed)
    tables = [feed.table(stream) for stream in range(4)]
    spark.fill("chain", tables, sizes.chain_batch_rows)
    for name, windows in CHAINS.items():
        streams = 1 + max(j for _, j in windows)
        expected = window_join_oracle.equal_keys(tables[:streams], windows)
        case = Case(replace(feed, streams=streams), tables[:streams], expected)
        used, sql = names[:streams], join_sql(names[:streams], windows)
        if (reason := spark.refuses("chain", windows)) is not None:
            ran = run_ours(db, sql, used, case.feed, sizes.chain_batch_rows, expected)
            report.add(name, ran.joined, "rows/s")
            report.notes.setdefault("refused_by_spark", {})[name] = reason
            continue
        spark.run("chain", windows, feed.rows * streams, expected)  # warms the JVM up
        batch_rows = sizes.chain_batch_rows
        against_spark(db, spark, "chain", name, windows, sql, used, case, batch_rows, sizes.rounds, report)


def band_join(db: Database, name: str, case: Case, peers: dict[str, Said], sizes: Sizes, report: Report) -> None:
    """|x − y| ≤ 0.001 and no equality, against DuckDB over the same rows in batch."""
    names = fill(db, name, case.feed)
    sql = (
        f"SELECT A.v, B.v AS w FROM {names[0]} A, {names[1]} B WINDOW = INTERVAL {WINDOW // 1000} SECONDS "
        f"WHERE A.x BETWEEN B.x - {WIDTH} AND B.x + {WIDTH}"
    )
    check(case.expected.rows > 0, "no rows are near each other")
    ran = [
        run_ours(db, sql, names, case.feed, sizes.backlog_batch_rows, case.expected) for _ in range(1 + sizes.rounds)
    ]
    for each in ran[1:]:
        say(f"{name}: {each}, {case.expected.rows:,} results")
    joined, peer = median(each.joined for each in ran[1:]), speed(peers.get(name))
    # With so many results that writing them decides, the one that keeps them in memory wins: no bar there.
    bar = Bar(1, "at least") if peer and name == "band" else None
    report.add(name, joined, "rows/s", peer=peer, bar=bar)
    report.add(f"{name}_whole", median(each.whole for each in ran[1:]), "rows/s", peer=peer)
    report.notes[f"{name}_results"] = f"{case.expected.rows / case.feed.rows:.1f} for each row of a stream"


def window_growth(db: Database, sizes: Sizes, report: Report) -> None:
    """What a micro-batch costs with a window and keys so many times as large, as many rows matching."""
    costs: list[list[float]] = []
    feeds = [Feed(sizes.growth_rows, sizes.keys * factor, seed=factor) for factor in (1, sizes.growth)]
    windows = [WINDOW, WINDOW * sizes.growth]
    filled = windows[1] * feeds[0].rate // 1000
    cases = []
    for number, (feed, window) in enumerate(zip(feeds, windows, strict=True)):
        cases.append((Case.equal_keys(feed, {(0, 1): window}), window, fill(db, f"grown{number}", feed)))
    for number in range(1 + sizes.rounds):
        taken = []
        for case, window, names in cases:
            sql = join_sql(names, {(0, 1): window})
            ran = run_ours(db, sql, names, case.feed, sizes.batch_rows, case.expected)
            # Full micro-batches after the larger window has filled; the last one may be a small rest.
            full = ran.batches[-(-filled // sizes.batch_rows) : sizes.growth_rows // sizes.batch_rows]
            check(len(full) > 1, "the rows do not fill the window")
            taken.append(median(batch.milliseconds["triggerExecution"] for batch in full))
            say(f"window of {window // 1000} s: {taken[-1]:,.0f} ms per micro-batch")
        if number:
            costs.append(taken)
    for window, cost in zip(windows, zip(*costs, strict=True), strict=True):
        report.add(f"micro_batch_with_a_window_of_{window // 1000}_s", median(cost), "ms")
    ratio = median(large / small for small, large in costs)
    report.add("window_growth_cost", ratio, "×", bar=Bar(2, "at most"))

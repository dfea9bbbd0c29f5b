"""`python -m benchmarks nexmark`: every query of Nexmark over a backlog of events, and over events as they come.

Answers first: how many rows each has and a sum over them, ours, DuckDB's over all events in batch, and Flink's. Ours is
timed in the whole system, from the start of the first micro-batch to the end of the last, with answers on disk.
"""

from __future__ import annotations

import json
import tempfile
import time
from argparse import Namespace
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import anabranch as ab
from anabranch.database import Database
from benchmarks.harness import Bar, Report, check, say
from benchmarks.nexmark import files
from benchmarks.nexmark.latency import late, made, standing
from benchmarks.nexmark.questions import NOT_IN_FLINK, ask_duckdb, ask_flink, ask_spark, some
from benchmarks.peers.environments import FOLDER, Peers
from benchmarks.peers.nexmark import Answer, Asked, Question
from benchmarks.peers.programs import Missing
from benchmarks.progress import keep_progress, progress_of
from tests.nexmark.events import BEGIN, STREAMS, blocks
from tests.nexmark.texts import QUERIES, Query

PEER = "Flink; Spark's own streams; DuckDB in batch"
THREE_TIMES = ("q5", "q7", "q8", "q9", "q18", "q20")
"""Queries with joins, windows and much to remember."""
OTHER_WAYS = ("q13", "q21_view", "q22_view")
"""Those that are asked in another way as well: q13 as a view, q21 and q22 as rows that stay."""
PATIENCE = 3600.0
PER_SECOND = 1000
"""Events in a second of their own time."""


@dataclass(frozen=True)
class Sizes:
    """How many events, and who is asked about them."""

    events: int = 10_000_000
    rounds: int = 2
    queries: tuple[str, ...] | None = None
    """None: all."""
    flink: tuple[str, ...] | None = None
    latency_per_second: int = 20_000
    latency_seconds: int = 10
    peers: str | None = str(FOLDER)


FULL = Sizes()
QUICK = Sizes(500_000, 2, None, THREE_TIMES, 20_000, 3)


def chosen(sizes: Sizes, given: Namespace) -> Sizes:
    """What was said on the command line about peers."""
    return replace(sizes, peers=None if given.peers == "none" else given.peers) if given.peers else sizes


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    with tempfile.TemporaryDirectory(prefix="bench-nexmark-") as place:
        folder = Path(place) / "files"
        folder.mkdir()
        say(f"writing {sizes.events:,} events for other engines")
        files.write(folder, sizes.events, per_second=PER_SECOND)
        queries = [query for query in some(sizes.queries) if query.name not in OTHER_WAYS]
        report.notes["q13"] = "as a view that is joined with the table as it is, as others are asked"
        peers = Peers(Path(sizes.peers) if sizes.peers else None)
        duck = _ask("duckdb_nexmark", peers, [ask_duckdb(query) for query in queries], folder, sizes, report)
        named = [query for query in queries if query.name not in NOT_IN_FLINK]
        named = [query for query in named if sizes.flink is None or query.name in sizes.flink]
        flink = _ask("flink_nexmark", peers, [ask_flink(query) for query in named], folder, sizes, report)
        spark = _ask("spark_nexmark", peers, [ask_spark(query) for query in queries], folder, sizes, report)
        for peer, answers in (("Flink", flink), ("Spark", spark)):
            for name in duck.keys() & answers.keys():
                same = (duck[name].count, duck[name].checksum) == (answers[name].count, answers[name].checksum)
                check(same, f"{name}: {peer} answers {answers[name]}, DuckDB {duck[name]}")
        found = _ours(Path(place), queries, folder, sizes, report)
        _compare(found, duck, flink, spark, sizes, report)
        for query in queries:
            if query.name in found:
                p50, p99 = late(Path(place) / query.name, query, sizes.latency_per_second, sizes.latency_seconds)
                report.add(f"{query.name}_latency_p50", p50, "s")
                report.add(f"{query.name}_latency_p99", p99, "s")
    return report


# -- others ----------------------------------------------------------------------------------------


def _ask(
    engine: str, peers: Peers, questions: list[Question], folder: Path, sizes: Sizes, report: Report
) -> dict[str, Answer]:
    asked = Asked(str(folder), [asdict(question) for question in questions], sizes.rounds)
    say(f"asking {engine} {len(questions)} queries")
    said = peers.run(engine, [json.dumps(asdict(asked))], PATIENCE)
    if isinstance(said, Missing):
        report.notes[engine] = f"missing: {said.reason}"
        return {}
    report.notes[engine] = {"version": said["version"], **said["failed"]}
    if "reading" in said:
        report.notes[engine]["seconds of reading bids alone"] = said["reading"]
    for name, answer in said["answers"].items():
        say(f"{engine} {name}: {min(answer['seconds']):.2f} s")
    return {name: Answer(**answer) for name, answer in said["answers"].items()}


def _compare(
    found: dict[str, float],
    duck: dict[str, Answer],
    flink: dict[str, Answer],
    spark: dict[str, Answer],
    sizes: Sizes,
    report: Report,
) -> None:
    """Events a second, ours beside each of the others'."""
    wanted = [query for query in some(sizes.queries) if query.name not in OTHER_WAYS]
    report.add("queries_that_run", len(found), "", bar=Bar(len(wanted), "at least"))
    for name, seconds in found.items():
        speed = sizes.events / seconds
        if name in flink:
            bar = Bar(3 if name in THREE_TIMES else 1, "at least")
            report.add(f"{name}_against_flink", speed, "rows/s", peer=sizes.events / min(flink[name].seconds), bar=bar)
        if name in spark:
            report.add(f"{name}_against_spark", speed, "rows/s", peer=sizes.events / min(spark[name].seconds))
        peer = sizes.events / min(duck[name].seconds) if name in duck else None
        report.add(f"{name}_against_duckdb" if peer else name, speed, "rows/s", peer=peer)


# -- ours ------------------------------------------------------------------------------------------


def _ours(place: Path, queries: list[Query], folder: Path, sizes: Sizes, report: Report) -> dict[str, float]:
    """Seconds of each query, the best of the rounds."""
    truth = _truth(folder)
    found: dict[str, float] = {}
    failed: dict[str, str] = {}
    with ab.open(place / "backlog") as db:
        keep_progress(db)
        made(db)
        for block in blocks(0, sizes.events, per_second=PER_SECOND):
            for name in STREAMS:
                db.append(name, block.stream(name))
        for name in STREAMS:
            db.advance(name, BEGIN + sizes.events * 1_000_000 // PER_SECOND + 3_600_000_000)
        _worked_off(db, QUERIES["q0"])  # what is only started once is started
        for query in queries:
            seconds = []
            for _ in range(sizes.rounds):
                try:
                    took, answer = _worked_off(db, query)
                except ab.AnabranchError as problem:
                    failed[query.name] = str(problem)
                    break
                seconds.append(took)
                wanted = truth(ask_duckdb(query), None)
                given = truth(ask_duckdb(query), answer)
                check(given == wanted, f"{query.name}: ours is {given}, not {wanted}")
            if seconds:
                found[query.name] = min(seconds)
                say(f"ours {query.name}: {min(seconds):.2f} s ({', '.join(f'{s:.2f}' for s in seconds)})")
    if failed:
        report.notes["queries_that_fail"] = failed
    return found


def _worked_off(db: Database, query: Query) -> tuple[float, pa.Table]:
    """The seconds from the start of the first micro-batch to the end of the last, and the answer."""
    db.sql(query.statement)
    asked = standing(db, query)
    asked.wait(600)
    time.sleep(0.5)  # the last report comes a moment after
    batches = progress_of(asked)
    answer = (db.view(query.name) if query.is_view else asked).table()
    db.sql(f"DROP {'VIEW' if query.is_view else 'QUERY'} {query.name}")
    return batches[-1].end - batches[0].began, answer


def _truth(folder: Path) -> Any:
    """Sums up what DuckDB answers to a question, or an answer of ours."""
    database = duckdb.connect()
    database.execute("SET threads = 2; SET TimeZone = 'UTC'")
    for name in (*STREAMS, "side_input"):
        database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}.parquet')")
    known: dict[str, tuple[int, int]] = {}

    def summed(question: Question, answer: pa.Table | None) -> tuple[int, int]:
        if answer is not None:
            database.register("ours", answer)
            (row,) = database.execute(Question("", "SELECT * FROM ours", question.check).summed).fetchall()
            database.unregister("ours")
            return row[0], row[1] or 0
        if question.name not in known:
            (row,) = database.execute(question.summed).fetchall()
            known[question.name] = row[0], row[1] or 0
        return known[question.name]

    return summed

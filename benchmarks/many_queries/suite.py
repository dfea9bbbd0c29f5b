"""How many standing queries one host runs, how late they answer, and what each more of them costs.

A stream of 8 columns, and a small one beside it, are fed at a given speed while 1 to 10,000 queries stand over them:
selections of all kinds that are looked up, and a mix with windows, medians, a few joins and conditions that nobody can
look up. The answers of a random tenth of them are counted and compared with NumPy's. Beside it stands what people do
without: each query evaluated by itself, in Arrow; a streaming query of Spark's for each; Flink; and Esper, which is
made for many statements. They are asked the same questions about the rows that are our backlog later on.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import anabranch as ab
from anabranch.database import Database
from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Offset, Work
from anabranch.operators.select import SelectRows
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Selections
from anabranch.schema import StreamSchema
from anabranch.testing.memory_log import MemoryLog
from anabranch.testing.processes import planners
from benchmarks.harness import Bar, Report, check, say
from benchmarks.many_queries import peers as others
from benchmarks.many_queries.conditions import all_sql
from benchmarks.many_queries.files import cuts
from benchmarks.many_queries.peers import Beside, PeerSizes
from benchmarks.many_queries.questions import Closing, Question, Windowed, indexable, mixed
from benchmarks.many_queries.rows import KEYS, STREAMS, Fed, events, rows
from benchmarks.peers.environments import FOLDER, Peers

PEER = "Esper, Flink, a Spark query for each; each query by itself in Arrow"
HOST = "host"
KINDS: dict[str, Callable[[int], Question]] = {"indexable": indexable, "mixed": mixed}
BACKLOG_SECOND = 10_000
"""The backlog begins in this second of the rows' own time, whatever was fed: others are asked about the same rows."""
ESPER_BAR = Bar(5, "at least")


@dataclass(frozen=True)
class Sizes:
    """How much is asked, and of how much."""

    counts: tuple[int, ...] = (1, 100, 1_000, 10_000)
    per_second: int = 100_000
    seconds: int = 60
    latency_per_second: int = 20_000
    latency_seconds: int = 20
    changes: int = 100
    many: int = 100_000
    equalities: int = 1_000_000
    backlog: int = 2_000_000
    others: PeerSizes = field(default_factory=PeerSizes)
    peers: str | None = str(FOLDER)
    """Where other engines are installed; None: they are left out."""


FULL = Sizes()
QUICK = Sizes(
    (1, 100, 1_000),
    50_000,
    10,
    20_000,
    5,
    20,
    10_000,
    100_000,
    500_000,
    PeerSizes(esper=(1_000,), esper_rows=600_000, warm_rows=100_000, flink=(), spark=None),
)


def chosen(sizes: Sizes, given: Namespace) -> Sizes:
    """What was said on the command line about peers."""
    if given.peers:
        return replace(sizes, peers=None if given.peers == "none" else given.peers)
    return sizes


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    beside = _ask_others(sizes, report)
    _kernel(sizes, report)
    for name, ask in KINDS.items():
        ran = {count: _feed(name, ask, count, sizes, report) for count in sizes.counts}
        most, few = max(sizes.counts), min([count for count in sizes.counts if count > 1] or sizes.counts)
        bar = Bar(2 if name == "indexable" else 5, "at most")
        report.add(f"{name}_cost_per_row_{most}_over_{few}", ran[most].cost / ran[few].cost, "×", bar=bar)
        _compare(name, ran, beside.get(name, Beside()), report)
    _latency(sizes, report)
    return report


# -- beside others ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ran:
    """What a number of queries came to."""

    cost: float
    """Of a row in a backlog, in seconds."""
    lag: float


def _ask_others(sizes: Sizes, report: Report) -> dict[str, Beside]:
    """What others reach; they are asked first, before we have a Spark that runs."""
    if sizes.peers is None:
        report.notes["peers"] = "no peers were asked for"
        return {}
    first = BACKLOG_SECOND * sizes.per_second
    beside, report.notes["peers"] = others.ask(Peers(Path(sizes.peers)), sizes.others, KINDS, first, sizes.per_second)
    return beside


def _compare(name: str, ran: dict[int, Ran], beside: Beside, report: Report) -> None:
    """Our backlog beside engines that were asked as many questions, and how many of Spark's queries keep up."""
    most = max(ran)
    for (engine, count), speed in beside.rows_per_second.items():
        if count in ran:
            bar = ESPER_BAR if engine == "esper" and count == most else None
            report.add(f"{name}_{count}_against_{engine}", 1 / ran[count].cost, "rows/s", peer=speed, bar=bar)
    if beside.keep_up is not None:
        ours = max([count for count, found in ran.items() if found.lag <= others.LATE], default=0)
        report.add(f"{name}_queries_that_keep_up", ours, "", peer=beside.keep_up)


# -- the index alone -------------------------------------------------------------------------------


def _kernel(sizes: Sizes, report: Report) -> None:
    """Rows a second through the index, in this process."""
    table = rows(0, 20_000, 20_000)
    for name, count, entry_of, bar in (
        (f"selections_{sizes.many}", sizes.many, partial(_entry, schema=table.schema), 50_000),
        (f"equalities_{sizes.equalities}", sizes.equalities, _equality, 20_000),
    ):
        entries = [entry_of(n) for n in range(count)]
        together = Selections(entries, table.schema)
        log = MemoryLog(StreamSchema(table.schema, "at"))
        log.append(table)
        speeds = []
        answered = 0
        for _ in range(4):
            began = time.perf_counter()
            slices = list(together.run(log, 0, table.num_rows, Work()))
            speeds.append(table.num_rows / (time.perf_counter() - began))
            answered = sum(int(np.frombuffer(index, np.int64).reshape(-1, 3)[:, 2].sum()) for index, _ in slices)
        chosen = random.Random(1).sample(range(count), min(count, 200))
        peer = _one_by_one([entries[n] for n in chosen], log, table) * len(chosen) / count
        say(f"{name}: {max(speeds):,.0f} rows/s ({answered} answers); one by one {peer:,.0f} rows/s")
        report.add(f"{name}_rows_per_second", max(speeds), "rows/s", bar=Bar(bar, "at least"))
        report.notes[f"{name}_one_by_one"] = f"{peer:,.1f} rows/s, from {len(chosen)} of them"


def _equality(number: int) -> Entry:
    """A selection of one key, cut into its atoms by hand: reading a million texts takes minutes."""
    k = number * 7919 % KEYS
    operator = {
        "kind": "select",
        "stream": "s",
        "columns": [["k", "k"], ["x", "x"], ["at", "at"]],
        "time": "at",
        "filter": f"k = {k}",
    }
    entry = Entry(number, f"q{number}", "")
    entry.operator = operator_from_json(operator)
    entry.atoms = {Atom("k", ((k, k + 1),)): f"k = {k}"}
    return entry


def _entry(number: int, schema: pa.Schema) -> Entry:
    selection = indexable(number)
    where = all_sql(selection.where)
    columns = [[name, name] for name in selection.columns.split(", ")]
    operator = {"kind": "select", "stream": "s", "columns": columns, "time": "at", "filter": where}
    entry = Entry(number, f"q{number}", "")
    entry.operator = operator_from_json(operator)
    entry.atoms = atoms_of(where, schema)
    return entry


def _one_by_one(entries: list[Entry], log: MemoryLog, table: pa.Table) -> float:
    """Rows a second where each of these selections reads the rows itself."""
    began = time.perf_counter()
    for entry in entries:
        select = entry.operator
        assert isinstance(select, SelectRows)
        inputs = Inputs({"s": log})
        for task in select.plan({"s": Offset(0)}, {"s": Offset(table.num_rows)}, inputs, 1):
            for _ in select.run(task, inputs):
                pass
    return float(table.num_rows / (time.perf_counter() - began))


# -- the whole system ------------------------------------------------------------------------------


def _feed(name: str, ask: Callable[[int], Question], count: int, sizes: Sizes, report: Report) -> Ran:
    """Feed the streams while queries stand over them, and have a backlog worked off."""
    with tempfile.TemporaryDirectory() as place, ab.open(Path(place) / "river") as db:
        db.sql(STREAMS)
        asked = {f"q{n}": ask(n) for n in range(count)}
        began = time.monotonic()
        db.create_queries({name: question.sql() for name, question in asked.items()}, host=HOST)
        made = time.monotonic() - began
        host = db.get_query(HOST)
        feeder = _Feeder(db, sizes.per_second)
        feeder.run(2)
        db.get_query("q0").wait(300)
        lags = _Lags(db)
        began = time.monotonic()
        feeder.run(sizes.seconds)
        fed = time.monotonic() - began
        worst = lags.stop()
        host.wait(300)
        memory = _memory_mb()
        spark_queries = len(planners())
        parts = cuts(BACKLOG_SECOND * sizes.per_second, sizes.backlog)
        backlog = [(rows(*part, sizes.per_second), events(*part, sizes.per_second)) for part in parts]
        before = host.stats()["batches"]
        began = time.monotonic()
        for tables in backlog:
            feeder.append(*tables)
        host.wait(600)
        cost = (time.monotonic() - began) / sizes.backlog
        _check_answers(db, asked, Fed.of(feeder.s, feeder.e))
        label = f"{name}_{count}"
        lag = float(np.percentile(worst, 99)) if worst else 0.0
        speed = feeder.fed / fed
        say(
            f"{label}: made in {made:.1f} s; {speed:,.0f} rows/s for {fed:.0f} s, lag {lag:.2f} s; "
            f"{1 / cost:,.0f} rows/s of a backlog in {host.stats()['batches'] - before} micro-batches; {memory:,.0f} MB"
        )
        largest = count == max(sizes.counts)
        report.add(f"{label}_lag_p99", lag, "s", bar=Bar(2, "at most") if largest else None)
        report.add(f"{label}_fed_rows_per_second", speed, "rows/s")
        report.add(f"{label}_backlog_rows_per_second", 1 / cost, "rows/s")
        report.add(f"{label}_memory", memory, "MB", bar=Bar(4096, "at most") if largest else None)
        report.add(f"{label}_spark_queries", spark_queries, "", bar=Bar(1, "at most"))
        report.add(f"{label}_made_per_second", count / made, "/s", bar=Bar(200, "at least") if count >= 1000 else None)
        if largest and name == "indexable":
            _change(db, feeder.s[0].column("k")[0].as_py(), sizes, report)
            _reopen(Path(place) / "river", db, report)
    return Ran(cost, lag)


class _Feeder:
    """Appends rows at a speed, a twentieth of a second's at once."""

    def __init__(self, db: Database, per_second: int) -> None:
        self._db = db
        self._per_second = per_second
        self.s: list[pa.Table] = []
        self.e: list[pa.Table] = []
        self._at = self.fed = 0

    def run(self, seconds: float) -> None:
        each = self._per_second // 20
        began, self.fed = time.monotonic(), 0
        while (now := time.monotonic()) - began < seconds:
            self.append(rows(self._at, each, self._per_second), events(self._at, each, self._per_second))
            self._at += each
            self.fed += each
            time.sleep(max(0.0, began + self.fed / self._per_second - now))

    def append(self, s: pa.Table, e: pa.Table) -> None:
        self._db.append("s", s)
        self._db.append("e", e)
        self.s.append(s)
        self.e.append(e)


class _Lags:
    """How late the host is, twenty times a second: how long ago the first row came that it has yet to take in."""

    def __init__(self, db: Database) -> None:
        self._host = db.get_query(HOST)
        self._reader = db.reader("s")
        self._seen: list[tuple[int, float]] = []
        self._lags: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stopped.wait(0.05):
            now = time.monotonic()
            self._seen.append((self._reader.end().row, now))
            done = self._host._done()["s"].row
            while self._seen and self._seen[0][0] <= done:
                self._seen.pop(0)
            self._lags.append(now - self._seen[0][1] if self._seen else 0.0)

    def stop(self) -> list[float]:
        self._stopped.set()
        self._thread.join()
        return self._lags


def _check_answers(db: Database, asked: dict[str, Question], fed: Fed) -> None:
    """A random tenth of the queries has given each answer it should."""
    for name in random.Random(7).sample(list(asked), max(1, len(asked) // 10)):
        query, question = db.get_query(name), asked[name]
        if isinstance(question, Windowed):
            found = sum(query.table().column("n").to_pylist())
        else:
            found = query.stats()["stream"]["rows"]
        wanted = question.answers(fed, Closing.ANY_ROW)
        check(found == wanted, f"{name}: {question.sql()} has {found} answers, not {wanted}")
    statuses = {db.get_query(name).status for name in random.Random(8).sample(list(asked), min(50, len(asked)))}
    check(statuses == {"running"}, f"queries are {statuses}")


def _change(db: Database, k: int, sizes: Sizes, report: Report) -> None:
    """Make queries about a key that has come, and drop them, while all others run."""
    made, dropped, answered = [], [], []
    for number in range(sizes.changes):
        began = time.monotonic()
        (query,) = db.create_queries({f"new{number}": f"SELECT x FROM s WHERE k = {k}"}, host=HOST)
        made.append(time.monotonic() - began)
        if number < 10:
            while not query.table().num_rows:
                time.sleep(0.005)
            answered.append(time.monotonic() - began)
        began = time.monotonic()
        db.drop_query(query.name)
        dropped.append(time.monotonic() - began)
    report.add("create_p99", float(np.percentile(made, 99)) * 1000, "ms", bar=Bar(200, "at most"))
    report.add("drop_p99", float(np.percentile(dropped, 99)) * 1000, "ms", bar=Bar(200, "at most"))
    report.add("first_answer_max", max(answered), "s", bar=Bar(2, "at most"))


def _reopen(path: Path, db: Database, report: Report) -> None:
    """Close, open again, and wait until all answer."""
    db.close()
    began = time.monotonic()
    with ab.open(path) as again:
        again.append("s", rows(1 << 30, 1, 1))
        again.get_query(HOST).wait(120)
        report.add("open_again", time.monotonic() - began, "s", bar=Bar(15, "at most"))


def _latency(sizes: Sizes, report: Report) -> None:
    """From append to answer: one query that stands alone as before, and 100 of a host."""
    for count, limits in ((1, (0.25, 0.6)), (100, (0.25, 0.6))):
        with tempfile.TemporaryDirectory() as place, ab.open(Path(place) / "river") as db:
            db.sql(STREAMS)
            db.create_queries({f"q{n}": indexable(n).sql() for n in range(count)}, host=HOST)
            feeder = _Feeder(db, sizes.latency_per_second)
            feeder.run(2)
            host = db.get_query(HOST)
            host.wait(60)
            lags = _Lags(db)
            feeder.run(sizes.latency_seconds)
            found = [lag for lag in lags.stop() if lag > 0]
            p50, p99 = (float(np.percentile(found or [0.0], part)) for part in (50, 99))
            say(f"{count} queries at {sizes.latency_per_second:,} rows/s: p50 {p50:.3f} s, p99 {p99:.3f} s")
            report.add(f"latency_{count}_p50", p50, "s", bar=Bar(limits[0], "at most"))
            report.add(f"latency_{count}_p99", p99, "s", bar=Bar(limits[1], "at most"))


def _memory_mb() -> float:
    """Of this process and all below it, each page counted once."""
    me = psutil.Process()
    total = 0
    for process in [me, *me.children(recursive=True)]:
        try:
            total += process.memory_full_info().pss
        except (psutil.Error, AttributeError):
            continue
    return total / 2**20

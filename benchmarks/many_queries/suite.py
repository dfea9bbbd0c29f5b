"""How many standing queries one host runs, how late they answer, and what each more of them costs.

A stream of 8 columns is fed at a given speed while 1 to 10,000 queries stand over it: selections of all kinds that are
looked up, and a mix with windows, medians and conditions that are not. The answers of a random tenth of the selections
are counted and compared with NumPy's. Beside it stands what people do without: each query evaluated by itself, in
Arrow, over the same rows in one process.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

import anabranch as ab
from anabranch.database import Database
from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators.base import Inputs, Offset, Work
from anabranch.operators.select import SelectRows
from anabranch.operators.together.roster import Entry
from anabranch.operators.together.selections import Selections
from anabranch.schema import StreamSchema
from anabranch.testing.memory_log import MemoryLog
from anabranch.testing.processes import planners
from benchmarks.harness import Bar, Report, check, say
from benchmarks.many_queries.questions import KEYS, STREAM, Question, columns_of, indexable, mixed, rows

PEER = "each query by itself, in Arrow, in one process"
HOST = "host"


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


FULL = Sizes()
QUICK = Sizes((1, 100, 1_000), 50_000, 10, 20_000, 5, 20, 10_000, 100_000, 500_000)


def run(sizes: Sizes) -> Report:
    report = Report(PEER, sizes)
    _kernel(sizes, report)
    for name, ask in (("indexable", indexable), ("mixed", mixed)):
        costs = {count: _feed(name, ask, count, sizes, report) for count in sizes.counts}
        most, few = max(sizes.counts), min([count for count in sizes.counts if count > 1] or sizes.counts)
        bar = Bar(2 if name == "indexable" else 5, "at most")
        report.add(f"{name}_cost_per_row_{most}_over_{few}", costs[most] / costs[few], "×", bar=bar)
    _latency(sizes, report)
    return report


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
        chosen = random.Random(1).sample(range(count), 200)
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
    entry.data = {"plan": {"operator": operator}}
    entry.atoms = {Atom("k", ((k, k + 1),)): f"k = {k}"}
    return entry


def _entry(number: int, schema: pa.Schema) -> Entry:
    select, _, where = indexable(number).sql.partition(" WHERE ")
    columns = [
        [name.strip(), name.strip()] for name in select.removeprefix("SELECT ").partition(" FROM ")[0].split(",")
    ]
    operator = {"kind": "select", "stream": "s", "columns": columns, "time": "at", "filter": where}
    entry = Entry(number, f"q{number}", "")
    entry.data = {"plan": {"operator": operator}}
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


def _feed(name: str, ask: Callable[[int], Question], count: int, sizes: Sizes, report: Report) -> float:
    """Feed a stream while queries stand over it; gives what a row costs in a backlog, in seconds."""
    with tempfile.TemporaryDirectory() as place, ab.open(Path(place) / "river") as db:
        db.sql(STREAM)
        asked = {f"q{n}": ask(n) for n in range(count)}
        began = time.monotonic()
        db.create_queries({name: question.sql for name, question in asked.items()}, host=HOST)
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
        at = feeder.at
        backlog = [
            rows(at + i, min(100_000, sizes.backlog), sizes.per_second) for i in range(0, sizes.backlog, 100_000)
        ]
        before = host.stats()["batches"]
        began = time.monotonic()
        for table in backlog:
            db.append("s", table)
        host.wait(600)
        cost = (time.monotonic() - began) / sizes.backlog
        feeder.tables += backlog
        _check_answers(db, asked, feeder.tables)
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
            _change(db, sizes, report)
            _reopen(Path(place) / "river", db, report)
    return cost


class _Feeder:
    """Appends rows at a speed, a twentieth of a second's at once."""

    def __init__(self, db: Database, per_second: int) -> None:
        self._db = db
        self._per_second = per_second
        self.tables: list[pa.Table] = []
        self.at = self.fed = 0

    def run(self, seconds: float) -> None:
        each = self._per_second // 20
        began, self.fed = time.monotonic(), 0
        while (now := time.monotonic()) - began < seconds:
            table = rows(self.at, each, self._per_second)
            self._db.append("s", table)
            self.tables.append(table)
            self.at += each
            self.fed += each
            time.sleep(max(0.0, began + self.fed / self._per_second - now))


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


def _check_answers(db: Database, asked: dict[str, Question], tables: list[pa.Table]) -> None:
    """A random tenth of the selections has answered each row it wants."""
    selections = [name for name, question in asked.items() if question.wanted is not None]
    chosen = random.Random(7).sample(selections, min(len(selections), max(1, len(asked) // 10)))
    counts = dict.fromkeys(chosen, 0)
    for table in tables:
        columns = columns_of(table)
        for name in chosen:
            wanted = asked[name].wanted
            assert wanted is not None
            counts[name] += wanted(columns)
    for name in chosen:
        found = db.get_query(name).stats()["stream"]["rows"]
        check(found == counts[name], f"{name}: {asked[name].sql} answered {found} rows, not {counts[name]}")
    statuses = {db.get_query(name).status for name in random.Random(8).sample(list(asked), min(50, len(asked)))}
    check(statuses == {"running"}, f"queries are {statuses}")


def _change(db: Database, sizes: Sizes, report: Report) -> None:
    """Make and drop queries while all others run."""
    made, dropped, answered = [], [], []
    newest = rows(0, 1, sizes.per_second)
    for number in range(sizes.changes):
        k = newest.column("k")[0].as_py()
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
            db.sql(STREAM)
            db.create_queries({f"q{n}": indexable(n).sql for n in range(count)}, host=HOST)
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

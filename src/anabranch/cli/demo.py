"""`anabranch demo`: a simulated network, its standing queries, and their answers as they come."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anabranch.apps.network import LINK_OF, Feeder, Question, Watcher, ask, declare, percentile, questions
from anabranch.apps.network_check import Check, check
from anabranch.cli.opening import open_or_create
from anabranch.cli.running import interrupts_noted
from anabranch.cli.terminal import console, count, is_terminal, seconds
from anabranch.cli.top import Overview, Speeds

if TYPE_CHECKING:
    from anabranch.database import Database
    from anabranch.queries import Query

_LINE_EVERY = 2.0
_FRAME = 0.25
_PATIENCE = 120.0


def run(args: argparse.Namespace) -> int:
    """The command."""
    path = args.db if args.db_given else tempfile.mkdtemp(prefix="anabranch-demo-")
    demo = Demo(path, args.rate, args.seed)
    try:
        with interrupts_noted() as interrupted:
            demo.start()
            _watch(demo, args, interrupted)
            if demo.failure is not None:
                raise demo.failure
            if demo.ready_at is None:
                print("ended before the queries stood")
                return 0
            summary = demo.finish()
        print(json.dumps(summary)) if args.json else _print_summary(summary, kept=args.db_given)
        return 0 if summary["checked"] and all(c["equal"] for c in summary["checked"]) else 1
    finally:
        demo.close()
        if not args.db_given:
            shutil.rmtree(path, ignore_errors=True)


class Demo:
    """The running world: a database, its feeder and watchers, set up by a thread that says how far it is."""

    def __init__(self, path: str, rate: int, seed: int) -> None:
        self.path, self.rate, self._seed = path, rate, seed
        self.stage = "opening the database"
        self.questions: tuple[Question, ...] = questions(rate)
        self.db: Database | None = None
        self.feeder: Feeder | None = None
        self.queries: dict[str, Query] = {}
        self.watchers: dict[str, Watcher] = {}
        self.ready_at: float | None = None
        self._speeds = Speeds()
        self._started = time.monotonic()
        self._failure: BaseException | None = None
        self._closing = False
        self._setup = threading.Thread(target=self._set_up, name="demo", daemon=True)

    def start(self) -> None:
        self._setup.start()

    def say(self, stage: str) -> None:
        self.stage = stage

    @property
    def failure(self) -> BaseException | None:
        """The first thing that went wrong anywhere."""
        parts = [self.feeder, *self.watchers.values()]
        return self._failure or next((part.failure for part in parts if part is not None and part.failure), None)

    @property
    def rows(self) -> int:
        return self.feeder.rows if self.feeder else 0

    @property
    def rows_per_second(self) -> float:
        return self.feeder.rows / self.feeder.seconds if self.feeder and self.feeder.rows else 0.0

    @property
    def latencies(self) -> list[float]:
        return [latency for watcher in self.watchers.values() for latency in list(watcher.latencies)]

    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def running_for(self) -> float:
        return 0.0 if self.ready_at is None else time.monotonic() - self.ready_at

    def overview(self) -> Overview:
        """Streams and queries of the demo, with the age of each query's newest answer.

        Asked of the streams and queries themselves: the database is busy while Spark starts.
        """
        if self.db is None or self.feeder is None:
            return {"streams": [], "queries": []}
        streams = []
        for name in LINK_OF:
            reader = self.db.reader(name)
            end = reader.end()
            newest = end.time if end.row else None
            streams.append({"name": name, "rows": end.row, "bytes": reader.size(), "newest_us": newest})
        queries = [
            {**query.stats(), "latency": self.watchers[name].recent if name in self.watchers else None}
            for name, query in list(self.queries.items())
        ]
        return self._speeds.added_to({"streams": streams, "queries": queries}, time.monotonic())

    def finish(self) -> dict[str, Any]:
        """Stop the rows, let the queries answer for all of them, check, and sum up."""
        db, feeder = self.db, self.feeder
        assert db is not None
        assert feeder is not None
        lasted = self.running_for()
        feeder.stop()
        self._catch_up()
        checks: list[Check] = list(check(db, self.rate))
        results = [
            {
                "query": question.name,
                "what": question.what,
                "answers": self.queries[question.name].stats()["stream"]["rows"],
                "latency_p50": percentile(self.watchers[question.name].latencies, 0.5),
                "latency_p99": percentile(self.watchers[question.name].latencies, 0.99),
            }
            for question in self.questions
        ]
        return {
            "seconds": round(lasted, 1),
            "rows": feeder.rows,
            "rows_per_second": round(self.rows_per_second),
            "latency_p50": percentile(self.latencies, 0.5),
            "latency_p99": percentile(self.latencies, 0.99),
            "queries": results,
            "checked": [{"query": c.query, "equal": c.equal, "compared": c.compared, "what": c.what} for c in checks],
            "path": self.path,
        }

    def close(self) -> None:
        """Stop everything that was started, whatever state it is in."""
        self._closing = True
        for watcher in self.watchers.values():
            watcher.stop()
        if self.feeder is not None:
            self.feeder.stop()
        self._setup.join(_PATIENCE)
        if self.db is not None:
            self.db.close()

    def _set_up(self) -> None:
        try:
            self.db = db = open_or_create(self.path)
            self.say("declaring the streams")
            declare(db)
            self.feeder = feeder = Feeder(db, self.rate, self._seed)
            feeder.start()
            self.say("starting Spark")
            for question in self.questions:
                if self._closing:
                    return
                self.queries[question.name] = ask(db, question)
                self.say("starting the queries")
                self.watchers[question.name] = Watcher(db, question.name, question.stream, feeder)
                self.watchers[question.name].start()
            self.say("catching up")
            self._catch_up()
            self.ready_at = time.monotonic()
            for watcher in self.watchers.values():
                watcher.counts_from = self.ready_at
            self.say("running")
        except Exception as error:
            self._failure = error

    def _catch_up(self) -> None:
        """Until everything appended so far is in every answer."""
        for query in self.queries.values():
            if not self._closing:
                query.wait(timeout=_PATIENCE)


def _watch(demo: Demo, args: argparse.Namespace, interrupted: threading.Event) -> None:
    """Show what happens until the time is over, something failed, or Ctrl-C."""
    over = float("inf") if args.seconds is None else float(args.seconds)

    def go_on(pause: float) -> bool:
        return not interrupted.wait(pause) and demo.failure is None and demo.running_for() < over

    if args.json:
        while go_on(_FRAME):
            pass
    elif is_terminal():
        from anabranch.cli.demo_screen import Screen

        with Screen(demo) as screen:
            while go_on(_FRAME):
                screen.draw()
    else:
        _print_lines(demo, go_on)


def _print_lines(demo: Demo, go_on: Callable[[float], bool]) -> None:
    said, next_line = "", 0.0
    while go_on(0.05):
        if demo.ready_at is None and demo.stage != said:
            said = demo.stage
            print(f"{demo.elapsed():5.0f} s  {said} …", flush=True)
        elif demo.ready_at is not None and time.monotonic() >= next_line:
            next_line = time.monotonic() + _LINE_EVERY
            print(_line(demo), flush=True)


def _line(demo: Demo) -> str:
    answers = "  ".join(f"{name} {watcher.rows:,}" for name, watcher in demo.watchers.items())
    middle = percentile(demo.latencies, 0.5)
    latency = f"  latency p50 {seconds(middle)}" if middle is not None else ""
    return f"{demo.elapsed():5.0f} s  {demo.rows:,} rows  {count(demo.rows_per_second)}/s  answers: {answers}{latency}"


def _print_summary(summary: dict[str, Any], kept: bool) -> None:
    from anabranch.cli.panels import rows_table

    screen = console()
    screen.print(
        f"[bold]{summary['rows']:,}[/] rows in, [bold]{summary['rows_per_second']:,}[/] rows/s; "
        f"the queries ran for {seconds(summary['seconds'])}"
    )
    rows = [
        (q["query"], f"{q['answers']:,}", _latency(q["latency_p50"]), _latency(q["latency_p99"]), q["what"])
        for q in summary["queries"]
    ]
    rows.append(
        ("all", "", _latency(summary["latency_p50"]), _latency(summary["latency_p99"]), "from append to answer")
    )
    screen.print(rows_table(None, ["query", "answers", "p50", "p99", "what"], rows, len(rows)))
    equal = all(comparison["equal"] for comparison in summary["checked"])
    verdict = "[green]equal[/]" if equal else "[bold red]NOT EQUAL[/]"
    screen.print(f"\nanswers checked against a recomputation with Arrow over the streams' rows: {verdict}")
    for comparison in summary["checked"]:
        screen.print(
            f"  {comparison['query']}: {comparison['what']}, {'equal' if comparison['equal'] else 'NOT EQUAL'}"
        )
    if kept:
        screen.print(f"\nthe data is in {summary['path']}; try next:")
        screen.print(f"  anabranch sql --db {summary['path']} -c 'SELECT * FROM talkers LIMIT 5'", markup=False)
    else:
        screen.print("\nthe data was in a temporary directory, now removed; try next:")
        screen.print("  anabranch demo --db river      and beside it, in another terminal:", markup=False)
        screen.print("  anabranch top --db river       anabranch tail -f load --db river", markup=False)
    screen.print("  anabranch sql                  a shell; help; lists the statements", markup=False)


def _latency(value: float | None) -> str:
    return "-" if value is None else seconds(value)

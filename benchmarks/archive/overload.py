"""Overload: the paper's Query 2 while cars come twice as fast as all of history can be read.

How fast that is, is measured first, in the same run. Then the same rows come with a reducer that reads less of
history while live rows wait, and without. Simulated days pass faster than real ones. The lag is the age, by the
clock, of the oldest live row that is not taken in yet.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from anabranch.database import Database
from anabranch.queries import Query
from benchmarks.archive.cars import DAYS_BACK, HISTORY, HOUR, LIVE, START, Traffic, query
from benchmarks.harness import Bar, Report, check, median, say

REDUCER = "load(INTERVAL 1 SECOND, plate)"
TIMES = 2.0
"""Live rows come so many times as fast as full reads of history sustain."""
LAG_LIMIT, HELD_LIMIT = 5.0, 0.9
EVERY = 0.05
"""Seconds between appends."""
LOOK = 0.25
"""Seconds between looks at the lag."""
NAME = "query_2"
SPARE_DAYS = 2
PATIENCE = 120.0


@dataclass(frozen=True)
class OverloadSizes:
    """How much comes, and for how long."""

    cars: int
    """About as many rows a day has; one in fifty is live."""
    run_rows: int
    blocks: int
    batch_rows: int
    calibration_days: int
    calibration_seconds: float
    seconds: float
    seconds_without: float
    """Of the run that reads all of history: long enough to see what becomes of it."""
    most_days: int
    """Of history: where the live rows would come further, they come for a shorter time."""


@dataclass(frozen=True)
class Course:
    """What became of the lag, and of the answers."""

    reducer: str | None
    arrival: float
    """Live rows per second."""
    seconds: list[float]
    lags: list[float]
    fractions: list[tuple[float, float]]
    """Simulated hours since the beginning, and the part of history that was read."""
    answers: int
    held: int
    """Answers whose bounds, or which themselves, are right."""
    held_share: float
    """The same, where answers of the same hour made from the same keys, day after day, count as one."""

    @property
    def longest(self) -> float:
        return max(self.lags)


def measure(db: Database, sizes: OverloadSizes, report: Report) -> list[Course]:
    traffic = Traffic(sizes.cars)
    db.settings.change(batch_rows=sizes.batch_rows)
    history = _History(db, traffic, sizes)
    history.reach(DAYS_BACK + sizes.calibration_days)
    sustained = _sustained(db, traffic, sizes)
    arrival = TIMES * sustained
    per_second = arrival / len(traffic.of_exit())
    lasts = (sizes.most_days - DAYS_BACK - SPARE_DAYS) / per_second
    seconds = min(sizes.seconds, lasts)
    days = DAYS_BACK + SPARE_DAYS + int(per_second * max(seconds, min(sizes.seconds_without, lasts)))
    say(f"full history sustains {sustained:,.0f} live rows/s; {days} days of history for {seconds:.0f} s")
    history.reach(days)
    report.notes["overload"] = {
        "sustained_rows_per_second": round(sustained),
        "arrival_rows_per_second": round(arrival),
        "days_of_history": history.days,
        "history_rows": history.rows,
        "seconds": round(seconds),
    }
    without = _course(db, traffic, arrival, min(sizes.seconds_without, lasts), None)
    reduced = _course(db, traffic, arrival, seconds, REDUCER)
    _add_figures(reduced, without, report)
    db.drop_stream(LIVE)
    db.drop_stream(HISTORY)
    return [reduced, without]


def _add_figures(reduced: Course, without: Course, report: Report) -> None:
    for name, course in (("with", reduced), ("without", without)):
        say(f"{name} load: lag {median(course.lags):.1f} s, at most {course.longest:.1f} s, at the end "
            f"{course.lags[-1]:.1f} s; {course.held} of {course.answers} answers hold")  # fmt: skip
    report.add("overload_longest_lag_with_load", reduced.longest, "s", bar=Bar(LAG_LIMIT, "at most"))
    report.add("overload_median_lag_with_load", median(reduced.lags), "s")
    report.add("overload_last_lag_without_load", without.lags[-1], "s", bar=Bar(LAG_LIMIT, "at least"))
    report.add("overload_bounds_held", reduced.held_share, "of answers", bar=Bar(HELD_LIMIT, "at least"))
    if reduced.fractions:
        report.add("overload_median_fraction_read", median(part for _, part in reduced.fractions), "of history")


class _History:
    """The archive of all cars: as many days as are wanted by now, and what makes its last run a whole one.

    Rows are dealt to the blocks of a run, so a read of a few days costs as much as its run is large: were runs of
    other sizes where the rate is measured, it would be that of another archive.
    """

    def __init__(self, db: Database, traffic: Traffic, sizes: OverloadSizes) -> None:
        self._db, self._traffic, self._run_rows = db, traffic, sizes.run_rows
        self.days = self.rows = self._archived = 0
        self._starts: list[int] = []
        # What is archived leaves the log, so the query has history to read from its archive only.
        db.sql(
            f"CREATE STREAM {HISTORY} (ts TIMESTAMP, plate STRING, exit INT) TIMESTAMP BY ts "
            f"RETAIN INTERVAL 1 HOUR OPTIONS (segment_bytes '{max(sizes.run_rows // 32, 1024)}')"
        )
        options = {"run_rows": str(sizes.run_rows), "blocks": str(sizes.blocks)}
        db.create_archive(HISTORY, "randomize_then_sort", by="plate", options=options)

    def reach(self, days: int) -> None:
        archiver = self._db.archive(HISTORY)
        while self.days < days or self._archived < self._first_row_of(days):
            self._append_day()
            if self.rows - self._archived >= self._run_rows:
                self._archived = archiver.append(all_rows=False)
        self._append_day()  # as it comes, the log lets go what is archived
        # But for the segment that is archived in part.
        left = self._archived - self._db.reader(HISTORY).first_logged_row()
        check(left <= self._run_rows // 10 + 2 * self._traffic.cars, f"the log still holds {left} archived rows")

    def _append_day(self) -> None:
        table = self._traffic.history(self.days)
        self._db.append(HISTORY, table)
        self._starts.append(self.rows)
        self.rows += table.num_rows
        self.days += 1

    def _first_row_of(self, day: int) -> int:
        return self._starts[day] if day < len(self._starts) else self.rows


def _sustained(db: Database, traffic: Traffic, sizes: OverloadSizes) -> float:
    """Live rows per second that are joined with all of history; the first of them are not, while all is still cold."""
    _make_live(db)
    for day in range(sizes.calibration_days):
        db.append(LIVE, traffic.live(DAYS_BACK + day))
    end = db.reader(LIVE).end().row
    started = db.query(query(None), name=NAME)
    points: list[tuple[float, int]] = []
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        _raise_failure(started)
        row = _taken(started)
        if row and (not points or row > points[-1][1]):
            points.append((time.monotonic(), row))
            deadline = min(deadline, points[0][0] + sizes.calibration_seconds) if len(points) > 2 else deadline
        if row >= end:
            break
        time.sleep(0.005)
    db.drop_query(NAME)
    check(len(points) > 1, "the join with all of history took in no second micro-batch")
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(points)]
    return median(rates[len(rates) // 2 :])


def _make_live(db: Database) -> None:
    if any(stream.name == LIVE for stream in db.streams()):
        db.drop_stream(LIVE)
    db.sql(f"CREATE STREAM {LIVE} (ts TIMESTAMP, plate STRING) TIMESTAMP BY ts")


def _taken(started: Query) -> int:
    """How many live rows it has taken in."""
    done = started._member.progress.done().get(LIVE)
    return 0 if done is None else done.row


def _until_taken(started: Query, rows: int) -> None:
    """Until so many live rows are taken in; how far the log of history is, makes no difference."""
    deadline = time.monotonic() + PATIENCE
    while _taken(started) < rows:
        _raise_failure(started)
        check(time.monotonic() < deadline, f"{_taken(started)} of {rows} live rows were taken in after {PATIENCE:g} s")
        time.sleep(0.01)


def _raise_failure(started: Query) -> None:
    if started.failure is not None:
        raise started.failure


class _Feeder:
    """Appends live rows at a rate, and remembers when each came."""

    def __init__(self, db: Database, rows: Iterator[pa.Table], arrival: float) -> None:
        self._db, self._rows, self._arrival = db, rows, arrival
        self._rest = next(rows)
        self._stop = threading.Event()
        self._ends: list[int] = []
        self._times: list[float] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    def _work(self) -> None:
        try:
            began, sent = time.monotonic(), 0
            while not self._stop.wait(EVERY):
                due = int((time.monotonic() - began) * self._arrival) - sent
                if due > 0:
                    self.append(due)
                    sent += due
        except BaseException as problem:  # said by whoever waits
            self.failure = problem

    def append(self, rows: int) -> None:
        now = time.monotonic()
        end = self._db.append(LIVE, self._next(rows))
        self._ends.append(end)
        self._times.append(now)

    def _next(self, rows: int) -> pa.Table:
        parts = []
        while rows > 0:
            if not self._rest.num_rows:
                self._rest = next(self._rows)
            parts.append(self._rest.slice(0, rows))
            self._rest = self._rest.slice(parts[-1].num_rows)
            rows -= parts[-1].num_rows
        return pa.concat_tables(parts)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def lag(self, taken: int) -> float:
        """The age of the oldest row that is not taken in."""
        at = bisect.bisect_right(self._ends, taken)
        return time.monotonic() - self._times[at] if at < len(self._times) else 0.0

    @property
    def rows(self) -> int:
        return self._ends[-1] if self._ends else 0


def _course(db: Database, traffic: Traffic, arrival: float, seconds: float, reducer: str | None) -> Course:
    _make_live(db)
    days = iter(range(DAYS_BACK, 1 << 30))
    feeder = _Feeder(db, (traffic.live(day) for day in days), arrival)
    feeder.append(max(int(arrival * EVERY), 1))
    started = db.query(query(reducer), name=NAME)
    _until_taken(started, feeder.rows)  # Spark and its workers are up, and the first portions of history are read
    say(f"{reducer or 'all of history'}: {arrival:,.0f} live rows/s for {seconds:.0f} s")
    before = feeder.rows
    began = time.monotonic()
    feeder.start()
    at: list[float] = []
    lags: list[float] = []
    while time.monotonic() - began < seconds:
        time.sleep(LOOK)
        _raise_failure(started)
        lags.append(feeder.lag(_taken(started)))
        at.append(time.monotonic() - began)
    feeder.stop()
    came = (feeder.rows - before) / (time.monotonic() - began)
    if reducer is not None:
        _until_taken(started, feeder.rows)
    answers = started.table()
    db.drop_query(NAME)
    check(came > 0.8 * arrival, f"{came:,.0f} rows/s came, {arrival:,.0f} were wanted")
    return _judged(traffic, reducer, came, at, lags, answers)


def _judged(
    traffic: Traffic, reducer: str | None, arrival: float, at: list[float], lags: list[float], answers: pa.Table
) -> Course:
    """The course with its answers compared with the exact ones; those of all of history must be these."""
    exact: dict[int, int] = {}
    held, fractions = 0, []
    alike: dict[tuple[int, float], list[bool]] = {}
    rows = answers.to_pylist()
    for row in rows:
        hour = int(row["_time"].timestamp()) * 1_000_000 - HOUR
        day = (hour - START) // (24 * HOUR)
        if hour not in exact:
            exact |= traffic.seen_each_day(day)
        truth = exact.get(hour, 0)
        if reducer is None:
            check(row["n"] == truth, f"{row['n']} cars of the hour {hour} were seen each day, not {truth}")
        low, high = (row["n"], row["n"]) if reducer is None else (row["n_low"], row["n_high"])
        right = low <= truth <= high
        held += right
        alike.setdefault((hour // HOUR % 24, row.get("_fraction", 1.0)), []).append(right)
        if reducer is not None:
            fractions.append(((hour - START) / HOUR - 24 * DAYS_BACK, row["_fraction"]))
    share = sum(sum(each) / len(each) for each in alike.values()) / max(len(alike), 1)
    return Course(reducer, arrival, at, lags, fractions, len(rows), held, share)

"""Bars of the window structures that need no Spark: the default index, the histogram, and flat cost.

The histogram's peer keeps the tuples of the window in one array and sorts it at each slide. Flat cost is that of the
operator behind standing queries, run by itself over rows in memory.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.operators.base import Inputs, Offset
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing.memory_log import MemoryLog
from anabranch.windows import SlidingWindow
from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.windows.cells import Values
from benchmarks.windows.subjects import Ints, Setting, counted

DISTINCT = 10_000
DEFAULT_BASIC_WINDOWS = 100
HISTOGRAM_BASIC_WINDOWS = 500
FLAT_BASIC_WINDOWS = (10, 100, 1000)
FLAT_SIZE = 100_000_000
"""The window (µs) whose basic windows become more and more."""
AGGREGATES = (("n", "count", None), ("total", "sum", "v"), ("mean", "avg", "v"))


@dataclass(frozen=True)
class BarSizes:
    """How much is run through."""

    windows: tuple[int, int]
    """Tuples of the small and of the large window of the default index; the histogram is that of the large one."""
    rounds: int
    slides: int
    """Of the histogram under the index, per round."""
    peer_slides: int
    flat_rows: int
    least_tuples: int = 1_000_000
    """Timed per round, however small the window."""


def default_index(sizes: BarSizes, report: Report) -> None:
    """Tuples/s of a window made without saying how, for a small and a large window."""
    speeds = {size: _default_speed(size, sizes) for size in sizes.windows}
    for size, (name, speed) in speeds.items():
        report.add(f"default_index_{size}_tuples_per_second", speed, "tuples/s")
        report.notes.setdefault("default_structures", {})[f"{size:,} tuples"] = name
    slowest = min(speed for _, speed in speeds.values())
    report.add("default_index_tuples_per_second", slowest, "tuples/s", bar=Bar(5e6, "at least"))


def _default_speed(size: int, sizes: BarSizes) -> tuple[str, float]:
    window = SlidingWindow(size, DEFAULT_BASIC_WINDOWS)
    values = Values(Setting(size, DEFAULT_BASIC_WINDOWS, DISTINCT)).take(2 * size)
    pieces = np.split(values, 2 * DEFAULT_BASIC_WINDOWS)
    speeds = []
    for number in range(1 + sizes.rounds * max(1, sizes.least_tuples // len(values))):
        began = time.perf_counter()
        for piece in pieces:
            window.append(piece)
        if number:
            speeds.append(len(values) / (time.perf_counter() - began))
        else:
            _check_histogram(window, values[size:])
    _check_histogram(window, values[size:])
    name = f"{window.index.name} over {window.basic_windows.storage.name if window.basic_windows.storage else ''}"
    say(f"default index, {size:,} tuples: {name}, {median(speeds):,.0f} tuples/s")
    return name, median(speeds)


def histogram(sizes: BarSizes, report: Report) -> None:
    """Slides of a large window with its histogram after each, under the index and by sorting the window."""
    size = sizes.windows[1]
    basic = size // HISTOGRAM_BASIC_WINDOWS
    stream = Values(Setting(size, HISTOGRAM_BASIC_WINDOWS, DISTINCT))
    held = stream.take(size)
    window = SlidingWindow(size, HISTOGRAM_BASIC_WINDOWS)
    for piece in np.split(held, HISTOGRAM_BASIC_WINDOWS):
        window.append(piece)
    _check_histogram(window, held)
    ours, peers = [], []
    oldest = 0
    for _ in range(sizes.rounds):
        pieces = np.split(stream.take(sizes.slides * basic), sizes.slides)
        began = time.perf_counter()
        for piece in pieces:
            window.append(piece)
            window.histogram()
        ours.append((time.perf_counter() - began) / sizes.slides)
        for piece in pieces:
            held[oldest : oldest + basic] = piece
            oldest = (oldest + basic) % size
        again = np.split(held, HISTOGRAM_BASIC_WINDOWS)[: sizes.peer_slides]
        began = time.perf_counter()
        for number, piece in enumerate(again):
            held[number * basic : (number + 1) * basic] = piece
            counted(held)
        peers.append((time.perf_counter() - began) / len(again))
        _check_histogram(window, held)
    ratio = median(peer / own for own, peer in zip(ours, peers, strict=True))
    say(f"histogram: {median(ours) * 1e3:.2f} ms per slide under the index, sorting costs {ratio:.0f} times that")
    report.add("histogram_slide", median(ours) * 1e3, "ms", peer=median(ours) * 1e3 * ratio)
    report.add("histogram_speedup", ratio, "×", bar=Bar(20, "at least"))


def _check_histogram(window: SlidingWindow, tuples: Ints) -> None:
    answer = window.histogram()
    got = answer.column("value").to_numpy(), answer.column("count").to_numpy()
    right = all(np.array_equal(a, b) for a, b in zip(got, counted(tuples), strict=True))
    check(right, "the window's histogram is not that of its tuples")


def cost_flatness(sizes: BarSizes, report: Report) -> None:
    """Nanoseconds per tuple of count, sum and avg, without groups and with ten, as basic windows become more."""
    log = rows_in_memory(sizes.flat_rows)
    worst = 0.0
    for name, keys in (("no_keys", ()), ("10_keys", (("k", "k % 10"),))):
        taken: dict[int, list[float]] = {count: [] for count in FLAT_BASIC_WINDOWS}
        for number in range(1 + sizes.rounds):
            for count in FLAT_BASIC_WINDOWS:
                seconds = _aggregate(log, keys, count, sizes.flat_rows)
                if number:  # the first round compiles
                    taken[count].append(seconds * 1e9 / sizes.flat_rows)
        for count in FLAT_BASIC_WINDOWS:
            report.add(f"aggregate_{name}_{count}_basic_windows", median(taken[count]), "ns/tuple")
        fewest, most = taken[FLAT_BASIC_WINDOWS[0]], taken[FLAT_BASIC_WINDOWS[-1]]
        worst = max(worst, median(b / a for a, b in zip(fewest, most, strict=True)))
    say(f"cost of {FLAT_BASIC_WINDOWS[-1]} basic windows over that of {FLAT_BASIC_WINDOWS[0]}: {worst:.2f}")
    report.add("cost_flatness", worst, "×", bar=Bar(1.5, "at most"))


def rows_in_memory(rows: int) -> MemoryLog:
    """Rows (k, v, ts) over four windows of time."""
    random = np.random.default_rng(1)
    log = MemoryLog(StreamSchema.of({"k": "BIGINT", "v": "DOUBLE", "ts": "TIMESTAMP"}, time="ts"))
    times = np.sort(random.integers(0, 4 * FLAT_SIZE, rows))
    keys, values = random.integers(0, DISTINCT, rows), random.normal(size=rows)
    log.append(pa.table({"k": keys, "v": values, "ts": pa.array(times).cast(TIME_TYPE)}))
    return log


def _aggregate(log: MemoryLog, keys: tuple[tuple[str, str], ...], basic_windows: int, rows: int) -> float:
    """Seconds to answer every window, its answer checked by its counts."""
    names = [*(name for name, _ in keys), *(name for name, _, _ in AGGREGATES), "window_end"]
    slide = FLAT_SIZE // basic_windows
    operator = WindowAggregate(
        stream="s",
        unit="time",
        size=FLAT_SIZE,
        slide=slide,
        keys=keys,
        aggregates=AGGREGATES,
        columns=tuple((name, name) for name in names),
        time="window_end",
    )
    batch = max(rows // 4, 1)
    answers: list[pa.RecordBatch] = []
    with tempfile.TemporaryDirectory(prefix="bench-windows-") as scratch:
        at = Offset()
        began = time.perf_counter()
        for low in range(0, rows, batch):
            end = log.offset(min(low + batch, rows))
            inputs = Inputs({"s": log}, scratch)
            for task in operator.plan({"s": at}, {"s": end}, inputs, 1):
                answers += operator.run(task, inputs)
            at = end
        seconds = time.perf_counter() - began
    _check_counts(log, pa.Table.from_batches(answers), slide, rows)
    return seconds


def _check_counts(log: MemoryLog, answer: pa.Table, slide: int, rows: int) -> None:
    """Each window's counts, of all groups together, are its rows."""
    times = log.read(0, rows, ["ts"]).column("ts").cast(pa.int64()).to_numpy()
    ends = np.arange(times[0] // slide + 1, times[-1] // slide + 1) * slide
    wanted = np.searchsorted(times, ends) - np.searchsorted(times, ends - FLAT_SIZE)
    number = answer.column("window_end").cast(pa.int64()).to_numpy() // slide - times[0] // slide - 1
    got = np.bincount(number, answer.column("n").to_numpy(), len(ends))
    check(np.array_equal(got, wanted), "a windowed count is not the number of its window's rows")

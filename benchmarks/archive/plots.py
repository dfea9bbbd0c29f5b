"""Figures 9 to 18 of S. Chandrasekaran and M. Franklin (2004), the paper's formulas on the left; and the overload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.archive.data import HYBRIDS, LAZY, PAPER_NAMES, VACUUMED
from benchmarks.archive.inserts import Insert
from benchmarks.archive.overload import Course
from benchmarks.archive.reads import FIRST, Read
from benchmarks.archive.together import Cell

COLOURS = {
    "plain": "#4d4d4d",
    "on_write_replicate": "#f58518",
    FIRST: "#b279a2",
    LAZY: "#e45756",
    "on_read_modify_with_copy": "#ff9da6",
    VACUUMED: "#b5322f",
    **dict(zip(HYBRIDS, ("#9ecae9", "#4c78a8", "#1f3f66"), strict=True)),
}
NAMES = {**PAPER_NAMES, FIRST: "Lazy-1st read", LAZY: "Lazy-2nd read"}


def draw(
    inserts: Sequence[Insert],
    reads: Sequence[Read],
    cells: Sequence[Cell],
    overload: Sequence[Course],
    folder: Path,
    kind: str = "svg",
) -> list[Path]:
    """Write all pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _picture(folder / f"figure9_11.{kind}", (1, 2), (6.4, 2.6), lambda axes: _inserts(axes, inserts)),
        _picture(folder / f"figure10_12.{kind}", (1, 3), (9.6, 3.0), lambda axes: _reads(axes, reads)),
        _picture(folder / f"figure13_16.{kind}", (2, 2), (6.8, 4.8), lambda axes: _together(axes, cells)),
        _picture(folder / f"figure17_18.{kind}", (1, 2), (6.8, 2.8), lambda axes: _rates(axes, cells)),
        _picture(folder / f"overload.{kind}", (1, 2), (6.8, 2.6), lambda axes: _overload(axes, overload)),
    ]


def _inserts(axes: Any, inserts: Sequence[Insert]) -> None:
    names = [NAMES[each.variant] if each.variant != LAZY else "Lazy" for each in inserts]
    colours = [COLOURS[each.variant] for each in inserts]
    sides = (
        ("Figure 9, the paper's formulas", [each.paper_seconds for each in inserts]),
        ("Figure 11, measured here", [each.seconds for each in inserts]),
    )
    for axis, (title, seconds) in zip(axes, sides, strict=True):
        axis.barh(names[::-1], seconds[::-1], color=colours[::-1], height=0.65)
        axis.set_title(title)
        axis.set_xlabel("time to insert, s")


def _reads(axes: Any, reads: Sequence[Read]) -> None:
    shown: tuple[tuple[str, str, Callable[[Read], float | None]], ...] = (
        ("Figure 10, the paper's formulas", "query time, s", lambda read: read.paper_seconds),
        ("Table 1, bytes counted here", "of the full read", lambda read: read.share),
        ("Figure 12, measured here", "query time, s", lambda read: read.seconds),
    )
    for axis, (title, up, value) in zip(axes, shown, strict=True):
        for name in COLOURS:
            points = [(100 * each.reduction, y) for each in reads if each.variant == name
                      if (y := value(each)) is not None]  # fmt: skip
            if points:
                _line(axis, points, name)
        axis.set_title(title)
        axis.set_xlabel("reduction, %")
        axis.set_ylabel(up)
        axis.set_ylim(bottom=0)
    axes[-1].legend(fontsize=6, frameon=False)


def _together(axes: Any, cells: Sequence[Cell]) -> None:
    shown: tuple[tuple[str, float, str, Callable[[Cell], float]], ...] = (
        ("Figure 13", 0.25, "time to insert, s", lambda cell: cell.seconds),
        ("Figure 14", 0.75, "time to insert, s", lambda cell: cell.seconds),
        ("Figure 15", 0.25, "queries completed", lambda cell: cell.completed),
        ("Figure 16", 0.75, "queries completed", lambda cell: cell.completed),
    )
    for axis, (title, reduction, up, value) in zip(axes, shown, strict=True):
        for name in COLOURS:
            points = [(c.queries, value(c)) for c in cells if (c.variant, c.reduction) == (name, reduction)]
            if points:
                _line(axis, points, name)
        axis.set_title(f"{title}, {reduction:.0%} reduction")
        axis.set_xlabel("queries at a time")
        axis.set_ylabel(up)
        axis.set_ylim(bottom=0)
    axes[-1].legend(fontsize=6, frameon=False)


def _rates(axes: Any, cells: Sequence[Cell]) -> None:
    counts = sorted({cell.queries for cell in cells if cell.queries})
    for axis, title, queries in zip(
        axes, ("Figure 17", "Figure 18"), (counts[len(counts) // 2], counts[-1]), strict=True
    ):
        for name in COLOURS:
            chosen = [c for c in cells if (c.variant, c.queries) == (name, queries) and c.completed]
            if chosen:
                _line(axis, [(100 * c.reduction, c.per_1000_seconds) for c in chosen], name)
        axis.set_title(f"{title}, {queries} queries at a time")
        axis.set_xlabel("reduction, %")
        axis.set_ylabel("queries per 1,000 s")
        axis.set_yscale("log")
    axes[-1].legend(fontsize=6, frameon=False)


def _overload(axes: Any, courses: Sequence[Course]) -> None:
    lag, part = axes
    for course, colour in zip(courses, ("#4c78a8", "#e45756"), strict=False):
        name = course.reducer or "all of history"
        lag.plot(course.seconds, course.lags, color=colour, linewidth=1, label=name)
        if course.fractions:
            hours, fractions = zip(*course.fractions, strict=True)
            part.plot([hour / 24 for hour in hours], fractions, color=colour, linewidth=1)
    lag.axhline(5, color="#999999", linewidth=0.6, linestyle="--")
    lag.set_title("age of the oldest row not taken in")
    lag.set_xlabel("seconds")
    lag.set_ylabel("lag, s")
    lag.legend(fontsize=6, frameon=False)
    part.set_title("history that was read")
    part.set_xlabel("simulated days")
    part.set_ylabel("fraction")
    part.set_ylim(0, 1.05)


def _line(axis: Any, points: Iterable[tuple[float, float]], name: str) -> None:
    x, y = zip(*sorted(points), strict=True)
    axis.plot(x, y, color=COLOURS[name], marker="o", markersize=2.5, linewidth=1, label=NAMES[name])


def _picture(path: Path, shape: tuple[int, int], size: tuple[float, float], fill: Callable[[Any], None]) -> Path:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    look: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "archive", "font.size": 8, "axes.titlesize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "font.family": "sans-serif",
    }  # fmt: skip
    with mpl.rc_context(look):
        figure, axes = pyplot.subplots(*shape, figsize=size, layout="constrained")
        fill(axes.flatten())
        for axis in axes.flatten():
            axis.grid(axis="y", color="#e6e6e6", linewidth=0.5)
            axis.tick_params(length=2)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)
        pyplot.close(figure)
    return path

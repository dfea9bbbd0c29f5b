"""Figures 4 and 5 of M. Mazzucco et al. (2002): the paper's points on the left, ours on the right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.merge.paper import CGM, SHARES
from benchmarks.merge.tables import Point

OURS, PAPER = "#4c78a8", "#f58518"


def draw(figure_4: Sequence[Point], figure_5: Sequence[Point], folder: Path, kind: str = "svg") -> list[Path]:
    """Write both pictures."""
    papers = [CGM[10000, share] for share in SHARES]
    disorder = (
        ([100 * share for share in SHARES], [each[-1].merge for each in papers]),
        ([100 * point.share for point in figure_4], [1000 * point.seconds for point in figure_4]),
    )
    matches = (
        ([float(cell.match) for cell in papers[-1]], [cell.merge for cell in papers[-1]]),
        ([point.match for point in figure_5], [1000 * point.seconds for point in figure_5]),
    )
    folder.mkdir(parents=True, exist_ok=True)
    return [
        _picture(folder / f"figure4.{kind}", disorder, f"K = {figure_4[0].step:,}", "% out of order"),
        _picture(folder / f"figure5.{kind}", matches, "33 % out of order", "% merged"),
    ]


def _picture(path: Path, lines: Sequence[tuple[list[float], list[float]]], title: str, across: str) -> Path:
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    look: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "merge", "font.size": 8, "axes.titlesize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "font.family": "sans-serif",
    }  # fmt: skip
    sides = (("the paper", "merge time, s", PAPER), ("here", "merge time, ms", OURS))
    with mpl.rc_context(look):
        figure, axes = pyplot.subplots(1, 2, figsize=(6.4, 2.4), layout="constrained")
        for axis, (x, y), (name, up, colour) in zip(axes, lines, sides, strict=True):
            axis.plot(x, y, color=colour, marker="o", markersize=3, linewidth=1)
            axis.set_title(f"{name}, {title}")
            axis.set_xlabel(across)
            axis.set_ylabel(up)
            axis.set_ylim(0, 1.1 * max(y))
            axis.grid(axis="y", color="#e6e6e6", linewidth=0.5)
            axis.tick_params(length=2)
        metadata = {"Date": None, "Creator": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)
        pyplot.close(figure)
    return path

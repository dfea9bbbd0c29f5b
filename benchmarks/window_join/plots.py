"""Figure 7 of STEAM drawn from our curves: service time per tuple over the tuples that have come.

M. A. Hammad, W. G. Aref, A. K. Elmagarmid et al., "STEAM" (2002), Figure 7: nested loops above, hashing below, and 2, 3
and 4 streams from left to right.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.window_join.figure7 import BLOCK, PAIRS, Curve

COLOURS = {"NLW-join": "#4c78a8", "ripple join": "#f58518", "HW-join": "#4c78a8", "XJoin": "#f58518"}


def draw(curves: list[Curve], folder: Path, kind: str = "svg") -> Path:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    look: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "steam", "font.size": 8, "axes.titlesize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "font.family": "sans-serif",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"figure7.{kind}"
    streams = sorted({curve.streams for curve in curves})
    by = {(curve.join, curve.streams): curve for curve in curves}
    with mpl.rc_context(look):
        figure, axes = pyplot.subplots(
            len(PAIRS), len(streams), figsize=(3.0 * len(streams), 4.4), squeeze=False, layout="constrained"
        )
        for row, pair in zip(axes, PAIRS, strict=True):
            for axis, count in zip(row, streams, strict=True):
                for name in reversed(pair):
                    _line(axis, by[name, count])
                axis.set_title(f"{count} streams")
                axis.set_ylim(bottom=0)
                axis.grid(axis="y", color="#e6e6e6", linewidth=0.5)
                axis.tick_params(length=2)
            row[0].set_ylabel("µs per tuple")
            row[-1].legend(frameon=False, fontsize=8, loc="upper right", reverse=True)
        for axis in axes[-1]:
            axis.set_xlabel("thousands of tuples")
        figure.savefig(path, metadata={"Date": None, "Creator": None} if kind == "svg" else None, dpi=110)
        pyplot.close(figure)
    return path


def _line(axis: Any, curve: Curve) -> None:
    at = [number * BLOCK / 1000 for number in range(len(curve.micros))]
    axis.plot(at, curve.micros, color=COLOURS[curve.join], linewidth=0.8, label=curve.join)

"""The paper's figures drawn from our cells: one picture each, bars side by side as there.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), Figures 7 to 11.
Costs are on a logarithmic scale; the paper cuts its tallest bars instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.windows.figures import GROUPS, LARGE, RINGS, STORAGES, Cells
from benchmarks.windows.subjects import NO_INDEX, Setting, Structure

COLOURS = {
    "L": "#9d755d", "T": "#4c78a8", "H": "#f58518", "UH": "#e4a15c", "H*": "#54a24b", "UH*": "#a0cb96",
    "G10": "#b279a2", "G50": "#7a4d7b", "no index": "#8f8f8f", "plain": "#9d755d", "AUX": "#f58518",
    "BW": "#54a24b", "DB": "#4c78a8", "DB over T": "#1f3a5f",
}  # fmt: skip
OWN_SCALES = ("figure11a",)
"""Pictures whose panels show different things."""
LIGHTER = 0.35
"""How much of a bar's colour is left for the query on top of the maintenance."""


class Series(NamedTuple):
    """The bars of one structure: what is below, and what is added on top."""

    name: str
    below: list[float]
    above: list[float] | None = None


class Panel(NamedTuple):
    """One diagram: a group of bars for each setting."""

    title: str
    settings: list[Setting]
    series: list[Series]


def panels(cells: Cells) -> dict[str, list[Panel]]:
    """What each picture shows, by the name of its file."""
    return {
        "figure7": [_maintenance(cells, storage, ("L", "T", "H", "UH")) for storage in STORAGES],
        "figure8a": [_maintenance(cells, storage, ("H", "UH")) for storage in STORAGES],
        "figure8b": [_groups(cells)],
        "figure9": [_histogram(cells, storage) for storage in STORAGES],
        "figure10": [_intersection(cells)],
        "figure11a": [_deletion(cells, "deletion", "time, ns"), _deletion(cells, "deletion_steps", "links followed")],
        "figure11bc": [_sorting(cells, index) for index in ("L", "T")],
        "large": [_large(cells)],
    }


def draw(cells: Cells, folder: Path, kind: str = "svg") -> list[Path]:
    """Write all pictures."""
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    look: Any = {
        "svg.fonttype": "none", "svg.hashsalt": "windows", "font.size": 8, "axes.titlesize": 9,
        "axes.spines.top": False, "axes.spines.right": False, "font.family": "sans-serif",
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with mpl.rc_context(look):
        for name, shown in panels(cells).items():
            figure, axes = pyplot.subplots(
                1, len(shown), figsize=(max(3.0 * len(shown), 5.2), 2.6), squeeze=False, layout="constrained"
            )
            for axis, panel in zip(axes[0], shown, strict=True):
                _bars(axis, panel)
                _scale(axis, shown if name not in OWN_SCALES else [panel])
            axes[0][0].set_ylabel("per tuple" if name in OWN_SCALES else "ns per tuple")
            _legend(figure, axes[0])
            written.append(folder / f"{name}.{kind}")
            figure.savefig(written[-1], metadata={"Date": None, "Creator": None} if kind == "svg" else None, dpi=110)
            pyplot.close(figure)
    return written


def _bars(axis: Any, panel: Panel) -> None:
    width = 0.8 / len(panel.series)
    for number, series in enumerate(panel.series):
        at = [i + (number - (len(panel.series) - 1) / 2) * width for i in range(len(panel.settings))]
        colour = COLOURS.get(series.name) or COLOURS.get(series.name.split("/")[0].split(" over ")[0], "#555555")
        if "HASH" in series.name:  # the same index over another storage
            axis.bar(at, series.below, width * 0.9, color="white", edgecolor=colour, hatch="////", label=series.name)
        else:
            axis.bar(at, series.below, width * 0.9, color=colour, label=series.name)
        if series.above is not None:
            axis.bar(at, series.above, width * 0.9, bottom=series.below, color=colour, alpha=LIGHTER)
    axis.set_title(panel.title)
    axis.set_xticks(range(len(panel.settings)), [str(s.basic_windows) for s in panel.settings])
    distinct = list(dict.fromkeys(s.distinct for s in panel.settings))
    axis.set_xlabel("basic windows, with " + " | ".join(f"{d:,}" for d in distinct) + " values")
    per = len(panel.settings) // len(distinct)
    for border in range(per, len(panel.settings), per):
        axis.axvline(border - 0.5, color="#bbbbbb", linewidth=0.6, linestyle=":")
    axis.tick_params(length=2)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.5)
    axis.set_axisbelow(True)


def _scale(axis: Any, panels: list[Panel]) -> None:
    """Logarithmic, the same for panels side by side, and low enough for the shortest bar to be seen."""
    shortest = min(value for panel in panels for series in panel.series for value in series.below)
    tallest = max(
        below + above
        for panel in panels
        for series in panel.series
        for below, above in zip(series.below, series.above or [0.0] * len(series.below), strict=True)
    )
    axis.set_yscale("log")
    axis.set_ylim(shortest / 1.6, tallest * 1.3)
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
    axis.yaxis.set_minor_formatter(lambda value, _: "")


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    found = {label: handle for axis in axes for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(
        found.values(), found.keys(), loc="outside upper center", ncols=min(len(found), 8), frameon=False, fontsize=8,
        handlelength=1, columnspacing=1.2,
    )  # fmt: skip


def _maintenance(cells: Cells, storage: str, indices: Sequence[str]) -> Panel:
    settings = cells.settings()
    return Panel(storage, settings, [Series(i, cells.maintenance(Structure(storage, i), settings)) for i in indices])


def _groups(cells: Cells) -> Panel:
    settings = cells.settings()
    shown = {
        **{f"{g}": Structure("GROUP", g) for g in GROUPS},
        "no index": Structure("LIST", NO_INDEX),
        "T": Structure("LIST", "T"),
    }
    series = [Series(name, cells.maintenance(structure, settings)) for name, structure in shown.items()]
    return Panel("G over GROUP, the others over LIST", settings, series)


def _with_query(cells: Cells, name: str, structure: Structure, settings: list[Setting]) -> Series:
    found = [cells.at(structure, setting) for setting in settings]
    return Series(name, [cell.maintenance for cell in found], [cell.query or 0.0 for cell in found])


def _histogram(cells: Cells, storage: str) -> Panel:
    settings = cells.settings()
    series = [_with_query(cells, i, Structure(storage, i), settings) for i in ("L", "T", "H")]
    if storage != "HASH":
        series.append(_with_query(cells, "no index", Structure(storage, NO_INDEX), settings))
    return Panel(storage, settings, series)


def _intersection(cells: Cells) -> Panel:
    settings = cells.settings()
    series = [Series(i, [cells.fastest_pair(i, s) for s in settings]) for i in (*GROUPS, "T", "H", "H*")]
    return Panel("intersection of two windows, maintenance and query", settings, series)


def _deletion(cells: Cells, what: str, title: str) -> Panel:
    settings = cells.settings()
    series = [Series(r, [getattr(cells.at(Structure("LIST", "T", r), s), what) for s in settings]) for r in RINGS]
    return Panel(f"deletion: {title}", settings, series)


def _sorting(cells: Cells, index: str) -> Panel:
    settings = cells.settings()
    series = [_with_query(cells, r, Structure("LIST", index, r), settings) for r in RINGS]
    return Panel(f"rings over {index}: maintenance, sort query", settings, series)


def _large(cells: Cells) -> Panel:
    settings = cells.settings(large=True)
    names = {structure: str(structure).replace("/LIST", "").replace("/GROUP", "") for structure in LARGE}
    series = [Series(name, cells.maintenance(structure, settings)) for structure, name in names.items()]
    return Panel(f"maintenance of {settings[0].window:,} tuples", settings, series)

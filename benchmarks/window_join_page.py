"""The page of the paper, `docs/papers/steam.md`: its tables and pictures, made anew from a run.

`python -m benchmarks window_join --page docs/papers/steam.md` measures and writes them. `python -m
benchmarks.window_join_page RUN.json PAGE` writes them from the JSON object of an earlier run. Tables stand between
markers, pictures in the folder of the page's name; all else on the page is left as it is.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from benchmarks import window_join_plots
from benchmarks.pages import table, write_page
from benchmarks.window_join_figure7 import JOINS, Curve

BEGIN, END = "<!-- {name}: begin, made by `python -m benchmarks window_join` -->", "<!-- {name}: end -->"


def write(found: dict[str, Any], page: Path, kind: str = "svg") -> None:
    """Put a run's tables on the page and its pictures beside it."""
    text = page.read_text(encoding="utf-8")
    curves = [Curve(**curve) for curve in found["curves"]]
    for name, content in tables(found, curves).items():
        text = replaced(text, name, content)
    page.write_text(text, encoding="utf-8")
    window_join_plots.draw(curves, page.with_suffix(""), kind)


def replaced(text: str, name: str, content: str) -> str:
    """The page with what stands between the markers of this name exchanged."""
    begin, end = BEGIN.format(name=name), END.format(name=name)
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for {name!r}: {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def tables(found: dict[str, Any], curves: list[Curve]) -> dict[str, str]:
    """What stands between the markers, by their names."""
    figures = found["figures"]
    bars = {name: figure for name, figure in figures.items() if "bar" in figure}
    return {
        "run": _run(found),
        "bars": table(
            ["figure", "ours", "peer", "ratio", "bar", ""],
            (
                [f"`{name}`", *_cells(figure), figure["bar"], "met" if figure["met"] else "**missed**"]
                for name, figure in bars.items()
            ),
        ),
        "beside the bars": table(
            ["figure", "ours", "peer", "ratio"],
            ([f"`{name}`", *_cells(figure)] for name, figure in figures.items() if name not in bars),
        ),
        "peers": table(["peer", "what was measured"], ([*each] for each in found["notes"].get("peers", {}).items())),
        "figure 7": _service_times(curves),
        "claims": table(
            ["the paper", "here", "seen"],
            ([c["claim"], "holds" if c["holds"] else "**does not hold**", c["seen"]] for c in found["claims"]),
        ),
    }


def _run(found: dict[str, Any]) -> str:
    machine, sizes = found["machine"], found["sizes"]
    kind = "A quick run" if found["quick"] else "A full run"
    return (
        f"{kind}: {machine['cores']} cores, {round(machine['memory_mb'] / 1024)} GB, Python {machine['python']}, Spark "
        f"{machine['pyspark']}, load average {machine['load_average_at_start'][0]} at the start. Two streams of "
        f"{sizes['rows']:,} rows and {sizes['keys']:,} keys; three and four streams of {sizes['chain_rows']:,} rows."
    )


def _service_times(curves: list[Curve]) -> str:
    streams = sorted({curve.streams for curve in curves})
    by = {(curve.join, curve.streams): curve for curve in curves}
    heads = ["µs per tuple", *(f"{n} streams" for n in streams), *(f"worst block, {n}" for n in streams)]
    names = [join.name for join in JOINS]
    rows = [
        [
            name,
            *(f"{by[name, n].mean:.2f}" for n in streams),
            *(f"{max(by[name, n].micros):.2f}" for n in streams),
        ]
        for name in names
    ]
    return table(heads, rows, right=True)


def _cells(figure: dict[str, Any]) -> list[str]:
    unit = figure["unit"]
    peer, ratio = figure.get("peer"), figure.get("ratio")
    return [
        f"{_number(figure['value'])} {unit}",
        "" if peer is None else f"{_number(peer)} {unit}",
        "" if ratio is None else f"{ratio:.2f}×",
    ]


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.2f} M"
    return f"{value:,.0f}" if value >= 20 else f"{value:.3g}"


def main(arguments: list[str] | None = None) -> int:
    return write_page("window_join", write, arguments)


if __name__ == "__main__":
    sys.exit(main())

"""The page of the paper, `docs/papers/steam.md`: its tables and pictures, made anew from a run.

`python -m benchmarks window_join --page docs/papers/steam.md` measures and writes them. `python -m
benchmarks.window_join.page RUN.json PAGE` writes them from the JSON object of an earlier run. Tables stand between
markers, pictures in the folder of the page's name; all else on the page is left as it is.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from benchmarks.pages import claims_table, figure_tables, replaced, table, write_page
from benchmarks.window_join import plots as window_join_plots
from benchmarks.window_join.figure7 import JOINS, Curve


def write(found: dict[str, Any], page: Path, kind: str = "svg") -> None:
    """Put a run's tables on the page and its pictures beside it."""
    text = page.read_text(encoding="utf-8")
    curves = [Curve(**curve) for curve in found["curves"]]
    for name, content in tables(found, curves).items():
        text = replaced(text, "window_join", name, content)
    page.write_text(text, encoding="utf-8")
    window_join_plots.draw(curves, page.with_suffix(""), kind)


def tables(found: dict[str, Any], curves: list[Curve]) -> dict[str, str]:
    """What stands between the markers, by their names."""
    return {
        "run": _run(found),
        **figure_tables(found["figures"]),
        "peers": table(["peer", "what was measured"], ([*each] for each in found["notes"].get("peers", {}).items())),
        "figure 7": _service_times(curves),
        "claims": claims_table(found["claims"]),
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


def main(arguments: list[str] | None = None) -> int:
    return write_page("window_join", write, arguments)


if __name__ == "__main__":
    sys.exit(main())

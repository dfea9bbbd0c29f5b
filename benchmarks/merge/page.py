"""The page of the paper, `docs/papers/merge.md`: its tables and pictures, made anew from a run.

`python -m benchmarks merge --page docs/papers/merge.md` measures and writes them. `python -m benchmarks.merge.page
RUN.json PAGE` writes them from the JSON object of an earlier run. Tables stand between markers, pictures in the folder
of the page's name; all else on the page is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.merge import plots as merge_plots
from benchmarks.merge.ranges import RangeCell
from benchmarks.merge.tables import Cell, Point
from benchmarks.pages import claims_table, figure_tables, replaced, table, write_page


def write(found: dict[str, Any], page: Path, kind: str = "svg") -> None:
    """Put a run's tables on the page and its pictures beside it."""
    text = page.read_text(encoding="utf-8")
    for name, content in tables(found).items():
        text = replaced(text, "merge", name, content)
    page.write_text(text, encoding="utf-8")
    figures = [[Point(**each) for each in found[name]] for name in ("figure_4", "figure_5")]
    merge_plots.draw(figures[0], figures[1], page.with_suffix(""), kind)


def tables(found: dict[str, Any]) -> dict[str, str]:
    """What stands between the markers, by their names."""
    cells = [Cell(**each) for each in found["cells"]]
    ranges = [RangeCell(**each) for each in found["range_cells"]]
    windows = sorted({cell.window for cell in cells})
    return {
        "run": _run(found),
        **figure_tables(found["figures"]),
        "peers": table(["peer", "what was measured"], _notes(found["notes"])),
        "tables 1 and 2": "\n\n".join(
            f"Table {number}, windows of {window:,} records:\n\n{_table(c for c in cells if c.window == window)}"
            for number, window in enumerate(windows, 1)
        ),
        "tables 3 and 4": "\n\n".join(
            f"Table {number}, windows of {window:,} records:\n\n{_ranges(c for c in ranges if c.window == window)}"
            for number, window in enumerate(windows, 3)
        ),
        "figure 4": _curve("out of order", [(f"{p['share']:.0%}", Point(**p)) for p in found["figure_4"]]),
        "figure 5": _curve("K", [(f"{p['step']:,}", Point(**p)) for p in found["figure_5"]]),
        "claims": claims_table(found["claims"]),
    }


def _run(found: dict[str, Any]) -> str:
    machine, sizes = found["machine"], found["sizes"]
    kind = "A quick run" if found["quick"] else "A full run"
    return (
        f"{kind}: {machine['cores']} cores, {round(machine['memory_mb'] / 1024)} GB, Python {machine['python']}, Spark "
        f"{machine['pyspark']}, load average {machine['load_average_at_start'][0]} at the start. "
        f"{sizes['rows']:,} records per stream in Tables 1 and 2, {sizes['range_rows']:,} in Tables 3 and 4."
    )


def _notes(notes: dict[str, Any]) -> Iterable[list[str]]:
    yield from ([name, what] for name, what in notes.get("peers", {}).items())
    yield from ([f"range queries, {name}", what] for name, what in notes.get("range_indexes", {}).items())
    if "line" in notes:
        yield ["the line", notes["line"]]
    parts = notes.get("merge_milliseconds_on_one_core", {})
    if parts:
        yield ["the merge on one core", ", ".join(f"{part} {spent:g} ms" for part, spent in parts.items())]


def _table(cells: Iterable[Cell]) -> str:
    heads = [
        "K", "out of order", "match %", "the paper", "record by record",
        "fetch ms", "merge ms", "total ms", "the paper's fetch, merge, total s",
    ]  # fmt: skip
    rows = []
    for cell in cells:
        match, *seconds = cell.paper
        rows.append(
            [
                f"{cell.step:,}",
                f"{cell.share:.0%}",
                f"{cell.match:.1f}",
                f"{match:.0f}",
                f"{cell.match_of_records:.1f}",
                *(f"{1000 * each:.0f}" for each in (cell.fetch, cell.merge, cell.total)),
                ", ".join(f"{each:.3g}" for each in seconds),
            ]
        )
    return table(heads, rows, right=True)


def _ranges(cells: Iterable[RangeCell]) -> str:
    heads = [
        "out of order", "match %, difference", "the paper", "match %, rest", "questions per block, difference", "rest",
        "total ms, difference", "rest", "the paper's total s",
    ]  # fmt: skip
    rows = (
        [
            f"{cell.share:.0%}",
            f"{cell.difference:.1f}",
            f"{cell.paper[0]:.0f}",
            f"{cell.rest:.1f}",
            f"{cell.difference_questions:.1f}",
            f"{cell.rest_questions:.1f}",
            f"{1000 * cell.difference_seconds:.0f}",
            f"{1000 * cell.rest_seconds:.0f}",
            f"{cell.paper[1]:g}",
        ]
        for cell in cells
    )
    return table(heads, rows, right=True)


def _curve(name: str, points: list[tuple[str, Point]]) -> str:
    heads = [name, *(at for at, _ in points)]
    match = ["match %", *(f"{point.match:.0f}" for _, point in points)]
    taken = ["merge ms", *(f"{1000 * point.seconds:.0f}" for _, point in points)]
    return table(heads, [match, taken], right=True)


def main(arguments: list[str] | None = None) -> int:
    return write_page("merge", write, arguments)


if __name__ == "__main__":
    sys.exit(main())

"""The page of the paper, `docs/papers/windows.md`: its tables and pictures, made anew from a run.

`python -m benchmarks windows --page docs/papers/windows.md` measures and writes them. `python -m
benchmarks.windows.page RUN.json PAGE` writes them from the JSON object of an earlier run. Tables stand between markers,
pictures in the folder of the page's name; all else on the page is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.pages import replaced, table, write_page
from benchmarks.windows import plots as windows_plots
from benchmarks.windows.cells import Cell, Effort
from benchmarks.windows.figures import (
    GROUPED,
    GROWING,
    INDICES,
    LARGE,
    PAIRS,
    RINGED,
    RINGS,
    SCRATCH,
    STORAGES,
    Cells,
    FigureSizes,
)  # fmt: skip
from benchmarks.windows.subjects import Setting, Structure


def write(found: dict[str, Any], page: Path, kind: str = "svg") -> None:
    """Put a run's tables on the page and its pictures beside it."""
    cells = cells_of(found)
    text = page.read_text(encoding="utf-8")
    for name, content in tables(found, cells).items():
        text = replaced(text, "windows", name, content)
    page.write_text(text, encoding="utf-8")
    windows_plots.draw(cells, page.with_suffix(""), kind)


def cells_of(found: dict[str, Any]) -> Cells:
    sizes = dict(found["sizes"]["figures"])
    effort = Effort(**sizes.pop("effort"))
    lists: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in sizes.items()}
    return Cells.from_dicts(FigureSizes(effort=effort, **lists), found["cells"])


def tables(found: dict[str, Any], cells: Cells) -> dict[str, str]:
    """What stands between the markers, by their name."""
    uniform = cells.settings()
    return {
        "run": _run(found, cells),
        "bars": _figures(found, barred=True),
        "beside the bars": _figures(found, barred=False),
        "orderings": _orderings(found),
        "figure 7": _rows(
            cells, uniform, [*(Structure(s, i) for s in STORAGES for i in INDICES), *GROWING], _maintenance
        ),
        "figure 7 power": _by_power(cells),
        "figure 8b": _rows(cells, uniform, [*GROUPED, SCRATCH[0], Structure("LIST", "T")], _maintenance),
        "figure 9": _rows(
            cells,
            uniform,
            [*(Structure(s, i) for s in STORAGES for i in ("L", "T", "H")), *GROWING[2:], *SCRATCH],
            _total,
        ),
        "figure 10": _rows(cells, uniform, PAIRS, _total),
        "figure 11a": _rows(cells, uniform, [Structure("LIST", "T", r) for r in RINGS], _deletion),
        "figure 11bc": _rows(cells, uniform, RINGED, _with_query),
        "large": _rows(cells, cells.settings(large=True), LARGE, _maintenance),
    }


def _run(found: dict[str, Any], cells: Cells) -> str:
    here, effort = found["machine"], cells.sizes.effort
    size = "A run with `--quick`" if found["quick"] else "A run of full size"
    return (
        f"{size}: {here['cores']} cores, {here['memory_mb'] / 1024:.0f} GB, Python {here['python']}, "
        f"load average {here['load_average_at_start'][0]} at the start. Windows of {cells.sizes.window:,} and "
        f"{cells.sizes.large_window:,} tuples; up to {effort.rounds} roll-over{'s' * (effort.rounds > 1)} of each "
        f"structure timed, for about {effort.seconds:g} s at most."
    )


def _figures(found: dict[str, Any], *, barred: bool) -> str:
    rows = []
    for name, figure in found["figures"].items():
        if ("bar" in figure) != barred:
            continue
        unit = figure["unit"]
        verdict = {True: "met", False: "missed", None: ""}[figure.get("met")]
        peer, ratio = figure.get("peer"), figure.get("ratio")
        row = [f"`{name}`", f"{_number(figure['value'])} {unit}"]
        if barred:
            row += [figure["bar"], verdict]
        else:
            row += ["" if peer is None else f"{_number(peer)} {unit}", "" if ratio is None else f"{ratio:.3g}"]
        rows.append(row)
    return table(["figure", "ours", *(["bar", ""] if barred else ["peer", "ratio"])], rows)


def _orderings(found: dict[str, Any]) -> str:
    rows = [
        [o["figure"], o["claim"], "agrees" if o["agrees"] else "**differs**", o["seen"]] for o in found["orderings"]
    ]
    return table(["figure", "the paper", "ours", "seen"], rows)


def _rows(cells: Cells, settings: list[Setting], structures: Iterable[Structure], text: Callable[[Cell], str]) -> str:
    """A row for each structure, a column for each setting."""
    heads = [f"{s.basic_windows} / {s.distinct:,}" for s in settings]
    rows = [[str(structure), *(text(cells.at(structure, s)) for s in settings)] for structure in structures]
    return table(["basic windows / values", *heads], rows, right=True)


def _by_power(cells: Cells) -> str:
    if "power" not in cells.sizes.distributions:
        return "Not measured in this run."
    structures = [Structure("LIST", i) for i in (*INDICES, "H*")]
    structures += [Structure("AGGR", "T"), Structure("HASH", "T"), Structure("HASH", "H")]
    return _rows(cells, cells.settings("power"), structures, _maintenance)


def _maintenance(cell: Cell) -> str:
    return f"{_number(cell.maintenance)}{'*' if cell.partial else ''}"


def _total(cell: Cell) -> str:
    return f"{_number(cell.total)}{'*' if cell.partial else ''}"


def _deletion(cell: Cell) -> str:
    assert cell.deletion is not None
    assert cell.deletion_steps is not None
    return f"{_number(cell.deletion)} ({_number(cell.deletion_steps)})"


def _with_query(cell: Cell) -> str:
    return f"{_maintenance(cell)} → {_number(cell.total)}"


def _number(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:,.1f} M"
    return f"{value:,.0f}" if value >= 20 else f"{value:.3g}"


def main(arguments: list[str] | None = None) -> int:
    return write_page("windows", write, arguments)


if __name__ == "__main__":
    sys.exit(main())

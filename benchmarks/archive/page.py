"""Tables and pictures of a run of `python -m benchmarks archive`, put on docs/papers/oscar.md.

`--page FILE` does it at the end of a run; `python -m benchmarks.archive.page run.json docs/papers/oscar.md` does it
from what `--json` wrote, without measuring.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.archive import plots as archive_plots
from benchmarks.archive.coverage import Covered
from benchmarks.archive.data import HYBRIDS, LAZY, VACUUMED
from benchmarks.archive.inserts import Insert
from benchmarks.archive.overload import Course
from benchmarks.archive.paper import INSERT_SECONDS, INSERT_SECONDS_WITH_QUERIES, QUERIES_COMPLETED
from benchmarks.archive.reads import FIRST, Read
from benchmarks.archive.together import Cell
from benchmarks.pages import claims_table, figure_tables, replaced, table, write_page

SHOWN = ("plain", "on_write_replicate", FIRST, LAZY, VACUUMED, *HYBRIDS)


def write(found: dict[str, Any], page: Path, kind: str = "svg") -> None:
    """Put a run's tables on the page and its pictures beside it."""
    text = page.read_text(encoding="utf-8")
    for name, content in tables(found).items():
        text = replaced(text, "archive", name, content)
    page.write_text(text, encoding="utf-8")
    parts = _parts(found)
    archive_plots.draw(*parts, page.with_suffix(""), kind)


def _parts(found: dict[str, Any]) -> tuple[list[Insert], list[Read], list[Cell], list[Course]]:
    return (
        [Insert(**each) for each in found["inserts"]],
        [Read(**each) for each in found["reads"]],
        [Cell(**each) for each in found["cells"]],
        [Course(**each) for each in found["overload"]],
    )


def tables(found: dict[str, Any]) -> dict[str, str]:
    """What stands between the markers, by their names."""
    inserts, reads, cells, overload = _parts(found)
    coverage = [Covered(**each) for each in found["coverage"]]
    return {
        "run": _run(found),
        **figure_tables(found["figures"]),
        "notes": table(["", "what was measured"], _notes(found["notes"])),
        "inserts": _inserts(inserts),
        "bytes": _reads(reads, lambda read: f"{read.share:.3f} ({read.formula:.2f})"),
        "query times": _reads(reads, _times),
        "inserts with queries": "\n\n".join(
            f"{reduction:.0%} reduction, seconds to insert, and queries completed:\n\n{_cells(cells, reduction)}"
            for reduction in sorted({cell.reduction for cell in cells})
        ),
        "coverage": _coverage(coverage),
        "overload": _overload(overload),
        "claims": claims_table(found["claims"]),
    }


def _run(found: dict[str, Any]) -> str:
    machine, sizes = found["machine"], found["sizes"]
    kind = "A quick run" if found["quick"] else "A full run"
    return (
        f"{kind}: {machine['cores']} cores, {round(machine['memory_mb'] / 1024)} GB, Python {machine['python']}, Spark "
        f"{machine['pyspark']}, load average {machine['load_average_at_start'][0]} at the start. "
        f"{sizes['rows']:,} tuples in Figures 9 to 12, {sizes['together_rows']:,} in Figures 13 to 18, runs of "
        f"{sizes['run_rows']:,} rows; {sizes['trials']:,} trials of each kind."
    )


def _notes(notes: dict[str, Any]) -> Iterable[list[str]]:
    for name, what in notes.items():
        if isinstance(what, dict):
            yield [name.replace("_", " "), "; ".join(f"{key.replace('_', ' ')} {_value(v)}" for key, v in what.items())]
        else:
            yield [name.replace("_", " "), _value(what)]


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _inserts(inserts: Sequence[Insert]) -> str:
    plain = next(each for each in inserts if each.variant == "plain")
    heads = [
        "layout", "in the paper", "seconds", "× plain", "Table 1", "rows written", "MB written", "× plain",
        "files", "Figure 9, s",
    ]  # fmt: skip
    rows = (
        [
            f"`{each.variant}`",
            each.legend,
            f"{each.seconds:.2f}",
            f"{each.seconds / plain.seconds:.2f}",
            f"{each.formula:.0f} B",
            f"{each.rows_written / plain.rows_written:.2f} ×",
            f"{each.bytes_written / 1e6:,.0f}",
            f"{each.bytes_written / plain.bytes_written:.2f}",
            f"{each.files_written}",
            f"{each.paper_seconds:.0f}",
        ]
        for each in inserts
    )
    return table(heads, rows, right=True)


def _reads(reads: Sequence[Read], cell: Any) -> str:
    reductions = sorted({each.reduction for each in reads})
    by = {(each.variant, each.reduction): each for each in reads}
    heads = ["layout", *(f"{each:.0%}" for each in reductions)]
    rows = (
        [f"`{name}`", *(cell(by[name, each]) if (name, each) in by else "" for each in reductions)] for name in SHOWN
    )
    return table(heads, rows, right=True)


def _times(read: Read) -> str:
    return "" if read.seconds is None else f"{1000 * read.seconds:.0f} ({read.paper_seconds:.1f})"


def _cells(cells: Sequence[Cell], reduction: float) -> str:
    chosen = [cell for cell in cells if cell.reduction == reduction]
    counts = sorted({cell.queries for cell in chosen})
    by = {(cell.variant, cell.queries): cell for cell in chosen}
    rows = [
        [f"`{name}`", *(f"{by[name, n].seconds:.2f} s, {by[name, n].completed}" for n in counts)]
        for name in dict.fromkeys(cell.variant for cell in chosen)
    ]
    if reduction == 0.25:
        rows.append(["the paper's strawman", *(_paper_cell(n) for n in counts)])
    return table(["queries at a time", *(str(n) for n in counts)], rows, right=True)


def _paper_cell(queries: int) -> str:
    if queries == 0:
        return f"{INSERT_SECONDS:.0f} s"
    seconds = f"about {INSERT_SECONDS_WITH_QUERIES:.0f} s, " if queries >= 3 else ""
    return f"{seconds}{QUERIES_COMPLETED[queries]}" if queries in QUERIES_COMPLETED else ""


def _coverage(coverage: Sequence[Covered]) -> str:
    rows = (
        [
            each.kind,
            f"{each.fraction:.0%}",
            *(f"{share:.1%}" for share in (each.count, each.sum, each.avg)),
            f"{each.withheld:.1%}",
        ]
        for each in coverage
    )
    return table(["rows", "read", "count", "sum", "avg", "withheld"], rows, right=True)


def _overload(courses: Sequence[Course]) -> str:
    rows = (
        [
            f"`{course.reducer}`" if course.reducer else "none",
            f"{course.arrival:,.0f}",
            f"{course.seconds[-1]:.0f}",
            f"{sorted(course.lags)[len(course.lags) // 2]:.1f}",
            f"{course.longest:.1f}",
            f"{course.lags[-1]:.1f}",
            f"{course.held} of {course.answers}",
        ]
        for course in courses
    )
    heads = [
        "reducer",
        "live rows/s",
        "seconds",
        "lag in the middle, s",
        "longest, s",
        "at the end, s",
        "answers that hold",
    ]
    return table(heads, rows, right=True)


def main(arguments: list[str] | None = None) -> int:
    return write_page("archive", write, arguments)


if __name__ == "__main__":
    sys.exit(main())

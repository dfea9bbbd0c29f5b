"""What the pages of benchmarks share: tables, their places on a page, and the command that writes a page from a run."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def table(heads: list[str], rows: Iterable[list[str]], *, right: bool = False) -> str:
    lines = [heads, ["---", *("--:" if right else "---" for _ in heads[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replaced(text: str, benchmark: str, name: str, content: str) -> str:
    """The page with what stands between the markers of this name exchanged.

    >>> page = "a\\n<!-- t: begin, made by `python -m benchmarks windows` -->\\nold\\n<!-- t: end -->\\nb\\n"
    >>> print(replaced(page, "windows", "t", "new"), end="")
    a
    <!-- t: begin, made by `python -m benchmarks windows` -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- t: end -->
    b
    """
    begin, end = f"<!-- {name}: begin, made by `python -m benchmarks {benchmark}` -->", f"<!-- {name}: end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page has no place for {name!r}: {begin} … {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{content}\n\n{end}", text)


def figure_tables(figures: dict[str, Any]) -> dict[str, str]:
    """Figures with a bar, and those beside them."""
    bars = {name: figure for name, figure in figures.items() if "bar" in figure}
    return {
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
    }


def claims_table(claims: Iterable[dict[str, Any]]) -> str:
    """What a paper says, whether it holds here, and what was seen."""
    rows = ([c["claim"], "holds" if c["holds"] else "**does not hold**", c["seen"]] for c in claims)
    return table(["the paper", "here", "seen"], rows)


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


def write_page(name: str, write: Callable[[dict[str, Any], Path, str], None], arguments: list[str] | None) -> int:
    """Write the page of the benchmark `name`, as the command line says."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}_page", description="The page of a run.")
    parser.add_argument("run", type=Path, help=f"the JSON object of `python -m benchmarks {name} --json`")
    parser.add_argument("page", type=Path)
    parser.add_argument("--kind", choices=["svg", "png"], default="svg", help="of pictures")
    given = parser.parse_args(arguments)
    write(json.loads(given.run.read_text()), given.page, given.kind)
    return 0

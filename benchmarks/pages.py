"""What the pages of benchmarks share: tables, and the command that writes a page from the JSON of a run."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def table(heads: list[str], rows: Iterable[list[str]], *, right: bool = False) -> str:
    lines = [heads, ["---", *("--:" if right else "---" for _ in heads[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(name: str, write: Callable[[dict[str, Any], Path, str], None], arguments: list[str] | None) -> int:
    """Write the page of the benchmark `name`, as the command line says."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}_page", description="The page of a run.")
    parser.add_argument("run", type=Path, help=f"the JSON object of `python -m benchmarks {name} --json`")
    parser.add_argument("page", type=Path)
    parser.add_argument("--kind", choices=["svg", "png"], default="svg", help="of pictures")
    given = parser.parse_args(arguments)
    write(json.loads(given.run.read_text()), given.page, given.kind)
    return 0

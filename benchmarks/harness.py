"""What all benchmarks share: figures with their bars, the answer check, the report, the machine."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any, Literal

import psutil
from rich.console import Console
from rich.table import Table


class WrongAnswer(Exception):
    """A benchmark's answer is not the expected one: there is nothing to measure."""


def check(holds: bool, what: str) -> None:
    """Stop the benchmark unless its answer is right."""
    if not holds:
        raise WrongAnswer(what)


def say(text: str) -> None:
    """A line of progress; stdout is kept for the report."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Bar:
    """What a figure must reach; with a peer it is the ratio to the peer's figure that counts."""

    limit: float
    kind: Literal["at least", "at most"]

    def met(self, value: float) -> bool:
        return value >= self.limit if self.kind == "at least" else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.kind == 'at least' else '≤'} {self.limit:g}"


@dataclass(frozen=True)
class Figure:
    """One measured figure, beside the peer's if it has one."""

    name: str
    value: float
    unit: str
    peer: float | None = None
    bar: Bar | None = None

    @property
    def ratio(self) -> float | None:
        return self.value / self.peer if self.peer else None

    @property
    def met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.bar.met(self.value if self.ratio is None else self.ratio)

    def as_dict(self) -> dict[str, Any]:
        found = {
            "value": _short(self.value),
            "unit": self.unit,
            "peer": _short(self.peer),
            "ratio": _short(self.ratio),
            "bar": str(self.bar) if self.bar else None,
            "met": self.met,
        }
        return {key: value for key, value in found.items() if value is not None}


@dataclass
class Report:
    """All figures of a run. `peer` names what the figures are compared with."""

    peer: str
    sizes: Any
    figures: list[Figure] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    """Breakdowns that have neither a peer nor a bar."""

    def add(self, name: str, value: float, unit: str, *, peer: float | None = None, bar: Bar | None = None) -> None:
        self.figures.append(Figure(name, value, unit, peer, bar))

    def as_dict(self, name: str, quick: bool, machine: dict[str, Any]) -> dict[str, Any]:
        judged = [f.met for f in self.figures if f.met is not None]
        return {
            "benchmark": name,
            "quick": quick,
            "answer": "checked",
            "peer": self.peer,
            "sizes": asdict(self.sizes),
            "figures": {f.name: f.as_dict() for f in self.figures},
            "notes": self.notes,
            "bars_met": sum(judged),
            "bars": len(judged),
            "machine": machine,
        }

    def show(self, name: str, machine: dict[str, Any], console: Console) -> None:
        load = machine["load_average_at_start"][0]
        title = f"{name}: {machine['cores']} cores, load {load:.1f} at the start, peer: {self.peer}"
        table = Table("figure", title=title, title_justify="left")
        for heading in ("ours", "peer", "ratio", "bar", ""):
            table.add_column(heading, justify="right")
        for figure in self.figures:
            verdict = {None: "", True: "[green]met[/]", False: "[red]missed[/]"}[figure.met]
            table.add_row(
                figure.name.replace("_", " "),
                f"{figure.value:,.{_digits(figure.value)}f} {figure.unit}",
                "" if figure.peer is None else f"{figure.peer:,.{_digits(figure.peer)}f} {figure.unit}",
                "" if figure.ratio is None else f"{figure.ratio:.2f}×",
                str(figure.bar or ""),
                verdict,
            )
        console.print(table)
        for heading, note in self.notes.items():
            rows = note.items() if isinstance(note, dict) else [("", note)]
            inner = Table.grid(padding=(0, 2))
            for key, value in rows:
                inner.add_row(f"  {key}", str(value))
            console.print(f"[bold]{heading.replace('_', ' ')}[/]", inner)


def machine() -> dict[str, Any]:
    """Where the figures come from; call it before the work begins, for the load is measured too."""
    return {
        "cores": os.cpu_count(),
        "memory_mb": psutil.virtual_memory().total // 2**20,
        "system": platform.system(),
        "python": platform.python_version(),
        "pyspark": metadata.version("pyspark"),
        "pyarrow": metadata.version("pyarrow"),
        "load_average_at_start": [round(load, 2) for load in os.getloadavg()],
    }


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def percentile(values: Iterable[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed.

    >>> percentile([4, 1, 3, 2], 0.5), percentile([4, 1, 3, 2], 0.99)
    (2.0, 4.0)
    """
    ordered = sorted(values)
    rank = -int(-share * len(ordered) // 1)
    return float(ordered[max(rank, 1) - 1])


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def _digits(value: float) -> int:
    return 0 if value >= 1000 else 1 if value >= 10 else 3

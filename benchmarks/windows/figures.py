"""Figures 7 to 11 of the paper: which structures each compares, in which settings.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from benchmarks.harness import say
from benchmarks.windows.cells import Cell, Effort, measure
from benchmarks.windows.subjects import NO_INDEX, Setting, Structure

STORAGES = ("LIST", "AGGR", "HASH")
INDICES = ("L", "T", "H", "UH")
RINGS = ("plain", "AUX", "BW", "DB")
GROUPS = ("G10", "G50")

MAINTAINED = [Structure(storage, index) for storage in STORAGES for index in INDICES]
"""Figures 7, 8 (a) and 9."""
GROWING = [Structure("LIST", "H*"), Structure("LIST", "UH*"), Structure("HASH*", "T"), Structure("HASH*", "H*")]
"""Beside them, with tables that grow."""
SCRATCH = [Structure("LIST", NO_INDEX), Structure("AGGR", NO_INDEX)]
"""Figures 8 (b) and 9: nothing is kept but the basic windows."""
GROUPED = [Structure("GROUP", index) for index in GROUPS]
"""Figure 8 (b)."""
PAIRS = [
    *(Structure("GROUP", index, pair=True) for index in GROUPS),
    *(Structure(storage, index, pair=True) for index in ("T", "H") for storage in ("LIST", "HASH")),
    Structure("LIST", "H*", pair=True),
]
"""Figure 10."""
RINGED = [Structure("LIST", index, ring) for index in ("L", "T") for ring in RINGS]
"""Figure 11."""
LARGE = [
    *(Structure(storage, index) for index in ("T", "H*") for storage in ("LIST", "HASH*")),
    Structure("LIST", "H"),
    *GROUPED,
    Structure("LIST", "T", "DB"),
]
"""What can keep ten million tuples."""


@dataclass(frozen=True)
class FigureSizes:
    """The settings of the paper, and how long they may take."""

    window: int
    large_window: int
    basic_windows: tuple[int, ...]
    distinct: tuple[int, ...]
    effort: Effort
    distributions: tuple[str, ...] = ("uniform", "power")


class Cells:
    """What was measured, by structure and setting."""

    def __init__(self, sizes: FigureSizes, cells: Iterable[Cell]) -> None:
        self.sizes = sizes
        self._cells = {(cell.structure, cell.setting): cell for cell in cells}

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def settings(self, distribution: str = "uniform", *, large: bool = False) -> list[Setting]:
        """In the order of the paper's bars: all numbers of basic windows with few values, then with many."""
        window = self.sizes.large_window if large else self.sizes.window
        return [Setting(window, b, d, distribution) for d in self.sizes.distinct for b in self.sizes.basic_windows]

    def at(self, structure: Structure, setting: Setting) -> Cell:
        return self._cells[structure, setting]

    def maintenance(self, structure: Structure, settings: Iterable[Setting]) -> list[float]:
        return [self.at(structure, setting).maintenance for setting in settings]

    def total(self, structure: Structure, settings: Iterable[Setting]) -> list[float]:
        return [self.at(structure, setting).total for setting in settings]

    def fastest_pair(self, index: str, setting: Setting) -> float:
        """The intersection under an index with the storage that suits it best, as in Figure 10."""
        found = [s for s in PAIRS if s.index == index]
        return min(self.total(structure, [setting])[0] for structure in found)

    def as_dicts(self) -> list[dict[str, object]]:
        return [_flat(cell) for cell in self]

    @staticmethod
    def from_dicts(sizes: FigureSizes, rows: list[dict[str, object]]) -> Cells:
        return Cells(sizes, (_cell(row) for row in rows))


def run(sizes: FigureSizes) -> Cells:
    """Measure every cell of every figure."""
    cells: list[Cell] = []
    empty = Cells(sizes, [])
    for distribution in sizes.distributions:
        for structure in [*MAINTAINED, *GROWING, *SCRATCH, *GROUPED, *PAIRS, *RINGED]:
            asks = structure not in GROUPED and not structure.index.startswith("UH")
            for setting in empty.settings(distribution):
                cells.append(measure(structure, setting, sizes.effort, asks=asks))
            _tell(structure, cells, len(sizes.basic_windows) * len(sizes.distinct))
    for structure in LARGE:
        for setting in empty.settings(large=True):
            cells.append(measure(structure, setting, sizes.effort, asks=structure not in GROUPED))
        _tell(structure, cells, len(sizes.basic_windows) * len(sizes.distinct))
    return Cells(sizes, cells)


def _tell(structure: Structure, cells: list[Cell], count: int) -> None:
    setting = cells[-1].setting
    costs = ", ".join(f"{cell.maintenance:,.0f}" for cell in cells[-count:])
    name = f"{structure}{', two windows' if structure.pair else ''}"
    say(f"{setting.window:,} tuples, {setting.distribution}: {name}: {costs} ns per tuple")


def _flat(cell: Cell) -> dict[str, object]:
    parts = (cell.structure, cell.setting, cell)
    found = {f.name: getattr(part, f.name) for part in parts for f in fields(part)}
    del found["structure"], found["setting"]
    kept = {name: value for name, value in found.items() if value is not None and value is not False}
    return {name: float(f"{value:.4g}") if isinstance(value, float) else value for name, value in kept.items()}


def _cell(row: dict[str, object]) -> Cell:
    own = {f.name for f in fields(Cell)}
    structure, setting = (
        kind(**{f.name: row[f.name] for f in fields(kind) if f.name in row})  # type: ignore[arg-type]
        for kind in (Structure, Setting)
    )
    return Cell(structure, setting, **{name: row[name] for name in row if name in own})  # type: ignore[arg-type]

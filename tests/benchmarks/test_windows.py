"""The windows benchmark without Spark: what it measures, how it judges, and the page it writes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.windows import SlidingWindow
from anabranch.windows.index.hash_table import HashIndex
from anabranch.windows.ring.backward import DirtyBitRing
from benchmarks import __main__ as command
from benchmarks.harness import Bar, Figure, Report, WrongAnswer
from benchmarks.windows import bars as windows_bars
from benchmarks.windows import figures as windows_figures
from benchmarks.windows import page as windows_page
from benchmarks.windows import subjects as windows_subjects
from benchmarks.windows.cells import Cell, Effort, Values, measure
from benchmarks.windows.figures import GROUPED, GROWING, LARGE, MAINTAINED, PAIRS, RINGED, SCRATCH, Cells
from benchmarks.windows.orderings import orderings, repetitions
from benchmarks.windows.plots import panels
from benchmarks.windows.subjects import Setting, Structure, counted, merged
from benchmarks.windows.suite import FULL, Sizes, WindowsReport

from .tiny_windows import BARS, FIGURES_SIZES, SPARK

PAGE = Path(__file__).parents[2] / "docs" / "papers" / "windows.md"
SETTING = Setting(1000, 10, 50)
ONCE = Effort(rounds=1, seconds=0)
# The cells are measured once, in one process.
pytestmark = pytest.mark.xdist_group("windows")


@pytest.fixture(scope="module")
def cells() -> Cells:
    return windows_figures.run(FIGURES_SIZES)


def test_full_size_has_the_settings_of_the_paper() -> None:
    sizes = FULL.figures
    assert (sizes.window, sizes.basic_windows, sizes.distinct) == (100_000, (50, 100, 500), (1000, 10_000))
    assert sizes.distributions == ("uniform", "power")
    assert (sizes.large_window, sizes.effort.rounds) == (10_000_000, 10)


def test_hash_tables_are_those_of_the_paper_unless_they_grow() -> None:
    fixed, growing = (windows_subjects.index_of(Structure("LIST", name), SETTING) for name in ("H", "H*"))
    assert isinstance(fixed, HashIndex)
    assert isinstance(growing, HashIndex)
    before = len(growing._bucket)
    for index in (fixed, growing):
        index.locate(np.arange(10_000))
    assert len(fixed._bucket) == 100
    assert len(growing._bucket) > before
    entries = windows_subjects.storage_of(Structure("HASH", "T"), SETTING).build(np.array([7, 5, 12, 2, 5]))
    assert entries.codes.tolist() == [5, 2, 7, 12]


@pytest.mark.slow
def test_every_cell_of_every_figure_is_measured(cells: Cells) -> None:
    small = len(MAINTAINED + GROWING + SCRATCH + GROUPED + PAIRS + RINGED) * 4 * 2
    assert len(list(cells)) == small + len(LARGE) * 4
    assert all(cell.maintenance > 0 for cell in cells)
    assert {cell.partial for cell in cells} == {True}, "no time was allowed, so each stops after a fifth"


def test_links_followed_do_not_depend_on_the_machine(cells: Cells) -> None:
    judged = {o.claim: o for o in orderings(cells)}
    assert judged["deletion: DB ≤ BW ≤ AUX ≤ plain, in links followed"].agrees
    assert judged["rings differ more with fewer distinct values"].agrees


def test_a_cell_stops_when_its_time_is_up_and_says_what_it_measured() -> None:
    structure = Structure("LIST", "T")
    assert measure(structure, SETTING, ONCE).measured == 200
    assert measure(structure, SETTING, Effort(rounds=3, seconds=60)).measured == 3000


@pytest.mark.parametrize("structure", [Structure("LIST", "T"), Structure("LIST", "T", "DB"), SCRATCH[1], PAIRS[2]])
def test_a_structure_with_a_wrong_answer_is_not_measured(structure: Structure, monkeypatch: pytest.MonkeyPatch) -> None:
    measure(structure, SETTING, ONCE)
    kind = type(windows_subjects.make_subject(structure, SETTING))
    right = kind.append
    monkeypatch.setattr(kind, "append", lambda self, *piece: right(self, *_one_value_changed(piece)))
    with pytest.raises(WrongAnswer):
        measure(structure, SETTING, ONCE)


def _one_value_changed(piece: tuple[Any, ...]) -> tuple[Any, ...]:
    """In both windows, where there are two: else their intersection would stay the same."""
    return tuple(np.append(1000, part[1:]) if isinstance(part, np.ndarray) else part for part in piece)


def test_a_ring_that_gives_tuples_out_of_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order = DirtyBitRing.in_order
    monkeypatch.setattr(DirtyBitRing, "in_order", lambda self, group=0: np.roll(in_order(self, group), 1))
    with pytest.raises(WrongAnswer):
        measure(Structure("LIST", "T", "DB"), SETTING, ONCE)


def test_values_follow_their_distribution() -> None:
    uniform = np.bincount(Values(Setting(0, 1, 100)).take(200_000), minlength=100)
    assert uniform.min() > 1600
    assert uniform.max() < 2400
    power = np.bincount(Values(Setting(0, 1, 100, "power")).take(200_000), minlength=100)
    assert power[0] / power[9] == pytest.approx(10, rel=0.1)
    assert power[0] / power[99] == pytest.approx(100, rel=0.3)


def test_histograms_from_scratch_are_those_of_numpy() -> None:
    values = np.random.default_rng(3).integers(0, 40, 500)
    wanted = [each.tolist() for each in np.unique(values, return_counts=True)]
    assert [each.tolist() for each in counted(values)] == wanted
    lists = [np.unique(part, return_counts=True) for part in np.split(values, 5)]
    found = merged(np.concatenate([v for v, _ in lists]), np.concatenate([c for _, c in lists]))
    assert [each.tolist() for each in found] == wanted


# -- bars ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_bars_without_spark() -> None:
    report = Report("NumPy", BARS)
    windows_bars.default_index(BARS, report)
    windows_bars.histogram(BARS, report)
    windows_bars.cost_flatness(BARS, report)
    found = {figure.name: figure for figure in report.figures}
    slowest = min(found[f"default_index_{size}_tuples_per_second"].value for size in BARS.windows)
    assert found["default_index_tuples_per_second"].value == slowest
    assert found["histogram_speedup"].value == pytest.approx(1 / (found["histogram_slide"].ratio or 0))
    assert str(found["cost_flatness"].bar) == "≤ 1.5"


def test_a_wrong_histogram_has_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    append = SlidingWindow.append
    monkeypatch.setattr(SlidingWindow, "append", lambda self, values: append(self, np.append(values[1:], 0)))
    with pytest.raises(WrongAnswer):
        windows_bars.default_index(BARS, Report("NumPy", BARS))
    with pytest.raises(WrongAnswer):
        windows_bars.histogram(BARS, Report("NumPy", BARS))


# -- orderings ------------------------------------------------------------------------------------------

WINDOW = 100_000


def as_in_the_paper(structure: Structure, setting: Setting) -> Cell:
    """Costs made up so that everything the paper says is true of them."""
    b, d, power = setting.basic_windows, setting.distinct, setting.distribution == "power"
    in_basic = setting.basic_window / repetitions(setting)
    entries = 1.0 if structure.storage.startswith("LIST") else 1 / repetitions(setting)
    tree = 30 * log2(d)
    index = {"L": 3.0 * d + 5000, "T": tree, "H": (3 if power else 1.2) * tree, "none": 0.0}
    index["UH"] = index["H"] * (1.6 if d > 1000 else 1)
    build = {"AGGR": 2 * in_basic, "HASH": 5 if power else in_basic, "HASH*": 60}.get(structure.storage, 50)
    kept = build + entries * index.get(structure.index.rstrip("*"), 0)
    if structure.index.startswith("G"):
        kept = 40.0
    query = {"none": 1e6, "L": 3000.0, "H": 300.0}.get(structure.index, 0.1 * b)
    if structure.pair:
        kept = {"G": 10.0, "T": 900 - b / 20, "H": 1000 - b / 20}[structure.index[0]]
        query = 0.1 * b if structure.index.startswith("G") else 100 - b / 20
    length = WINDOW / d
    steps = {"plain": length, "AUX": length, "BW": length / 2 * (b / 500) ** 0.1, "DB": 1.0, None: None}[structure.ring]
    if steps is not None:
        kept, query = kept + steps, 10.0 * b
    return Cell(structure, setting, kept, WINDOW, query, steps, steps)


def made_up(cost: Any = as_in_the_paper) -> Cells:
    everything = [*MAINTAINED, *GROWING, *SCRATCH, *GROUPED, *PAIRS, *RINGED]
    empty = Cells(FULL.figures, [])
    small = [s for kind in ("uniform", "power") for s in empty.settings(kind)]
    found = [cost(structure, setting) for structure in everything for setting in small]
    found += [cost(structure, setting) for structure in LARGE for setting in empty.settings(large=True)]
    return Cells(FULL.figures, found)


def test_costs_as_in_the_paper_agree_with_every_ordering() -> None:
    assert [(o.claim, o.seen) for o in orderings(made_up()) if not o.agrees] == []


def test_costs_the_other_way_round_agree_with_none() -> None:
    def reversed_cost(structure: Structure, setting: Setting) -> Cell:
        cell = as_in_the_paper(structure, setting)
        turned: dict[str, Any] = {
            name: None if (value := getattr(cell, name)) is None else 1e6 / max(value, 1e-3)
            for name in ("maintenance", "query", "deletion", "deletion_steps")
        }
        return replace(cell, **turned)

    similar = "T and H are similar"
    assert {o.claim for o in orderings(made_up(reversed_cost)) if o.agrees} <= {similar}


# -- the page -------------------------------------------------------------------------------------------


def report_of(cells: Cells) -> WindowsReport:
    report = WindowsReport("nobody", Sizes(FIGURES_SIZES, BARS, SPARK), cells=cells, orderings=orderings(cells))
    report.figures.append(Figure("histogram_speedup", 31, "×", bar=Bar(20, "at least")))
    report.figures.append(Figure("histogram_slide", 2, "ms", peer=62))
    return report


def finished(cells: Cells) -> dict[str, Any]:
    report = report_of(cells)
    here = {"cores": 2, "memory_mb": 2048, "python": "3.11.2", "load_average_at_start": [0.5, 0, 0]}
    found: dict[str, Any] = json.loads(json.dumps(report.as_dict("windows", True, here)))
    return found


def test_cells_survive_json(cells: Cells) -> None:
    again = windows_page.cells_of(finished(cells))
    assert again.sizes == cells.sizes
    for cell in cells:
        other = again.at(cell.structure, cell.setting)
        assert other.maintenance == pytest.approx(cell.maintenance, rel=1e-3)
        assert (other.measured, other.query is None) == (cell.measured, cell.query is None)


@pytest.mark.slow
def test_the_page_is_made_anew_and_only_between_its_markers(cells: Cells, tmp_path: Path) -> None:
    page = tmp_path / "windows.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    windows_page.write(finished(cells), page)
    text = page.read_text(encoding="utf-8")
    assert "| `histogram_speedup` | 31 × | ≥ 20 | met |" in text
    assert "| basic windows / values | 5 / 10 | 20 / 10 | 5 / 100 | 20 / 100 |" in text
    assert _outside(text) == _outside(PAGE.read_text(encoding="utf-8"))
    windows_page.write(finished(cells), page)
    assert page.read_text(encoding="utf-8") == text
    drawn = {path.stem for path in (tmp_path / "windows").glob("*.svg")}
    assert drawn == set(panels(cells)) == {path.stem for path in (PAGE.parent / "windows").glob("*.svg")}
    assert [name for name in drawn if f"(windows/{name}.svg)" not in text] == []


def _outside(text: str) -> list[str]:
    kept, inside = [], False
    for line in text.splitlines():
        inside = (inside or ": begin" in line) and ": end -->" not in line
        if not inside:
            kept.append(line)
    return kept


@pytest.mark.slow
def test_one_command_measures_and_makes_the_page(
    cells: Cells, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "windows.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    benchmark = command.BENCHMARKS["windows"]._replace(run=lambda sizes: report_of(cells))
    monkeypatch.setitem(command.BENCHMARKS, "windows", benchmark)
    assert command.main(["windows", "--quick", "--page", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "agrees" in printed
    assert json.loads(printed.splitlines()[-1])["cells"] == cells.as_dicts()
    assert "| `histogram_speedup` | 31 × | ≥ 20 | met |" in page.read_text(encoding="utf-8")
    assert (tmp_path / "windows" / "figure7.svg").exists()


def test_only_benchmarks_with_a_page_take_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["append", "--page", "nowhere.md"])
    assert "append has no page" in capsys.readouterr().err


def test_sizes_can_be_said_in_json() -> None:
    assert json.loads(json.dumps(asdict(FULL)))["figures"]["distinct"] == [1000, 10_000]

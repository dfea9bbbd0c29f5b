"""What the paper found to be faster than what, and whether it is so here.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003), §7. Each ordering is
decided by the cells alone; times that differ by less than a tenth count as equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np

from benchmarks.windows.figures import GROUPS, INDICES, MAINTAINED, RINGS, STORAGES, Cells
from benchmarks.windows.subjects import NO_INDEX, Setting, Structure

NOISE = 1.1
SAME_LINKS = 1.02
"""How far links followed per tuple may differ only because different tuples were timed."""
REPEATED = 1.2
"""Tuples per distinct value of a basic window from which on values count as repeated; without repetitions it is 1."""


@dataclass(frozen=True)
class Ordering:
    """A statement of the paper, and what our cells say to it."""

    claim: str
    figure: str
    agrees: bool
    seen: str


Verdict = tuple[bool, str]
Rule = Callable[[Cells], Verdict]


def orderings(cells: Cells) -> list[Ordering]:
    return [Ordering(claim, figure, *rule(cells)) for claim, figure, rule in RULES]


def tree_is_best(cells: Cells) -> Verdict:
    settings = cells.settings()
    means = {
        index: _mean(cells.at(Structure(storage, index), s).maintenance for storage in STORAGES for s in settings)
        for index in INDICES
    }
    return means["T"] == min(means.values()), "geometric means, ns: " + _listed(means)


def list_is_worst(cells: Cells) -> Verdict:
    settings = cells.settings()
    ratios = [
        cells.at(Structure(s.storage, "L"), each).maintenance
        / max(cells.at(Structure(s.storage, index), each).maintenance for index in ("T", "H", "UH"))
        for s in MAINTAINED
        if s.index == "L"
        for each in settings
    ]
    return min(ratios) > 1, f"L costs {_span(ratios)} times the slowest other index"


def tree_and_hash_are_similar(cells: Cells) -> Verdict:
    ratios = _hash_to_tree(cells, "uniform", cells.sizes.distinct)
    return max(*ratios, 1 / min(ratios)) <= 2, f"H costs {_span(ratios)} times T over LIST"


def tree_wins_on_power_law(cells: Cells) -> Verdict:
    most = cells.sizes.distinct[-1]
    uniform, power = (_hash_to_tree(cells, kind, (most,)) for kind in ("uniform", "power"))
    seen = f"{most:,} values over LIST: H costs {_span(uniform)} times T if uniform, {_span(power)} by power law"
    return _mean(power) > _mean(uniform) and min(power) > 1, seen


def unsorted_buckets_are_bad(cells: Cells) -> Verdict:
    few, many = (
        [
            cells.at(Structure(storage, "UH"), s).maintenance / cells.at(Structure(storage, "H"), s).maintenance
            for storage in STORAGES
            for s in cells.settings()
            if s.distinct == distinct
        ]
        for distinct in (cells.sizes.distinct[0], cells.sizes.distinct[-1])
    )
    seen = f"UH costs {_span(few)} times H with few values, {_span(many)} with many"
    return _mean(many) > NOISE and 1 / NOISE <= _mean(few) <= NOISE, seen


def list_storage_is_usually_better(cells: Cells) -> Verdict:
    wins = [
        cells.at(Structure("LIST", index), s).maintenance < cells.at(Structure("AGGR", index), s).maintenance
        for index in ("T", "H")
        for s in cells.settings()
    ]
    return sum(wins) > len(wins) / 2, f"LIST is cheaper in {sum(wins)} of {len(wins)} settings under T and H"


def counts_pay_off_with_repetitions(cells: Cells) -> Verdict:
    settings = [s for distribution in cells.sizes.distributions for s in cells.settings(distribution)]
    return _wins_of_counts(cells, settings, ("AGGR", "HASH"))


def counts_pay_off_in_large_windows(cells: Cells) -> Verdict:
    return _wins_of_counts(cells, cells.settings(large=True), ("HASH*",))


def _wins_of_counts(cells: Cells, settings: list[Setting], storages: tuple[str, ...]) -> Verdict:
    """There are settings where counts beat LIST clearly, and in each a basic window has more tuples than values."""
    won: list[float] = []
    lost: list[float] = []
    for s in settings:
        best = min(cells.at(Structure(storage, "T"), s).maintenance for storage in storages)
        wins = best * NOISE < cells.at(Structure("LIST", "T"), s).maintenance
        (won if wins else lost).append(repetitions(s))
    seen = f"under T they beat LIST in {len(won)} of {len(settings)} settings"
    seen += f", with {_span(won)} tuples per value of a basic window" if won else ""
    seen += f"; not with {_span(lost)}" if lost else ""
    return bool(won) and min(won) >= REPEATED, seen


def aggregated_lists_need_many_basic_windows(cells: Cells) -> Verdict:
    ratios = [_growth(cells.maintenance(Structure("AGGR", "T"), group)) for group in _by_distinct(cells)]
    seen = ", ".join(
        f"{d:,} values: {1 / r:.1f} times as dear with the fewest basic windows as with the most"
        for d, r in zip(cells.sizes.distinct, ratios, strict=True)
    )
    return all(r < 1 / NOISE for r in ratios), seen


def groups_are_cheaper_than_tree(cells: Cells) -> Verdict:
    settings = cells.settings()
    tree = cells.maintenance(Structure("LIST", "T"), settings)
    ratios = {
        g: [a / b for a, b in zip(cells.maintenance(Structure("GROUP", g), settings), tree, strict=True)]
        for g in GROUPS
    }
    seen = "; ".join(
        f"{g} costs {_span(r)} of T, and a value is known to {50 / int(g[1:]):g} % of the range of values"
        for g, r in ratios.items()
    )
    return all(max(r) < 1 for r in ratios.values()), seen


def groups_are_cheaper_than_no_index(cells: Cells) -> Verdict:
    settings = cells.settings()
    plain = cells.maintenance(Structure("LIST", NO_INDEX), settings)
    ratios = [a / b for a, b in zip(cells.maintenance(Structure("GROUP", "G50"), settings), plain, strict=True)]
    return max(ratios) < 1, f"G50 costs {_span(ratios)} times LIST without an index"


def tree_wins_the_histogram(cells: Cells) -> Verdict:
    settings = cells.settings()
    means = {
        storage: {i: _mean(cells.total(Structure(storage, i), settings)) for i in ("L", "T", "H")}
        for storage in STORAGES
    }
    seen = "; ".join(f"{storage}: {_listed(costs)}" for storage, costs in means.items())
    return all(costs["T"] <= costs["H"] <= costs["L"] for costs in means.values()), f"geometric means, ns: {seen}"


def index_beats_scratch(cells: Cells) -> Verdict:
    settings = cells.settings()
    tree = cells.total(Structure("LIST", "T"), settings)
    ratios = {
        storage: [a / b for a, b in zip(cells.total(Structure(storage, NO_INDEX), settings), tree, strict=True)]
        for storage in ("LIST", "AGGR")
    }
    return min(map(min, ratios.values())) > 2, (
        f"sorting LIST costs {_span(ratios['LIST'])} times T over LIST, merging AGGR {_span(ratios['AGGR'])} times"
    )


def histogram_grows_only_over_list(cells: Cells) -> Verdict:
    growths = {s: _mean(_growth(cells.total(Structure(s, "T"), g)) for g in _by_distinct(cells)) for s in STORAGES}
    seen = "total with the most basic windows over that with the fewest, under T: " + _listed(growths, digits=2)
    return growths["LIST"] > 1 and growths["AGGR"] < 1 and growths["HASH"] < 1, seen


def only_groups_grow_in_intersection(cells: Cells) -> Verdict:
    growths = {
        index: _mean(_growth([cells.fastest_pair(index, s) for s in group]) for group in _by_distinct(cells))
        for index in (*GROUPS, "T", "H")
    }
    seen = "cost with the most basic windows over that with the fewest: " + _listed(growths, digits=2)
    return all(growths[g] > 1 for g in GROUPS) and growths["T"] <= 1 and growths["H"] <= 1, seen


def groups_are_cheaper_in_intersection(cells: Cells) -> Verdict:
    ratios = [
        cells.fastest_pair(g, s) / min(cells.fastest_pair("T", s), cells.fastest_pair("H", s))
        for g in GROUPS
        for s in cells.settings()
    ]
    return max(ratios) < 1, f"G costs {_span(ratios)} times the cheaper of T and H"


def deletion_follows_fewer_links(cells: Cells) -> Verdict:
    return _deletion(cells, "deletion_steps", SAME_LINKS, "links per tuple")


def deletion_is_faster(cells: Cells) -> Verdict:
    return _deletion(cells, "deletion", NOISE, "ns per tuple")


def fewer_values_tell_rings_apart(cells: Cells) -> Verdict:
    few, many = (
        _mean(_steps(cells, "AUX", s) / _steps(cells, "DB", s) for s in cells.settings() if s.distinct == d)
        for d in (cells.sizes.distinct[0], cells.sizes.distinct[-1])
    )
    return few > many, f"AUX follows {few:.0f} times the links of DB with few values, {many:.0f} times with many"


def backward_ring_likes_few_basic_windows(cells: Cells) -> Verdict:
    growths = [_growth([_steps(cells, "BW", s) for s in group]) for group in _by_distinct(cells)]
    return min(growths) > 1, f"BW follows {_span(growths)} times the links with the most basic windows"


def dirty_bits_win_altogether(cells: Cells) -> Verdict:
    ratios = [
        cells.total(Structure("LIST", index, "DB"), [s])[0] / cells.total(Structure("LIST", index, "BW"), [s])[0]
        for index in ("L", "T")
        for s in cells.settings()
    ]
    return _mean(ratios) <= 1, f"with the query DB costs {_span(ratios)} times BW, {_mean(ratios):.2f} in the mean"


def sorting_is_dearer_with_more_basic_windows(cells: Cells) -> Verdict:
    growths = [
        _growth([cells.at(Structure("LIST", "T", "DB"), s).query or 0 for s in group]) for group in _by_distinct(cells)
    ]
    return min(growths) > 1, f"the query costs {_span(growths)} times as much per tuple (DB over T)"


RULES: tuple[tuple[str, str, Rule], ...] = (
    ("T is the best index overall", "7", tree_is_best),
    ("L is the worst", "7", list_is_worst),
    ("T and H are similar", "7", tree_and_hash_are_similar),
    ("T wins more clearly on a power law, where the modular hash breaks down", "7", tree_wins_on_power_law),
    ("LIST is usually better than AGGR", "7", list_storage_is_usually_better),
    ("AGGR and HASH are better only with many repetitions", "7", counts_pay_off_with_repetitions),
    ("the same in large windows, with tables that grow (not in the paper)", "", counts_pay_off_in_large_windows),
    ("AGGR suffers from few basic windows", "7", aggregated_lists_need_many_basic_windows),
    ("UH is bad with many values, and like H with few", "8 a", unsorted_buckets_are_bad),
    ("G is cheaper to maintain than T", "8 b", groups_are_cheaper_than_tree),
    ("G is cheaper to maintain than LIST without an index", "8 b", groups_are_cheaper_than_no_index),
    ("T answers the histogram query cheapest, then H, then L", "9", tree_wins_the_histogram),
    ("an index is much cheaper than answering from scratch", "9", index_beats_scratch),
    ("with more basic windows the histogram is dearer over LIST only", "9", histogram_grows_only_over_list),
    ("G answers the intersection cheapest", "10", groups_are_cheaper_in_intersection),
    ("with more basic windows the intersection is dearer under G only", "10", only_groups_grow_in_intersection),
    ("deletion: DB ≤ BW ≤ AUX ≤ plain, in links followed", "11 a", deletion_follows_fewer_links),
    ("deletion: DB ≤ BW ≤ AUX ≤ plain, in time", "11 a", deletion_is_faster),
    ("rings differ more with fewer distinct values", "11 a", fewer_values_tell_rings_apart),
    ("BW deletes cheaper with fewer basic windows", "11 a", backward_ring_likes_few_basic_windows),
    ("maintenance and query together, DB is ahead of BW by a little", "11 b, c", dirty_bits_win_altogether),
    ("the sort query is much dearer with more basic windows", "11 b, c", sorting_is_dearer_with_more_basic_windows),
)
"""Every ordering, in the order of the figures."""


def repetitions(setting: Setting) -> float:
    """Tuples of a basic window per distinct value in it, expected."""
    ranks = np.arange(1, setting.distinct + 1)
    weight = 1 / ranks if setting.distribution == "power" else np.ones(len(ranks))
    absent = (1 - weight / weight.sum()) ** setting.basic_window
    return setting.basic_window / float((1 - absent).sum())


def _hash_to_tree(cells: Cells, distribution: str, distinct: Iterable[int]) -> list[float]:
    settings = [s for s in cells.settings(distribution) if s.distinct in distinct]
    pairs = zip(*(cells.maintenance(Structure("LIST", index), settings) for index in ("H", "T")), strict=True)
    return [a / b for a, b in pairs]


def _deletion(cells: Cells, what: str, tolerance: float, unit: str) -> Verdict:
    settings = cells.settings()
    costs = {r: [getattr(cells.at(Structure("LIST", "T", r), s), what) for s in settings] for r in RINGS}
    chain = [costs[r] for r in reversed(RINGS)]
    agrees = all(a <= b * tolerance for low, high in pairwise(chain) for a, b in zip(low, high, strict=True))
    means = {ring: _mean(values) for ring, values in costs.items()}
    return agrees, f"geometric means over T, {unit}: {_listed(means, digits=1)}"


def _steps(cells: Cells, ring: str, setting: Setting) -> float:
    steps = cells.at(Structure("LIST", "T", ring), setting).deletion_steps
    assert steps is not None
    return steps


def _by_distinct(cells: Cells) -> list[list[Setting]]:
    return [[s for s in cells.settings() if s.distinct == d] for d in cells.sizes.distinct]


def _growth(costs: list[float]) -> float:
    """From the fewest basic windows to the most."""
    return costs[-1] / costs[0]


def _mean(values: Iterable[float]) -> float:
    """Geometric, so that no setting outweighs the others."""
    found = [max(value, 1e-9) for value in values]
    return exp(sum(map(log, found)) / len(found))


def _span(ratios: Iterable[float]) -> str:
    found = list(ratios)
    low, high = (f"{ratio:,.0f}" if ratio >= 10 else f"{ratio:.2g}" for ratio in (min(found), max(found)))
    return low if low == high else f"{low} to {high}"


def _listed(costs: dict[str, float], digits: int = 0) -> str:
    return ", ".join(f"{name} {cost:,.{digits}f}" for name, cost in costs.items())

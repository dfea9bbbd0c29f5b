"""Estimates from part of the rows: the textbook's numbers, the same however rows come in, and bounds that hold."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from anabranch.archive.estimation.estimates import STRATUM, Drawn, Estimates, Sums, estimates, sums_of, together
from anabranch.archive.estimation.quantiles import normal, student
from anabranch.archive.estimation.variance import design_of
from anabranch.archive.facts import Range
from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes
from anabranch.kernels.moments import added, powers_of, spread, totals
from anabranch.kernels.sampling import kept, key_lots, lots_between
from tests.archive.coverage import FUNCTIONS as COVERED
from tests.archive.coverage import KINDS, Population, held, trials
from tests.sampling import examples, sampled

FUNCTIONS = ["count", "count", "sum", "avg", "min", "max", "count_distinct"]


class Rows:
    """A small stream: a value that is sometimes NULL, a group, a flag."""

    def __init__(self, count: int, seed: int = 1, whole: bool = False) -> None:
        random = np.random.default_rng(seed)
        self.count = count
        self.number = random.integers(-50, 1000, count) if whole else random.lognormal(2, 1, count)
        self.null = random.random(count) < 0.1
        self.group = random.choice(["a", "b", "c"], count, p=[0.6, 0.3, 0.1])
        self.flag = random.random(count) < 0.4
        self.plate = random.zipf(1.7, count) % 5000

    def taken(self, start: int, end: int, keep: float, above: float = 0.0) -> NDArray[np.int64]:
        return start + np.flatnonzero(kept(lots_between(start, end, 0), keep, above))

    def sums(self, start: int, end: int, keep: float, *, above: float = 0.0, grouped: bool = True, **more: Any) -> Sums:
        return self.of(self.taken(start, end, keep, above), start, end, keep, above=above, grouped=grouped, **more)

    def of(
        self, at: NDArray[np.int64], start: int, end: int, keep: float, *, grouped: bool = True, **more: Any
    ) -> Sums:
        value = pa.array(self.number[at], mask=self.null[at])
        values = [None, *[value] * (len(FUNCTIONS) - 1)]
        groups, mask = ([pa.array(self.group[at])], pa.array(self.flag[at])) if grouped else ([], None)
        return sums_of(pa.table({"_row": at}), Drawn(start, end, keep, **more), groups, values, mask, FUNCTIONS)


def told(found: Estimates, column: int) -> list[tuple[Any, ...]]:
    return list(zip(*(part.to_pylist() for part in found.columns[column]), strict=True))


def same(left: Estimates, right: Estimates) -> bool:
    sizes = (left.rows_read, left.rows_there) == (right.rows_read, right.rows_there)
    return sizes and left.groups == right.groups and left.columns == right.columns


# -- the numbers of the textbook -----------------------------------------------------------------


def test_totals_and_their_variance_are_those_of_a_stratified_sample() -> None:
    rows = Rows(3 * STRATUM + 1000)
    sums = rows.sums(0, rows.count, 0.02)
    design = design_of(sums)
    powers = sums.powers[2]
    assert powers is not None
    found = design.spreads(powers.number, spread(powers), totals(powers))
    taken = rows.taken(0, rows.count, 0.02)
    y_all = np.where(rows.null | ~rows.flag, 0.0, rows.number)
    for i, name in enumerate(sums.keys[0].to_pylist()):
        value = variance = skew = moving = 0.0
        for h in range(4):
            at = taken[taken // STRATUM == h]
            size = min(rows.count - h * STRATUM, STRATUM)
            y = np.where(rows.group[at] == name, y_all[at], 0.0)
            n, left = len(at), 1 - len(at) / size
            third = n / (n - 1) / (n - 2) * ((y - y.mean()) ** 3).sum()
            value += size * y.mean()
            variance += size**2 * left * y.var(ddof=1) / n
            moving += size**3 * left**2 * third / n**2
            skew += size**3 * left * (1 - 2 * n / size) * third / n**2
        assert found.value[i] == pytest.approx(value, rel=1e-12)
        assert found.variance[i] == pytest.approx(variance, rel=1e-10)
        assert found.slope[i] == pytest.approx(moving / variance, rel=1e-8)
        assert found.skew[i] == pytest.approx(skew, rel=1e-8)


def test_average_is_the_ratio_of_totals_and_varies_as_its_residuals() -> None:
    rows = Rows(STRATUM)
    taken = rows.taken(0, rows.count, 0.1)
    found = estimates(rows.sums(0, rows.count, 0.1), FUNCTIONS)
    for i, name in enumerate(found.groups[0].to_pylist()):
        inside = rows.flag[taken] & ~rows.null[taken] & (rows.group[taken] == name)
        y, m, n = rows.number[taken][inside], int(inside.sum()), len(taken)
        value, low, high = told(found, 3)[i]
        assert value == pytest.approx(y.mean(), rel=1e-12)
        # Given how many rows of the group were read, they are a simple sample of the group.
        plain = 1.96 * math.sqrt((1 - n / rows.count) * y.var(ddof=1) / m)
        assert low is not None
        assert high is not None
        assert (high - low) / 2 == pytest.approx(plain, rel=0.15)
        assert (high - low) / 2 > plain
        assert high - y.mean() > y.mean() - low  # the long tail is above


def test_everything_read_is_exact() -> None:
    rows = Rows(5000, whole=True)
    found = estimates(rows.sums(0, 5000, 1.0), FUNCTIONS)
    assert found.fraction == 1.0
    for i, name in enumerate(found.groups[0].to_pylist()):
        chosen = rows.flag & (rows.group == name)
        y = rows.number[chosen & ~rows.null]
        wanted = [chosen.sum(), len(y), y.sum(), y.sum() / len(y), y.min(), y.max(), len(set(y.tolist()))]
        for column, value in enumerate(wanted):
            assert told(found, column)[i] == (value, value, value)


def test_unfiltered_count_is_exact_however_little_was_read() -> None:
    rows = Rows(100_000)
    found = estimates(rows.sums(500, 100_000, 0.001, grouped=False), FUNCTIONS)
    assert told(found, 0) == [(99_500.0, 99_500.0, 99_500.0)]
    value, low, high = told(found, 1)[0]  # of those that are not NULL
    assert low is not None
    assert high is not None
    assert low < 0.9 * 99_500 < high
    assert low < value < high


def test_values_far_from_zero_keep_their_spread() -> None:
    random = np.random.default_rng(3)
    y = 1e12 + random.normal(0, 1, 20_000)
    at = np.arange(0, 20_000, 10)
    sums = sums_of(pa.table({"_row": at}), Drawn(0, 20_000, 0.1), [], [pa.array(y[at])], None, ["avg"])
    (value, low, high) = told(estimates(sums, ["avg"]), 0)[0]
    assert low is not None
    assert high is not None
    assert high - low == pytest.approx(2 * 1.961 * math.sqrt(0.9 * y[at].var(ddof=1) / 2000), rel=0.01)
    assert value == pytest.approx(y[at].mean(), abs=1e-3)


def test_open_strata_are_estimated_row_by_row() -> None:
    rows = Rows(STRATUM)
    taken = rows.taken(0, rows.count, 0.05)
    taken = taken[taken < 40_000]
    sums = rows.of(taken, 0, rows.count, 0.05, open=True)
    found = estimates(sums, FUNCTIONS)
    assert sums.rows_there == round(len(taken) / 0.05)
    powers = sums.powers[2]
    assert powers is not None
    variances = design_of(sums).spreads(powers.number, spread(powers), totals(powers)).variance
    place = {name: i for i, name in enumerate(sums.keys[0].to_pylist())}
    for i, name in enumerate(found.groups[0].to_pylist()):
        inside = rows.flag[taken] & (rows.group[taken] == name)
        y = rows.number[taken][inside & ~rows.null[taken]]
        assert told(found, 0)[i][0] == pytest.approx(inside.sum() / 0.05)
        value, low, high = told(found, 2)[i]
        assert value == pytest.approx(y.sum() / 0.05)
        assert variances[place[name]] == pytest.approx(0.95 / 0.05**2 * (y**2).sum())
        truth = rows.number[:40_000][(rows.flag & ~rows.null & (rows.group == name))[:40_000]].sum()
        assert low < truth < high


# -- the same however rows come in ---------------------------------------------------------------


@pytest.mark.slow
@examples(25)
@given(
    cuts=st.lists(st.integers(0, 140_000), max_size=5),
    keep=st.sampled_from([0.01, 0.3, 1.0]),
    order=st.randoms(use_true_random=False),
    sent=st.booleans(),
)
def test_sums_do_not_depend_on_how_the_rows_were_cut(cuts: list[int], keep: float, order: Any, sent: bool) -> None:
    edges = [0, *sorted(cuts), 140_000]
    parts = [ROWS.sums(a, b, keep) for a, b in itertools.pairwise(edges)]
    order.shuffle(parts)
    total = Sums.from_table(pa.concat_tables([p.to_table() for p in parts])) if sent else together(parts)
    assert same(estimates(total, FUNCTIONS), estimates(ROWS.sums(0, 140_000, keep), FUNCTIONS))


@pytest.mark.slow
@examples(15)
@given(
    fractions=st.lists(st.floats(0.001, 1.0), min_size=2, max_size=4, unique=True).map(sorted),
    cut=st.integers(0, 140_000),
)
def test_a_read_continued_is_the_read_of_the_larger_fraction(fractions: list[float], cut: int) -> None:
    sums, read = ROWS.sums(0, 140_000, fractions[0]), fractions[0]
    for keep in fractions[1:]:
        more = [ROWS.sums(a, b, keep, above=read) for a, b in ((0, cut), (cut, 140_000))]
        sums, read = sums.raised(keep) + together(more), keep
    assert same(estimates(sums, FUNCTIONS), estimates(ROWS.sums(0, 140_000, read), FUNCTIONS))


def test_pieces_of_different_fractions_stand_side_by_side() -> None:
    rows = Rows(2 * STRATUM)
    sums = together([rows.sums(0, 30_000, 0.1), rows.sums(30_000, STRATUM, 0.5), rows.sums(STRATUM, rows.count, 1.0)])
    found = estimates(sums, FUNCTIONS)
    a, b = rows.taken(0, 30_000, 0.1), rows.taken(30_000, STRATUM, 0.5)
    for i, name in enumerate(found.groups[0].to_pylist()):
        y = np.where(rows.flag & ~rows.null & (rows.group == name), rows.number, 0.0)
        wanted = 30_000 * y[a].mean() + (STRATUM - 30_000) * y[b].mean() + y[STRATUM:].sum()
        assert told(found, 2)[i][0] == pytest.approx(wanted, rel=1e-12)
        low, high = told(found, 2)[i][1:]
        assert low < y.sum() < high


def test_strata_with_one_row_are_taken_together() -> None:
    rows = Rows(40 * STRATUM // 10)
    sums = rows.sums(0, rows.count, 0.0002)
    assert sums.strata.read.min() < 32
    whole = sums.collapsed()
    assert whole.strata.read.min() >= 32 or len(whole.strata.read) == 1
    assert whole.strata.read.sum() == sums.strata.read.sum()
    assert whole.strata.there.sum() == rows.count
    assert np.all(np.diff(whole.strata.unit) > 0)
    single = estimates(Rows(200).sums(0, 200, 0.005, grouped=False), FUNCTIONS)
    assert told(single, 0) == [(200.0, 200.0, 200.0)]


# -- NULL, nothing, and one-sided statements -----------------------------------------------------


def test_nulls_are_neither_summed_nor_counted() -> None:
    at = np.arange(0, 1000, 2)
    value = pa.array([None if i % 4 == 0 else 3.0 for i in at])
    sums = sums_of(pa.table({"_row": at}), Drawn(0, 1000, 0.5), [], [value] * 3, None, ["count", "sum", "avg"])
    count, total, average = (told(estimates(sums, ["count", "sum", "avg"]), i)[0] for i in range(3))
    assert (count[0], total[0], average) == (500.0, 1500.0, (3.0, None, None))


def test_nothing_found_is_zero_with_room_above() -> None:
    at = np.arange(0, 10_000, 100)
    nothing = pa.array(np.zeros(100, bool))
    values = [None, pa.array(np.ones(100)), pa.array(np.ones(100))]
    sums = sums_of(pa.table({"_row": at}), Drawn(0, 10_000, 0.01), [], values, nothing, ["count", "sum", "avg"])
    found = estimates(sums, ["count", "sum", "avg"])
    value, low, high = told(found, 0)[0]
    assert (value, low) == (0.0, 0.0)
    assert high == pytest.approx(normal(0.95) ** 2 * 99, rel=0.05)  # the rule of three, a bit more
    assert told(found, 1) == told(found, 2) == [(None, None, None)]


def test_where_no_row_was_read_nothing_is_claimed() -> None:
    rows = Rows(60_000)
    seen, unseen = rows.sums(0, 40_000, 0.1), rows.of(np.zeros(0, np.int64), 40_000, 60_000, 1e-9)
    found = estimates(seen + unseen, FUNCTIONS)
    alone = estimates(seen, FUNCTIONS)
    at = rows.taken(0, 40_000, 0.1)
    for i, name in enumerate(found.groups[0].to_pylist()):
        counted = (rows.flag[at] & (rows.group[at] == name)).sum()
        value, low, high = told(found, 0)[i]
        assert value == pytest.approx(1.5 * told(alone, 0)[i][0])
        assert (low, high) == (counted, counted + 60_000 - len(at))
        assert told(found, 2)[i][1:] == told(found, 3)[i][1:] == (None, None)


def test_an_open_stratum_of_which_nothing_was_to_be_read_is_not_taken_for_empty() -> None:
    rows = Rows(STRATUM + 1000)
    for keep, known in ((0.1, True), (0.0, False)):
        last = rows.of(np.zeros(0, np.int64), STRATUM, rows.count, keep, open=True)
        found = estimates(rows.sums(0, STRATUM, 0.1) + last, FUNCTIONS)
        assert (told(found, 0)[0][2] is not None) == known
        assert (told(found, 2)[0][2] is not None) == known


def test_one_row_of_a_group_says_little_about_it() -> None:
    at = np.arange(0, 10_000, 100)
    group = pa.array(["rare" if i == 0 else "common" for i in range(100)])
    value = pa.array(np.full(100, 2.0))
    sums = sums_of(
        pa.table({"_row": at}), Drawn(0, 10_000, 0.01), [group], [None, value, value], None, ["count", "sum", "avg"]
    )
    found = estimates(sums, ["count", "sum", "avg"])
    assert found.groups[0].to_pylist() == ["common", "rare"]
    count, total, average = (told(found, i)[1] for i in range(3))
    assert count[1] == 1.0 or count[1] > 1
    assert count[2] > 500
    assert total == (200.0, None, None)
    assert average == (2.0, None, None)


def test_what_was_seen_is_certain() -> None:
    rows = Rows(3000)
    found = estimates(rows.sums(0, 3000, 0.98), FUNCTIONS)
    at = rows.taken(0, 3000, 0.98)
    for i, name in enumerate(found.groups[0].to_pylist()):
        seen = (rows.flag[at] & (rows.group[at] == name)).sum()
        _, low, high = told(found, 0)[i]
        assert low >= seen
        assert high <= seen + 3000 - len(at)


def test_extremes_and_distinct_values_are_stated_on_one_side() -> None:
    rows = Rows(20_000)
    found = estimates(rows.sums(0, 20_000, 0.1), FUNCTIONS)
    at = rows.taken(0, 20_000, 0.1)
    for i, name in enumerate(found.groups[0].to_pylist()):
        y = rows.number[at][rows.flag[at] & ~rows.null[at] & (rows.group[at] == name)]
        assert told(found, 4)[i] == (y.min(), None, y.min())
        assert told(found, 5)[i] == (y.max(), y.max(), None)
        assert told(found, 6)[i] == (len(y), len(y), None)


def test_extremes_of_text_and_times_keep_their_type() -> None:
    at = np.array([0, 4, 9])
    text, time = pa.array(["b", None, "a"]), pa.array([3, 1, 2], pa.timestamp("us"))
    part = sums_of(pa.table({"_row": at}), Drawn(0, 10, 0.3), [], [text, time], None, ["min", "max"])
    found = estimates(Sums.from_table((part + part).to_table()), ["min", "max"])
    assert found.columns[0][0].to_pylist() == ["a"]
    assert found.columns[1][0].type == pa.timestamp("us")
    assert found.columns[1][0].cast(pa.int64()).to_pylist() == [3]


def test_nan_and_infinity_give_no_false_number() -> None:
    at = np.arange(0, 200, 2)
    for odd in (math.nan, math.inf):
        value = pa.array([odd, *[1.0] * 99])
        sums = sums_of(pa.table({"_row": at}), Drawn(0, 200, 0.5), [], [value], None, ["sum"])
        total = told(estimates(sums, ["sum"]), 0)[0][0]
        assert total is not None
        assert not math.isfinite(total)


def whole(values: Sequence[int | None], keep: float, **more: Any) -> tuple[Any, Any, Any]:
    """Value, low and high of the sum of BIGINTs, of which every (1/keep)-th was read."""
    at = np.arange(0, len(values), round(1 / keep))
    column = pa.array([values[int(i)] for i in at], pa.int64())
    sums = sums_of(pa.table({"_row": at}), Drawn(0, len(values), keep, **more), [], [column], None, ["sum"])
    found = estimates(Sums.from_table(sums.to_table()), ["sum"]).columns[0]
    assert all(end.type == pa.int64() for end in found)
    value, low, high = (end[0].as_py() for end in found)
    return value, low, high


def test_sums_of_whole_numbers_are_exact_where_all_was_read() -> None:
    values = [2**53 + 1, 2**53 + 3, None, -7, 1]
    assert whole(values, 1.0) == (2**54 - 2 + 0,) * 3 == (sum(v for v in values if v is not None),) * 3
    large = [2**62 + 1, 2**62 - 5, -(2**61) + 3]
    assert whole(large, 1.0) == (sum(large),) * 3
    back = [2**62 + 1, 2**62 + 3, 2**62 + 5, -(2**62), -(2**62)]
    assert whole(back, 1.0) == (sum(back),) * 3
    with pytest.raises(QueryError, match="SUM_OVERFLOW"):
        whole([2**62, 2**62, 5], 1.0)


def test_sums_of_whole_numbers_are_not_rounded_into_their_bounds_where_something_was_left_out() -> None:
    one = 2**55 + 1
    value, low, high = whole([one] * 100, 0.1, ranges=[Range(float(2**55), float(2**55 + 8))])
    assert isinstance(value, int)
    assert low <= 100 * one <= high
    value, low, high = whole([2**60] * 6 + [0] * 94, 0.5)
    assert low >= -(2**63)
    assert high == 2**63 - 1


# -- whole keys ----------------------------------------------------------------------------------


def by_key(rows: Rows, keep: float, seed: int, **more: Any) -> Sums:
    plates = pa.array(rows.plate)
    at = np.flatnonzero(kept(key_lots(plates, seed), keep))
    return rows.of(at, 0, rows.count, keep, by=hashes(plates.take(pa.array(at))), **more)


def test_keys_are_clusters() -> None:
    rows = Rows(60_000)
    sums = by_key(rows, 0.2, 5)
    found = estimates(sums, FUNCTIONS)
    assert sums.rows_there == 60_000
    at = np.flatnonzero(kept(key_lots(pa.array(rows.plate), 5), 0.2))
    inside = rows.flag[at] & ~rows.null[at] & (rows.group[at] == "a")
    keys, place = np.unique(rows.plate[at], return_inverse=True)
    y, size = np.bincount(place, np.where(inside, rows.number[at], 0)), np.bincount(place)
    assert told(found, 2)[0][0] == pytest.approx(60_000 * y.sum() / len(at), rel=1e-12)
    off = y - y.sum() / size.sum() * size
    variance = (60_000 / len(at)) ** 2 * 0.8 * len(keys) / (len(keys) - 1) * (off**2).sum()
    design = design_of(sums)
    powers = sums.powers[2]
    assert powers is not None
    assert design.spreads(powers.number, spread(powers), totals(powers)).variance[0] == pytest.approx(variance)


@pytest.mark.slow
def test_bounds_of_clusters_hold() -> None:
    rows = Rows(40_000)
    rows.plate = np.random.default_rng(9).integers(0, 4000, rows.count)
    rows.number = rows.number + rows.plate % 7  # keys differ
    inside = rows.flag & ~rows.null
    truth = {n: rows.number[inside & (rows.group == n)] for n in "abc"}
    hits = np.zeros(3)
    for seed in range(100):
        found = estimates(by_key(rows, 0.1, seed), FUNCTIONS)
        wanted = [[(rows.flag & (rows.group == n)).sum() for n in "abc"]]
        wanted += [[truth[n].sum() for n in "abc"], [truth[n].mean() for n in "abc"]]
        for i, column in enumerate((0, 2, 3)):
            hits[i] += sum(
                low <= true <= high for (_, low, high), true in zip(told(found, column), wanted[i], strict=True)
            )
    assert np.all((hits / 300 > 0.91) & (hits / 300 < 0.985))


def test_groups_that_are_keys_are_exact_where_they_are_known() -> None:
    rows = Rows(5000)
    plates = pa.array(rows.plate)
    at = np.flatnonzero(kept(key_lots(plates, 1), 0.3))
    chosen = plates.take(pa.array(at))
    sums = sums_of(
        pa.table({"_row": at}), Drawn(0, 5000, 0.3, by=hashes(chosen), complete=True), [chosen], [None], None, ["count"]
    )
    found = estimates(sums, ["count"])
    assert 0.1 < found.fraction < 0.9
    for plate, (value, low, high) in zip(found.groups[0].to_pylist(), told(found, 0), strict=True):
        assert value == low == high == (rows.plate == plate).sum()


# -- bounds that hold ----------------------------------------------------------------------------


FRACTIONS = [(0.01, 150), (0.02, 100), (0.1, 80), (0.5, 25)]
CELLS = sampled(itertools.product(KINDS, FRACTIONS), 1, "bounds", group=lambda cell: cell[0])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "fraction", "count"), [(kind, *fraction) for kind, fraction in CELLS])
def test_bounds_hold_as_often_as_they_say(kind: str, fraction: float, count: int) -> None:
    found = trials(kind, fraction, count, seed=1)
    shares = (found.count, found.sum, found.avg)
    least = 0.95 - 3.5 * math.sqrt(0.95 * 0.05 / count)
    assert all(share >= least for share in shares), found
    assert "grouped" in kind or count < 60 or min(shares) < 1, "bounds that always hold are too wide"
    assert found.withheld == 0


@pytest.mark.slow
@pytest.mark.parametrize("seen", [0.5, 1.0, 1.8, 3.0])
def test_two_errors_at_once_make_bounds_neither_too_narrow_nor_too_wide(
    seen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of which a hundred rows are read, so many of them larger by about as much as all others differ."""

    def mixed(random: np.random.Generator, rows: int) -> Population:
        values = random.normal(0, 1, rows) + 11 * (random.random(rows) < seen / 100)
        return Population(values, random.integers(0, 20, rows), np.ones(rows, bool))

    monkeypatch.setitem(KINDS, "mixed", mixed)
    found = [trials("mixed", 0.01, 60, seed=seed) for seed in (1, 2)]
    assert 0.93 <= np.mean([each.sum for each in found]) <= 0.97
    assert 0.93 <= np.mean([each.avg for each in found]) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pareto 1.2", "lognormal 3", "spikes of 0.1 %"])
def test_of_files_without_facts_bounds_are_withheld_where_few_rows_carry_the_sum(kind: str) -> None:
    """What the sample shows is all there is to go by; what it does not show, nobody knows."""
    found = trials(kind, 0.01, 60, seed=1, known=False)
    assert found.withheld > 0.2
    assert trials("uniform", 0.01, 60, seed=1, known=False).withheld == 0


@pytest.mark.parametrize("grouped", [False, True])
def test_a_column_of_one_value_has_bounds_of_no_width(grouped: bool) -> None:
    """Where the archive knows that all values are the same, a row says what all others are."""
    rows, at = 100_000, np.arange(0, 100_000, 100)
    value = pa.array(np.full(len(at), 2.5), mask=at % 300 == 0)
    groups = [pa.array(at % 7)] if grouped else []
    sums = sums_of(
        pa.table({"_row": at}),
        Drawn(0, rows, 0.01, ranges=[Range(2.5, 2.5)] * 3),
        groups,
        [value, value, value],
        None,
        ["count", "sum", "avg"],
    )
    count, total, average = (told(estimates(sums, ["count", "sum", "avg"]), i) for i in range(3))
    for (n, n_low, n_high), (value_, low, high), mean in zip(count, total, average, strict=True):
        assert mean == (2.5, 2.5, 2.5)
        assert value_ == pytest.approx(2.5 * n)
        assert low == pytest.approx(2.5 * n_low, rel=0.02)
        assert high == pytest.approx(2.5 * n_high, rel=0.02)
        assert low < high


def test_a_group_of_which_only_rows_far_out_were_read_has_bounds_for_what_was_not() -> None:
    at = np.append(np.arange(0, 10_000, 100), 55)
    group = pa.array(["rare" if i == 55 else "common" for i in at])
    value = pa.array(np.where(at == 55, 1e9, at % 10 / 1.0))
    sums = sums_of(
        pa.table({"_row": at}),
        Drawn(0, 10_000, 0.01, far=at == 55, ranges=[Range(0.0, 9.0)] * 2),
        [group],
        [value, value],
        None,
        ["sum", "avg"],
    )
    total, average = (told(estimates(sums, ["sum", "avg"]), i)[1] for i in range(2))
    assert total == (1e9, 1e9, pytest.approx(1e9 + 9 * 367, rel=1e-6))
    assert average == (1e9, 0.0, 1e9)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.99])
def test_other_confidences(confidence: float) -> None:
    found = trials("lognormal", 0.01, 150, seed=2, confidence=confidence)
    room = 3.5 * math.sqrt(confidence * (1 - confidence) / 150)
    assert all(abs(share - confidence) <= room for share in (found.count, found.sum, found.avg)), found


@pytest.mark.parametrize("matching", [20, 200, 2000])
def test_counts_of_rare_rows_hold(matching: int) -> None:
    rows = 100_000
    chosen = np.zeros(rows, bool)
    chosen[np.random.default_rng(4).choice(rows, matching, replace=False)] = True
    hits = 0
    for seed in range(150):
        at = np.flatnonzero(kept(lots_between(0, rows, seed), 0.02))
        sums = sums_of(pa.table({"_row": at}), Drawn(0, rows, 0.02), [], [None], pa.array(chosen[at]))
        _, low, high = told(estimates(sums, ["count"]), 0)[0]
        hits += low <= matching <= high
    assert hits >= 135


# -- kernels and quantiles -----------------------------------------------------------------------


def test_quantiles_are_those_of_the_tables() -> None:
    assert normal(0.95) == pytest.approx(1.959963985, abs=1e-9)
    table = {
        0.5: [1.0000, 0.8165, 0.7649, 0.7407, 0.7267, 0.6998, 0.6828, 0.6765],
        0.9: [6.3138, 2.9200, 2.3534, 2.1318, 2.0150, 1.8125, 1.6973, 1.6577],
        0.95: [12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.2281, 2.0423, 1.9799],
        0.99: [63.6567, 9.9248, 5.8409, 4.6041, 4.0321, 3.1693, 2.7500, 2.6174],
        0.999: [636.6193, 31.5991, 12.9240, 8.6103, 6.8688, 4.5869, 3.6460, 3.3735],
    }
    for confidence, wanted in table.items():
        found = student(confidence, np.array([1.0, 2, 3, 4, 5, 10, 30, 120]))
        np.testing.assert_allclose(found, wanted, rtol=2e-4)
        assert student(confidence, np.array([1e9]))[0] == pytest.approx(normal(confidence), rel=1e-6)
    assert np.all(np.diff(student(0.95, np.arange(1.0, 200.0))) < 0)


@examples(60)
@given(st.lists(st.floats(-1e9, 1e9, allow_subnormal=False), min_size=1, max_size=40), st.integers(0, 40))
def test_power_sums_equal_those_of_fractions(values: list[float], cut: int) -> None:
    y = np.array(values)
    slots, present = np.zeros(len(y), np.int64), np.ones(len(y), bool)
    one = powers_of(slots, y, present, 1)
    two = [powers_of(slots[part], y[part], present[part], 1) for part in (slice(cut), slice(cut, None))]
    stacked = type(one)(np.concatenate([p.number for p in two]), np.concatenate([p.sums for p in two]))
    both = added(np.zeros(2, np.int64), stacked, 1)
    exact = [Fraction(v) for v in values]
    mean = sum(exact) / len(exact)
    scale = max(*map(abs, values), 1e-30)
    for parts in (one, both):
        assert parts.number[0] == len(values)
        # Twice the digits of a double, rounded twice: the last of those that stay may differ.
        assert totals(parts)[0] == pytest.approx(float(sum(exact)), rel=2**-52, abs=scale * 1e-30)
        middle, second, third = (float(x[0]) for x in spread(parts))
        assert middle == pytest.approx(float(mean), rel=1e-14, abs=scale * 1e-15)
        assert second == pytest.approx(float(sum((v - mean) ** 2 for v in exact)), rel=1e-9, abs=scale**2 * 1e-24)
        assert third == pytest.approx(float(sum((v - mean) ** 3 for v in exact)), rel=1e-9, abs=scale**3 * 1e-22)


ROWS = Rows(140_000)


@pytest.mark.slow
def test_small_groups_that_hardly_show_where_little_was_read_have_bounds_that_hold() -> None:
    """Pieces read with half the fraction of the next, as `age` does: a row missed in the first weighs most."""
    source = np.random.default_rng(5)
    rows, piece, trials = 400_000, 50_000, 40
    fractions = [0.5 ** (7 - i) for i in range(8)]
    values, group = source.lognormal(0, 1, rows), source.choice(3, rows, p=[0.998, 0.0015, 0.0005])
    everything = Population(values, group, np.ones(rows, bool))
    shares = []
    for trial in range(trials):
        lot, parts = lots_between(0, rows, trial + 1), []
        for i, fraction in enumerate(fractions):
            taken = i * piece + np.flatnonzero(kept(lot[i * piece : (i + 1) * piece], fraction))
            read = pa.array(values[taken])
            sample, groups = pa.table({"_row": taken}), [pa.array(group[taken])]
            parts.append(
                sums_of(sample, Drawn(i * piece, (i + 1) * piece, fraction), groups, [None, read, read], None, COVERED)
            )
        shares.append(held(estimates(together(parts), COVERED), everything.truth()))
    assert (np.mean(shares, axis=0) >= 0.9).all(), np.mean(shares, axis=0)


@pytest.mark.parametrize("exponent", [0.8, 1.2])
def test_keys_with_a_long_tail_leave_no_false_bounds(exponent: float) -> None:
    source = np.random.default_rng(6)
    rows, keys = 50_000, 2000
    chances = 1 / np.arange(1, keys + 1) ** exponent
    key = source.choice(keys, rows, p=chances / chances.sum())
    names = pa.array([f"car {i}" for i in range(keys)]).take(pa.array(key))
    values = source.gamma(2, 1, rows) * (1 + key % 7)
    false = 0
    for trial in range(30):
        taken = np.flatnonzero(kept(key_lots(names, trial + 1), 0.2))
        read, by = pa.array(values[taken]), hashes(names.take(pa.array(taken)))
        sample = pa.table({"_row": taken})
        found = estimates(sums_of(sample, Drawn(0, rows, 0.2, by=by), [], [None, read, read], None, COVERED), COVERED)
        for truth, (_, low, high) in zip((rows, values.sum(), values.mean()), found.columns, strict=True):
            false += (low[0].is_valid and low[0].as_py() > truth) or (high[0].is_valid and high[0].as_py() < truth)
    assert false <= 5


@pytest.mark.parametrize(("size", "fraction"), [(3, 0.01), (10, 0.01), (10, 0.1), (100, 0.01)])
def test_counts_of_groups_of_which_a_row_or_two_were_seen_by_chance(size: int, fraction: float) -> None:
    """Of groups of ten rows one in ten shows up in a hundredth; that it does must not make it look like a hundred."""
    rows = 60_000
    group = np.random.default_rng(7).permutation(np.arange(rows) % (rows // size))
    shares = []
    for trial in range(5):
        taken = np.flatnonzero(kept(lots_between(0, rows, trial + 1), fraction))
        sample, groups = pa.table({"_row": taken}), [pa.array(group[taken])]
        found = estimates(sums_of(sample, Drawn(0, rows, fraction), groups, [None], None, ["count"]), ["count"])
        _, low, high = (column.to_numpy() for column in found.columns[0])
        shares.append(np.mean((low <= size) & (size <= high)))
    assert np.mean(shares) >= 0.95


@pytest.mark.parametrize("usual", [0.0, 5.0, 0.1])
@pytest.mark.parametrize("grouped", [False, True])
def test_values_that_are_all_the_same_have_no_bounds(usual: float, grouped: bool) -> None:
    """Rare values are in few samples; those without them do not know that there are any, those with one not of more."""
    rows, trials = 100_000, 60
    values, group = np.full(rows, usual), np.arange(rows) % 2
    values[::1000] = 50_000.0
    without = held = 0
    for seed in range(trials):
        at = np.flatnonzero(kept(lots_between(0, rows, seed), 0.01))
        value, groups = pa.array(values[at]), [pa.array(group[at])] if grouped else []
        functions = ["sum", "avg"]
        sums = sums_of(pa.table({"_row": at}), Drawn(0, rows, 0.01), groups, [value] * 2, None, functions)
        found = estimates(sums, functions)
        mine = group == 0 if grouped else group >= 0
        for (_, low, high), truth in zip(found.columns, (values[mine].sum(), values[mine].mean()), strict=True):
            assert (low[0].as_py() is None) == bool(np.sum(values[at][mine[at]] != usual) < 2)
            without += low[0].as_py() is None
            held += low[0].as_py() is not None and low[0].as_py() <= truth <= high[0].as_py()
    assert 0.5 < without / (2 * trials) < 0.9
    assert held >= 0.9 * (2 * trials - without)


def test_values_that_are_all_the_same_are_certain_once_all_were_read() -> None:
    rows = pa.table({"_row": np.arange(100)})
    value = pa.array(np.full(100, 0.1))
    everything = sums_of(rows, Drawn(0, 100, 1.0), [], [value] * 2, None, ["sum", "avg"])
    for (found,) in (told(estimates(everything, ["sum", "avg"]), i) for i in (0, 1)):
        assert found[0] == found[1] == found[2]
    # Rows that were all read do not say how those of which a part was read differ.
    some = sums_of(pa.table({"_row": [200, 230]}), Drawn(200, 300, 0.02), [], [pa.array([7.0, 7.0])], None, ["sum"])
    mixed = sums_of(rows, Drawn(0, 100, 1.0), [], [pa.array(np.arange(100.0))], None, ["sum"])
    assert told(estimates(together([mixed, some]), ["sum"]), 0)[0][1:] == (None, None)

"""M. Mazzucco, A. Ananthanarayan, R. L. Grossman, J. Levera and G. B. Rao, "Merging Multiple Data Streams on
Common Keys over High Performance Networks" (2002).

Its two examples, its measure of completeness, and what it says of windows and steps.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.testing import OperatorHarness
from benchmarks.merge.data import TOLERANCE, Disorder, MergeFeed
from benchmarks.merge.kernel import match_percent
from tests.operators.merge_oracle import (
    MAX_TIME,
    Options,
    Record,
    cgm,
    cursors,
    group_rounds,
    kappa,
    shortfall,
)
from tests.operators.range_merge_oracle import Remainder, rtm

KEYED = StreamSchema.of({"k": "DOUBLE", "ts": "TIMESTAMP"}, time="ts")
A, B = [6, 7, 8, 9, 10, 11, 20, 21], [5, 13, 14, 15, 16, 17, 18, 21]
MERGED = [(6, 5), (11, 13), (20, 18)]


def records(keys: Sequence[float]) -> list[Record]:
    """Records of one key, one after the other in time."""
    return [Record(number, number, (key,)) for number, key in enumerate(keys)]


def merge(tolerance: float, window: int, step: int, **more: Any) -> Merge:
    return Merge(
        sources=(("a", "A"), ("b", "B")),
        keys=((("`a.k`", "`b.k`", tolerance),),),
        by=((),),
        joins=("inner",),
        conditions=(),
        columns=(("a", "`a.k`"), ("b", "`b.k`"), ("_time", "_time")),
        time="_time",
        window=window,
        step=step,
        every=None,
        **more,
    )


def ranges(tolerance: float, window: int, remainder: Any) -> RangeMerge:
    like = merge(tolerance, window, 1)
    fields = {name: getattr(like, name) for name in ("sources", "keys", "by", "joins", "conditions", "columns", "time")}
    return RangeMerge(**fields, window=window, every=None, remainder=remainder, waits=False)


def driven(
    operator: Merge | RangeMerge, a: Sequence[float], b: Sequence[float], end: int = MAX_TIME
) -> OperatorHarness:
    """The merge over both streams, whose records come one a microsecond."""
    harness = OperatorHarness(operator, {"A": KEYED, "B": KEYED})
    for name, keys in (("A", a), ("B", b)):
        harness.push(name, [{"k": float(k), "ts": f"1970-01-01 00:00:00.{n:06d}"} for n, k in enumerate(keys)])
        harness.advance(name, end)
    harness.run()
    return harness


def told(harness: OperatorHarness) -> dict[str, Any]:
    """What the merge says of itself."""
    said: dict[str, Any] = harness.reported("merge")
    return said


def pairs(harness: OperatorHarness) -> list[tuple[float, float]]:
    answer = harness.answers()
    return list(zip(answer.column("a").to_pylist(), answer.column("b").to_pylist(), strict=True))


# -- section 4.1: the example ------------------------------------------------------------------------


def test_the_cursors_merge_what_the_example_says() -> None:
    assert [(one.keys[0], other.keys[0]) for one, other in cursors(records(A), records(B), 2)] == MERGED


@pytest.mark.parametrize("seed", range(3))
def test_the_example_of_cgm(seed: int) -> None:
    """Also if the windows are not in order when they are grabbed: a sort comes first."""
    chance = random.Random(seed)
    a, b = (chance.sample(keys, 8) if seed else keys for keys in (A, B))
    found = cgm(records(a), records(b), Options((2,), window=8, step=1, every=None), t=8)
    assert [(a[out.a or 0], b[out.b or 0]) for out in found if out.kind == "pair"] == MERGED
    # The cursors stand on the last records; neither stream has another one that could move them.
    assert pairs(driven(merge(2, 8, 1), a, b, end=8)) == MERGED


def test_the_window_need_not_be_full_when_the_streams_end() -> None:
    assert pairs(driven(merge(2, 50, 10), A, B)) == MERGED


# -- section 4.1: how windows move -------------------------------------------------------------------


def test_windows_move_by_what_has_merged_or_by_the_least_increment() -> None:
    """l is the greater of M and K; who has not merged makes room only where the merged have not made enough."""
    a, b = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], [1, 2, 3, 14, 15, 16, 7, 8, 17, 18, 19, 20]
    options = Options((0,), window=4, step=2, every=None)
    rounds = group_rounds((), records(a), records(b), options, t=20)
    told = [
        ([one.keys[0] for one, _ in done.pairs], *([r.keys[0] for r in left] for left in done.dropped))
        for done in rounds
    ]
    assert told == [
        # 1, 2, 3, 4 and 1, 2, 3, 14: three merge, and three new records take their places.
        ([1, 2, 3], [], []),
        # 4, 5, 6, 7 and 7, 14, 15, 16: one merges, K = 2 come: for the second of them the first one leaves.
        ([7], [], []),
        # 5, 6, 8, 9 and 8, 15, 16, 17: in order, 14 was the first of what was left.
        ([8], [4], [14]),
        ([], [5], [15]),
    ]
    harness = driven(merge(0, 4, 2), a, b, end=20)
    assert pairs(harness) == [(k, k) for k in (1, 2, 3, 7, 8)]


def test_without_a_least_increment_a_window_would_stand_still() -> None:
    """Nothing merges in the first windows, and yet what comes later does."""
    a, b = [*range(10), 100, 101, 102], [*range(50, 60), 100, 101, 102]
    for step in (1, 3, 5):
        assert pairs(driven(merge(0, 5, step), a, b)) == [(100, 100), (101, 101), (102, 102)]


def test_records_that_come_late_merge_while_their_partners_are_in_the_window() -> None:
    """A larger window or a smaller step finds more (section 3, and the tables)."""
    keys = list(range(400))
    chance = random.Random(1)
    moved = sorted(keys, key=lambda k: k + chance.choice([0, 0, 0, 60]))
    found = {
        (window, step): len(pairs(driven(merge(0, window, step), keys, moved)))
        for window, step in ((10, 8), (40, 32), (40, 8), (100, 20))
    }
    assert found[(100, 20)] == 400
    assert found[(10, 8)] < found[(40, 32)] < found[(40, 8)] <= found[(100, 20)]


# -- section 3: completeness -------------------------------------------------------------------------


def moving_average(kappas: Sequence[float], m: int, n: int) -> float:
    """Δ of the windows n − m + 1 to n, as the paper writes it."""
    return 1 - sum(kappas[n - m : n]) / m


def test_delta_is_a_moving_average_of_what_was_missed() -> None:
    """Three windows in which 8 matches were possible: all were made, then 6, then 4."""
    counts = [(8, 0, 0), (6, 2, 5), (4, 4, 4)]
    kappas = [kappa(*count) for count in counts]
    assert kappas == [1.0, 0.75, 0.5]
    for m, n in ((1, 1), (2, 2), (3, 3), (2, 3), (1, 3)):
        assert shortfall(counts[n - m : n]) == pytest.approx(moving_average(kappas, m, n))
    assert shortfall(counts) == 0.25


def test_a_record_whose_partner_is_not_there_was_no_possible_match() -> None:
    assert kappa(5, 100, 0) == 1.0
    assert kappa(0, 0, 0) == 1.0
    assert kappa(0, 3, 7) == 0.0


def test_delta_of_a_merge() -> None:
    """Five match at once, 4 and 14 never: their places are taken in the third round."""
    a, b = [1, 2, 3, 4, 5, 6], [1, 2, 3, 14, 5, 6]
    rounds = group_rounds((), records(a), records(b), Options((0,), window=2, step=2, every=None), t=6)
    counts = [done.counts for done in rounds]
    assert counts == [(2, 0, 0), (1, 0, 0), (2, 1, 1)]
    assert shortfall(counts) == pytest.approx(1 / 6)
    report = told(driven(merge(0, 2, 2), a, b, end=6))
    assert report["delta"] == pytest.approx(1 / 6)
    assert report["kappa"] == pytest.approx(2 / 3)


def test_the_promise_is_kept_by_larger_windows() -> None:
    """Every fifth record of B comes 30 late: windows of 8 lose it, those that have grown do not."""
    keys = list(range(3000))
    late = sorted(keys, key=lambda k: k + (30 if k % 5 == 0 else 0))
    careless = merge(0, 8, 4)
    careful = replace(careless, delta=0.02, over=5)
    reports = [told(driven(operator, keys, late, end=3000)) for operator in (careless, careful)]
    assert reports[0]["delta"] > 0.1
    assert reports[0]["window"] == 8
    assert reports[1]["delta"] < 0.02
    assert reports[1]["window"] > 8
    assert reports[1]["merged"] > reports[0]["merged"]


def loaded(operator: Merge, pieces: Sequence[tuple[str, pa.Table, int]]) -> OperatorHarness:
    """The merge over streams that pieces are appended to, each stamped with the second it came in; then silence."""
    harness = OperatorHarness(operator, {"A": KEYED, "B": KEYED})
    for name, table, second in pieces:
        stamps = pa.array([second * 1_000_000] * table.num_rows, TIME_TYPE)
        harness.push(name, table.select(["k"]).append_column("ts", stamps))
        harness.step()
    while due := harness.due():
        for name, time in due.items():
            harness.advance(name, time)
        harness.step()
    return harness


@pytest.mark.slow
@pytest.mark.parametrize("interleaved", [False, True])
def test_files_that_are_loaded_keep_pace_by_rows(interleaved: bool) -> None:
    """N = 5,000, K = 4,000, 20 % out of order: as many are merged as section 4.1 merges, whenever files are loaded."""
    rows, piece = 60_000, 7_500 if interleaved else 60_000
    feed = MergeFeed(rows, Disorder.of(0.2, 5000), seed=3)
    pieces = [
        (name, feed.table(stream).slice(at, piece), 10 * at // piece + 5 * stream)
        for at in range(0, rows, piece)
        for stream, name in enumerate("AB")
    ]
    by_rows = replace(merge(TOLERANCE, 5000, 4000), pace="rows", every=1_000_000)
    matched = 100 * loaded(by_rows, pieces).answers().num_rows / rows
    paper = match_percent(feed, 5000, 4000)
    assert 70 < paper < 80
    # Between pieces there is silence, in which rounds come without anybody leaving: then more are merged.
    assert paper - 1 < matched < (100 if interleaved else paper + 4)
    in_time = 100 * loaded(replace(by_rows, pace="time"), pieces).answers().num_rows / rows
    assert in_time < (70 if interleaved else 15)


def test_the_worked_example_answers_in_silence() -> None:
    pieces = [
        (name, pa.table({"k": pa.array(keys, pa.float64())}), n) for n, (name, keys) in enumerate((("A", A), ("B", B)))
    ]
    assert pairs(loaded(replace(merge(2, 8, 8), pace="rows", every=1_000_000), pieces)) == MERGED


# -- section 4.2 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("remainder", ["rest", "difference"])
def test_the_example_of_rtm(remainder: Any) -> None:
    """The first range query fills the window of B up to 6, the second one brings what lies beyond."""
    a, b = [2, 4, 6, 8, 10], list(range(1, 12))
    merged = [(k, k) for k in a]
    found = rtm(records(a), records(b), (0,), 5, remainder)
    assert [(a[n], b[m]) for n, m in found] == merged
    assert pairs(driven(ranges(0, 5, remainder), a, b)) == merged


def test_a_difference_of_cubes_does_not_see_what_lies_inside_the_first_window() -> None:
    """The first window of B goes from 2 to 10 already: what it left out in between is never asked for."""
    a, b = [2, 4, 6, 8, 10], [10, 2, 3, 5, 7, 4, 6, 8]
    wanted: dict[Remainder, list[tuple[int, int]]] = {
        "difference": [(2, 2), (10, 10)],
        "rest": [(2, 2), (10, 10), (4, 4), (6, 6), (8, 8)],
    }
    for remainder, merged in wanted.items():
        found = rtm(records(a), records(b), (0,), 5, remainder)
        assert [(a[n], b[m]) for n, m in found] == merged
        assert pairs(driven(ranges(0, 5, remainder), a, b)) == merged


def test_the_next_block_is_read_when_the_first_cursor_is_at_its_end() -> None:
    """Cursor b is through {6, 6} while cursor a stands on 7: the rest of the range is asked for, and has 8."""
    a, b = [5, 7], [6, 6, 8]
    for remainder in ("rest", "difference"):
        found = rtm(records(a), records(b), (1,), 2, remainder)
        assert [(a[n], b[m]) for n, m in found] == [(5, 6), (7, 8)]
        assert pairs(driven(ranges(1, 2, remainder), a, b)) == [(5, 6), (7, 8)]


def test_order_does_not_matter_to_rtm() -> None:
    chance = random.Random(1)
    keys = list(range(300))
    a, b = chance.sample(keys, 300), chance.sample(keys, 300)
    assert sorted(pairs(driven(ranges(0, 25, "rest"), a, b))) == [(k, k) for k in keys]
    assert len(pairs(driven(merge(0, 25, 5), a, b))) < 100

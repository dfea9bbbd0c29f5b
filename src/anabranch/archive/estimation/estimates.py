"""What the whole is, as far as part of its rows can tell: values with bounds at a confidence.

Inside a stratum the rows read are a simple random sample without replacement of those there (`kernels.sampling`),
so the textbook holds (W. G. Cochran, *Sampling Techniques*, 3rd ed. 1977, chapters 2, 5, 6 and 9): totals by
stratum with finite population correction, rows outside the group or filter counted as zero, averages as ratios of
totals, keys as clusters. How far bounds reach on either side is said in `bounds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.archive.estimation.bounds import FEW, bounds, count_bounds, least_expected
from anabranch.archive.estimation.doubt import Doubt, doubt_of
from anabranch.archive.estimation.ends import Ends
from anabranch.archive.estimation.reasons import FEW as TOO_FEW
from anabranch.archive.estimation.reasons import GIVEN, KEYS, UNSEEN, UNTOLD, Case, Reasons, first_of
from anabranch.archive.estimation.strata import STRATUM
from anabranch.archive.estimation.sums import Drawn, Sums, sums_of, together
from anabranch.archive.estimation.variance import Design, design_of
from anabranch.errors import QueryError
from anabranch.kernels.groups import encode
from anabranch.kernels.moments import Powers, Spread, spread, totals, whole_totals

__all__ = ["STRATUM", "Drawn", "Estimates", "Sums", "estimates", "sums_of", "together"]

Floats = NDArray[np.float64]
Bounded = tuple[pa.Array, pa.Array, pa.Array]
"""Value, low and high, one entry per group."""


_LEAST_WHOLE, _MOST_WHOLE = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Estimates:
    """For each group and function a value and its bounds, and how much was read for it."""

    groups: list[pa.Array]
    """The key columns, one entry per group, in order of the keys."""
    columns: list[Bounded]
    """Doubles, NULL where there is no value or nothing can be said; sums of whole numbers as such, min and max in the
    type of their column."""
    withheld: list[Reasons]
    """For each function, why groups have no bounds, see `reasons`."""
    rows: Floats
    """How many of the rows read are of each group."""
    rows_read: int
    rows_there: int

    @property
    def fraction(self) -> float:
        """Rows read of those there."""
        return self.rows_read / self.rows_there if self.rows_there else 1.0


def estimates(sums: Sums, functions: Sequence[str], confidence: float = 0.95, *, whole_sums: bool = True) -> Estimates:
    """The answer to each function over the whole, from the sums of a part.

    `confidence` is the share of such answers whose bounds hold the truth, e.g. 0.95. `whole_sums`: sums of whole
    numbers are such, not doubles.
    """
    sums = sums.collapsed()
    design = design_of(sums)
    answers = [_column(sums, design, i, function, confidence, whole_sums) for i, function in enumerate(functions)]
    columns, withheld = [bounded for bounded, _ in answers], [reasons for _, reasons in answers]
    rows = design.by_group(sums.cells.rows)
    if not sums.keys:
        return Estimates([], columns, withheld, rows, sums.rows_read, sums.rows_there)
    coded = encode(list(sums.keys), sums.groups)
    order = np.argsort(coded.ranks()[coded.codes])
    at = pa.array(order)
    ordered = [(value.take(at), low.take(at), high.take(at)) for value, low, high in columns]
    keys = [key.take(at) for key in sums.keys]
    return Estimates(
        keys, ordered, [reasons[order] for reasons in withheld], rows[order], sums.rows_read, sums.rows_there
    )


def _column(
    sums: Sums, design: Design, i: int, function: str, confidence: float, whole_sums: bool
) -> tuple[Bounded, Reasons]:
    kept, given = sums.extremes[i], first_of(sums.groups, [])
    if kept is not None:
        return _one_sided(function, kept.by_group(), design.exact), given
    powers = sums.powers[i]
    if function == "count":
        if powers is None and sums.whole and not design.open:
            there = np.full(sums.groups, float(sums.rows_there))
            return _arrays(there, there, there, there >= 0), given
        found_by_chance = bool(sums.keys) or design.open
        return _count(design, sums.cells.rows if powers is None else powers.number, confidence, found_by_chance)
    ends = sums.ends[i]
    assert powers is not None, f"{function} needs a value"
    assert ends is not None
    if function == "avg":
        return _average(design, powers, ends, confidence, sums.told)
    total, why = _sum(design, powers, ends, confidence, sums.told)
    if not (whole_sums and sums.whole_numbers[i]):
        return total, why
    exact = whole_totals(powers, sums.cells.group, sums.groups) if design.exact else None
    return _whole(total, exact), why


def _count(
    design: Design, rows: NDArray[np.int64], confidence: float, found_by_chance: bool
) -> tuple[Bounded, Reasons]:
    """E. B. Wilson's bounds (1927) with the variance of the strata; what was seen is there for certain.

    `found_by_chance`: nobody would know of the group, had none of its rows been read.
    """
    ones = Spread((rows > 0).astype(np.float64), np.zeros(len(rows)), np.zeros(len(rows)))
    spreads = design.spreads(rows, ones)
    spreads = spreads._replace(slope=design.count_slope(rows, spreads))
    low, high = count_bounds(spreads, confidence)
    seen = design.by_group(rows)
    few = (spreads.sampled > 0) & (spreads.sampled <= FEW)
    if found_by_chance and few.any():
        certain = design.certain(rows)[few]
        weight = (spreads.value[few] - certain) / spreads.sampled[few]
        low[few] = np.minimum(low[few], certain + weight * least_expected(spreads.sampled[few], confidence))
    if design.unseen > 0 or design.lopsided:
        low, high = seen, np.full(len(seen), np.inf)
    high = np.minimum(high, design.most(seen))
    value, low, high = _arrays(spreads.value, np.maximum(low, seen), high, spreads.value >= 0)
    bounded = value, low, pc.if_else(pc.is_finite(high), high, None)
    without = bounded[2].is_null().to_numpy(zero_copy_only=False)
    why = first_of(design.groups, [Case(reason, without & holds) for reason, holds in _of_design(design)])
    return bounded, why


def _of_design(design: Design) -> list[Case]:
    """Why no answer from such a sample can have bounds."""
    return [Case(UNSEEN, design.unseen > 0), Case(KEYS, design.lopsided)]


def _sum(design: Design, powers: Powers, ends: Ends, confidence: float, told: bool) -> tuple[Bounded, Reasons]:
    centre = spread(powers)
    spreads = design.spreads(powers.number, centre, totals(powers))
    low, high = bounds(spreads, confidence, spreads.sampled)
    doubt = doubt_of(design, ends, design.showing(powers.number, centre), confidence)
    there = design.by_group(powers.number) > 0
    why = _why(design, ends, there, spreads.sampled == 0, doubt, told)
    low, high = doubt.widened(spreads.value, low, high)
    return _arrays(spreads.value, low, high, there, why > GIVEN), why


def _why(
    design: Design, ends: Ends, there: NDArray[np.bool_], few: NDArray[np.bool_], doubt: Doubt, told: bool
) -> Reasons:
    """Why sums and averages have no bounds, of groups that have a value."""
    cases = [
        Case(UNTOLD, not told and not design.exact),
        *_of_design(design),
        Case(TOO_FEW, few & (not design.exact) & (not ends.known)),
    ]
    reasons = first_of(design.groups, cases)
    return np.where(there, np.where(reasons == GIVEN, doubt.unknown, reasons), GIVEN)


def _whole(bounded: Bounded, exact: list[int] | None) -> Bounded:
    """Sums of whole numbers are whole numbers: exact ones as they are, estimates rounded, bounds to the outside."""
    absent = bounded[0].is_null().to_numpy(zero_copy_only=False)
    if exact is not None:
        if any(not _LEAST_WHOLE <= value <= _MOST_WHOLE for value in exact):
            raise QueryError("SUM_OVERFLOW", "a sum does not fit BIGINT", hint="write sum(CAST(… AS DOUBLE))")
        sure = pa.array(np.array(exact, np.int64), mask=absent)
        return sure, sure, sure
    value, low, high = (column.fill_null(0.0).to_numpy() for column in bounded)
    # Beyond 2⁵³ a double may lie beside the whole number that was meant.
    low = np.where(np.abs(low) < 2.0**53, low, np.nextafter(low, -np.inf))
    high = np.where(np.abs(high) < 2.0**53, high, np.nextafter(high, np.inf))
    ends = zip((np.rint(value), np.floor(low), np.ceil(high)), bounded, strict=True)
    whole = [pa.array(_integers(end), mask=column.is_null().to_numpy(zero_copy_only=False)) for end, column in ends]
    return whole[0], whole[1], whole[2]


def _integers(values: Floats) -> NDArray[np.int64]:
    """Doubles that are whole as integers, those beyond them as the last."""
    inside = np.abs(values) < 2.0**63
    numbers = np.where(inside, values, 0.0).astype(np.int64)
    return np.where(inside, numbers, np.where(values > 0, _MOST_WHOLE, _LEAST_WHOLE))


def _average(design: Design, powers: Powers, ends: Ends, confidence: float, told: bool) -> tuple[Bounded, Reasons]:
    """The ratio R of two totals, which varies as the total of y − R does."""
    centre = spread(powers)
    count, total = design.totals(powers.number.astype(np.float64)), design.totals(totals(powers))
    there = count > 0
    ratio = _ratio(total, count, np.zeros_like(total))
    off = centre._replace(mean=centre.mean - ratio[design.group])
    spreads = design.spreads(powers.number, off).times(np.divide(1.0, count, out=np.zeros_like(count), where=there))
    spreads = spreads._replace(value=ratio, variance=spreads.variance * design.lost(spreads.sampled)).as_of_few()
    low, high = bounds(spreads, confidence, spreads.sampled - 1)
    doubt = doubt_of(design, ends, design.showing(powers.number, centre), confidence)
    few = (spreads.sampled < 2) & (not design.exact)
    why = _why(design, ends, there, few, doubt, told)
    if ends.known and not design.exact:
        low, high = doubt.widened(ratio, low, high, np.maximum(count, 1))
        least, most = _reach_of_average(design, powers, ends, ratio)
        low, high = np.where(few, least, np.maximum(low, least)), np.where(few, most, np.minimum(high, most))
        ratio = np.clip(ratio, least, most)  # which rounding may have put it beside
    return _arrays(ratio, low, high, there, why > GIVEN), why


def _reach_of_average(design: Design, powers: Powers, ends: Ends, otherwise: Floats) -> tuple[Floats, Floats]:
    """Rows that were not read lie in their range, and the average between that and what is certain."""
    certain = design.certain(powers.number)
    sure = _ratio(design.certain(totals(powers)), certain, otherwise)
    low, high = ends.range
    return np.where(certain > 0, np.minimum(sure, low), low), np.where(certain > 0, np.maximum(sure, high), high)


def _ratio(total: Floats, count: Floats, otherwise: Floats) -> Floats:
    return np.divide(total, count, out=otherwise.copy(), where=count > 0)


def _one_sided(function: str, values: pa.Array, exact: bool) -> Bounded:
    nothing = pa.nulls(len(values), values.type)
    if exact:
        return values, values, values
    return (values, nothing, values) if function == "min" else (values, values, nothing)


def _arrays(
    value: Floats, low: Floats, high: Floats, there: NDArray[np.bool_], unknown: NDArray[np.bool_] | None = None
) -> Bounded:
    absent = ~there
    low, high = np.minimum(low, value), np.maximum(high, value)  # which rounding may have put them beside
    hidden = absent if unknown is None else absent | unknown
    return pa.array(value, mask=absent), pa.array(low, mask=hidden), pa.array(high, mask=hidden)

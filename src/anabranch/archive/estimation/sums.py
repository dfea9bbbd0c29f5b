"""What a reduced read tells about the whole: sums by stratum and group, to be added up and sent around.

Strata are fixed ranges of row numbers, so that whatever the files, tasks and batches were, the same rows give the
same strata. Rows that were all read are one exact stratum of their own. Where whole keys were kept instead of rows,
a key takes the place of a stratum (a cluster sample).

Everything here is additive: the sums of two reads are the sums of both. What they mean is said in `estimates`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.archive.estimation.ends import Ends, all_ends, ends_of, no_ends
from anabranch.archive.estimation.extremes import Extremes, distinct_of, extremes_of
from anabranch.archive.estimation.packing import packed, unpacked
from anabranch.archive.estimation.strata import (
    OPEN,
    OPEN_KEY,
    ROWS,
    Strata,
    both,
    collapsed,
    entries,
    strata_of,
    united,
)
from anabranch.archive.facts import ANYTHING, Range
from anabranch.kernels.groups import encode
from anabranch.kernels.moments import Powers, added, as_doubles, powers_of
from anabranch.kernels.sampling import lots
from anabranch.kernels.values import Column, floats, integers, one_array, valid

TWO_SIDED = ("count", "sum", "avg")
ESTIMATORS = (*TWO_SIDED, "min", "max", "count_distinct")
"""What can be told from part of the rows; of the last three only one side."""

Integers = NDArray[np.int64]


class Cells(NamedTuple):
    """One entry per stratum and group that has rows: where it belongs, and its rows that pass the filter."""

    stratum: Integers
    group: Integers
    rows: Integers


@dataclass(frozen=True)
class Sums:
    """Sums of a reduced read; `+` for those of several."""

    functions: tuple[str, ...]
    strata: Strata
    cells: Cells
    powers: tuple[Powers | None, ...]
    """For each value that is counted, summed or averaged, its power sums by cell; None for count(*)."""
    keys: tuple[pa.Array, ...]
    """The groups: key columns, one entry per group."""
    groups: int
    extremes: tuple[Extremes | None, ...]
    """For each value of min, max or count_distinct, what there is by group."""
    whole: bool
    """True if nothing was filtered or grouped: then count(*) is the number of rows there are."""
    complete: bool = False
    """True if all rows of each group were read, though not all groups."""
    ends: tuple[Ends | None, ...] = ()
    """For each value that is summed or averaged, how far the values of rows reach that stand for others."""
    apart: int = 0
    """Which rows were read in any case, as a number that tells one set of them from another."""
    whole_numbers: tuple[bool, ...] = ()
    """For each value, whether it is a whole number, and so its sum one."""
    told: bool = True
    """Whether whoever holds the rows said which lie far out."""

    def __add__(self, other: Sums) -> Sums:
        return together([self, other])

    def raised(self, keep: float) -> Sums:
        """The same sums as the first part of a read that keeps more; the rest is what was drawn `above` it."""
        kind, kept, unit, read, there = self.strata
        if keep < 1:
            strata = Strata(kind, np.where(kept < 1, keep, kept), unit, read, there)
            return together([dataclasses.replace(self, strata=strata)])
        strata = Strata(np.full_like(kind, ROWS), np.ones_like(kept), np.full_like(unit, -1), read, there)
        ends = tuple(None if known is None else no_ends(self.groups) for known in self.ends)
        return together([dataclasses.replace(self, strata=strata, ends=ends)])

    def collapsed(self) -> Sums:
        """The same with small strata taken together."""
        strata = collapsed(self.strata)
        alike = strata.unit is self.strata.unit
        return self if alike else together([dataclasses.replace(self, strata=strata)])

    def to_table(self) -> pa.Table:
        """The sums as a table of `packing.PACKED`, to be sent."""
        about = {
            "functions": ",".join(self.functions),
            "powers": ",".join(map(str, _firsts([id(p) for p in self.powers]))),
            "whole": str(int(self.whole)),
            "complete": str(int(self.complete)),
            "apart": str(self.apart),
            "told": str(int(self.told)),
            "whole_numbers": ",".join(str(int(is_whole)) for is_whole in self.whole_numbers),
        }
        cells = dict(zip(Cells._fields, self.cells, strict=True))
        for i in set(_firsts([id(p) for p in self.powers])):
            powers = self.powers[i]
            if powers is not None:
                cells[f"n{i}"] = powers.number
                cells.update({f"s{i}.{at}": np.ascontiguousarray(powers.sums[:, at]) for at in range(6)})
        groups = {"": pa.nulls(self.groups), **{str(i): key for i, key in enumerate(self.keys)}}
        ends: dict[str, pa.Array] = {}
        for i, reach in enumerate(self.ends):
            if reach is not None:
                ends |= {f"least{i}": pa.array(reach.least), f"most{i}": pa.array(reach.most)}
                about[f"range{i}"] = ",".join(end.hex() for end in reach.range)
        parts = [
            ("strata", pa.table(dict(zip(Strata._fields, self.strata, strict=True)))),
            ("cells", pa.table(cells)),
            ("groups", pa.table(groups).replace_schema_metadata(about)),
            ("ends", pa.table(ends)),
        ]
        for i, kept in enumerate(self.extremes):
            if kept is not None:
                parts.append((str(i), pa.table({"group": kept.group, "value": kept.values})))
        return packed(parts)

    @classmethod
    def from_table(cls, table: pa.Table) -> Sums:
        """What `to_table` gave, or several of them one after the other added up."""
        sums: list[Sums] = []
        parts: dict[str, pa.Table] = {}
        for name, part in unpacked(table):
            if name == "strata" and parts:
                sums.append(_from_parts(parts))
                parts = {}
            parts[name] = part
        sums.append(_from_parts(parts))
        return together(sums) if len(sums) > 1 else sums[0]

    @property
    def rows_read(self) -> int:
        return int(self.strata.read.sum())

    @property
    def rows_there(self) -> int:
        """How many rows there are; where that is not known, as many as were probably there."""
        kind, keep, _, read, there = self.strata
        unknown = (kind == OPEN) | (kind == OPEN_KEY)
        return int(there.sum() + np.rint((read[unknown] / keep[unknown]).sum()))


@dataclass(frozen=True)
class Drawn:
    """How a sample was drawn: of the rows start ≤ n < end the fraction `keep` was to be read.

    `by`: hashes of the keys, where whole keys were kept. `open`: how many rows there are is not known, since not all
    of them count. `above`: only rows beyond that smaller fraction were read, to be added to those of it
    (`Sums.raised`). `complete`: the groups are keys that were kept whole, so what was read of them is all there is.
    `far`: rows that were read in any case; `earlier`: the numbers of others such, whose sums were made with `above`.
    `ranges`: between which values those of all other rows lie, read or not, for each of the values. `told`: whether
    it was said which rows lie far out.
    """

    start: int
    end: int
    keep: float
    by: NDArray[np.uint64] | None = None
    open: bool = False
    above: float = 0.0
    complete: bool = False
    far: NDArray[np.bool_] | None = None
    earlier: Integers | None = None
    ranges: Sequence[Range] | None = None
    told: bool = True


def sums_of(
    sample: pa.Table,
    drawn: Drawn,
    groups: Sequence[Column],
    values: Sequence[Column | None],
    mask: Column | None,
    functions: Sequence[str] | None = None,
) -> Sums:
    """The sums of a sample (with `_row`).

    `groups`, `values` and `mask` (the filter) go with the rows of the sample; a value None is count(*). `functions`
    says what each value is wanted for (unless told: count(*), or sum and avg).
    """
    keep, complete, far = drawn.keep, drawn.complete, drawn.far
    wanted = tuple(functions) if functions is not None else tuple("count" if v is None else "sum" for v in values)
    rows: Integers = one_array(sample.column("_row")).to_numpy()
    strata, place = strata_of(rows, drawn.start, drawn.end, keep, drawn.by, drawn.open, drawn.above, far, drawn.earlier)
    stand_for = np.full(len(rows), keep < 1 and not complete)
    if far is not None:
        stand_for[far] = False
    if complete:
        strata = both(strata, entries([(ROWS, 1.0, -1, 0, 0)]))
        place = np.full(len(place), len(strata.kind) - 1)
    shared = [(id(value), function == "count") for function, value in zip(wanted, values, strict=True)]
    passed = None if mask is None else pc.fill_null(one_array(mask), False)
    if passed is not None:
        chosen = passed.to_numpy(zero_copy_only=False)
        place, stand_for = place[chosen], stand_for[chosen]
        groups = [one_array(column).filter(passed) for column in groups]
        values = [None if value is None else one_array(value).filter(passed) for value in values]
    coded = encode(groups, len(place))
    codes = coded.codes.astype(np.int64)
    size = coded.size
    cell, slots = _distinct(place * size + codes, len(strata.kind) * size)
    cells = Cells(cell // size, cell % size, np.bincount(slots, minlength=len(cell)).astype(np.int64))
    powers: dict[tuple[int, bool], Powers | None] = {}
    extremes: list[Extremes | None] = []
    ends: list[Ends | None] = []
    nothing_left = keep >= 1 or complete or drawn.end <= drawn.start
    for i, (which, function, value) in enumerate(zip(shared, wanted, values, strict=True)):
        reach = ANYTHING if drawn.ranges is None else drawn.ranges[i]
        ends.append(_ends(function, value, codes, size, None if nothing_left else stand_for, reach))
        if powers.get(which) is None:
            powers[which] = _powers(function, value, slots, len(cell), exact=keep >= 1 or complete)
        extremes.append(_extremes(function, value, codes, size))
    keys = tuple(coded.keys(np.arange(size, dtype=np.int32)))
    whole = mask is None and not groups and not complete
    of_each = tuple(
        powers[which] if function in TWO_SIDED else None for which, function in zip(shared, wanted, strict=True)
    )
    apart = 0 if far is None else number_of(rows[far])
    return Sums(
        wanted,
        strata,
        cells,
        of_each,
        keys,
        size,
        tuple(extremes),
        whole,
        complete,
        tuple(ends),
        apart,
        tuple(map(_is_whole, values)),
        drawn.told or nothing_left,
    )


def number_of(rows: Integers) -> int:
    """A number for a set of rows; that of two sets without a row in common is the sum, modulo 2⁶⁴."""
    return int(lots(rows, 0).sum(dtype=np.uint64))


def together(parts: Iterable[Sums]) -> Sums:
    """The sums of all parts; there must be one."""
    sums = list(parts)
    first = sums[0]
    labels = Strata(*(np.concatenate(columns) for columns in zip(*(s.strata for s in sums), strict=True)))
    strata, place = united(labels)
    keys, groups, code = _groups(sums)
    stratum_from = np.cumsum([0, *(len(s.strata.kind) for s in sums)])
    group_from = np.cumsum([0, *(s.groups for s in sums)])
    cell_stratum = np.concatenate([place[s.cells.stratum + at] for s, at in zip(sums, stratum_from, strict=False)])
    cell_group = np.concatenate([code[s.cells.group + at] for s, at in zip(sums, group_from, strict=False)])
    cell, slots = _distinct(cell_stratum * groups + cell_group, len(strata.kind) * groups)
    rows = np.zeros(len(cell), np.int64)
    np.add.at(rows, slots, np.concatenate([s.cells.rows for s in sums]))
    powers: list[Powers | None] = []
    extremes: list[Extremes | None] = []
    ends: list[Ends | None] = []
    shared = _firsts(list(zip(*(map(id, s.powers) for s in sums), strict=True)))
    for i in range(len(first.functions)):
        counted = [numbers for s in sums if (numbers := s.powers[i]) is not None]
        if shared[i] < i:
            powers.append(powers[shared[i]])
        else:
            powers.append(added(slots, _stacked(counted), len(cell)) if counted else None)
        kept = [values for s in sums if (values := s.extremes[i]) is not None]
        extremes.append(functools.reduce(Extremes.plus, kept).moved(code, groups) if kept else None)
        reach = [own_ends for s in sums if (own_ends := s.ends[i]) is not None]
        ends.append(all_ends(reach).moved(code, groups) if reach else None)
    whole = all(s.whole for s in sums)
    cells = Cells(cell // groups, cell % groups, rows)
    complete = all(s.complete for s in sums)
    apart = sum(s.apart for s in sums) % 2**64
    return Sums(
        first.functions,
        strata,
        cells,
        tuple(powers),
        keys,
        groups,
        tuple(extremes),
        whole,
        complete,
        tuple(ends),
        apart,
        first.whole_numbers,
        all(s.told for s in sums),
    )


def _groups(sums: Sequence[Sums]) -> tuple[tuple[pa.Array, ...], int, Integers]:
    """The groups of all parts, and for each group of each part its place among them."""
    if len(sums) == 1:
        return sums[0].keys, sums[0].groups, np.arange(sums[0].groups)
    columns = [pa.concat_arrays([s.keys[i] for s in sums]) for i in range(len(sums[0].keys))]
    coded = encode(columns, sum(s.groups for s in sums))
    return tuple(coded.keys(np.arange(coded.size, dtype=np.int32))), coded.size, coded.codes.astype(np.int64)


def _distinct(numbers: Integers, size: int) -> tuple[Integers, Integers]:
    """The different numbers (all below `size`), and the place of each among them."""
    if size <= 4 * len(numbers) + 1024:
        there = np.zeros(size, bool)
        there[numbers] = True
        place = np.cumsum(there) - 1
        return np.flatnonzero(there), place[numbers]
    coded = encode([pa.array(numbers)], len(numbers))
    return coded.dictionaries[0].to_numpy(), coded.codes.astype(np.int64)


def _firsts(things: Sequence[Hashable]) -> list[int]:
    """For each thing, where the same one stands first: several functions share the sums of one value."""
    seen: dict[Hashable, int] = {}
    return [seen.setdefault(thing, i) for i, thing in enumerate(things)]


def _powers(function: str, value: Column | None, slots: Integers, size: int, *, exact: bool) -> Powers | None:
    if value is None or function not in TWO_SIDED:
        return None
    present = valid(value)
    if function == "count":
        # Only how many: the values may be of any type.
        return Powers(np.bincount(slots[present], minlength=size).astype(np.int64), np.zeros((size, 6)))
    if _is_whole(value):
        values, lows = as_doubles(integers(value))
        return powers_of(slots, values, present, size, first_only=exact, lows=lows if lows.any() else None)
    return powers_of(slots, floats(value), present, size, first_only=exact)


def _is_whole(value: Column | None) -> bool:
    return value is not None and bool(pa.types.is_integer(value.type))


def _ends(
    function: str,
    value: Column | None,
    codes: Integers,
    size: int,
    stand_for: NDArray[np.bool_] | None,
    reach: Range,
) -> Ends | None:
    """The ends of a value, where rows `stand_for` others; None: nothing was left out."""
    if value is None or function not in ("sum", "avg"):
        return None
    if stand_for is None:
        return no_ends(size)
    return ends_of(codes, floats(value), stand_for & valid(value), size, reach)


def _extremes(function: str, value: Column | None, codes: Integers, size: int) -> Extremes | None:
    if value is None or function not in ("min", "max", "count_distinct"):
        return None
    if function == "count_distinct":
        return distinct_of(codes, one_array(value), size)
    return extremes_of(function, codes, one_array(value), size)


def _stacked(parts: Sequence[Powers]) -> Powers:
    return Powers(np.concatenate([p.number for p in parts]), np.concatenate([p.sums for p in parts]))


def _from_parts(parts: dict[str, pa.Table]) -> Sums:
    strata, cells, keyed = (parts[name] for name in ("strata", "cells", "groups"))
    about = keyed.schema.metadata
    functions = tuple(about[b"functions"].decode().split(",")) if about[b"functions"] else ()

    def numbers(table: pa.Table, name: str) -> NDArray[Any]:
        column: NDArray[Any] = one_array(table.column(name)).to_numpy()
        return column

    powers: dict[int, Powers | None] = {}
    extremes: list[Extremes | None] = []
    for i, function in enumerate(functions):
        kept = parts.get(str(i))
        extremes.append(
            None
            if kept is None
            else Extremes(function, numbers(kept, "group"), one_array(kept.column("value")), keyed.num_rows)
        )
        counted = f"n{i}" in cells.column_names
        sums = np.stack([numbers(cells, f"s{i}.{at}") for at in range(6)], axis=1) if counted else None
        powers[i] = None if sums is None else Powers(numbers(cells, f"n{i}"), sums)
    shared = [int(at) for at in about[b"powers"].decode().split(",")] if functions else []
    ends = [
        _ends_from(parts.get("ends"), about, i, keyed.num_rows) if function in ("sum", "avg") else None
        for i, function in enumerate(functions)
    ]
    return Sums(
        functions,
        Strata(*(numbers(strata, name) for name in Strata._fields)),
        Cells(*(numbers(cells, name) for name in Cells._fields)),
        tuple(powers[at] for at in shared),
        tuple(one_array(keyed.column(str(i))) for i in range(keyed.num_columns - 1)),
        keyed.num_rows,
        tuple(extremes),
        about[b"whole"] == b"1",
        about[b"complete"] == b"1",
        tuple(ends),
        int(about.get(b"apart", b"0")),
        _flags(about.get(b"whole_numbers", b""), len(functions)),
        about.get(b"told", b"1") == b"1",
    )


def _flags(said: bytes, count: int) -> tuple[bool, ...]:
    flags = tuple(flag == "1" for flag in said.decode().split(","))
    return flags if len(flags) == count else (False,) * count  # kept by a version that did not know


def _ends_from(table: pa.Table | None, about: dict[bytes, bytes], i: int, groups: int) -> Ends:
    said = about.get(f"range{i}".encode())
    if table is None or said is None:  # kept by a version that did not know
        return no_ends(groups, known=False)
    least, most = (one_array(table.column(f"{end}{i}")).to_numpy() for end in ("least", "most"))
    return Ends(least, most, Range(*map(float.fromhex, said.decode().split(","))))

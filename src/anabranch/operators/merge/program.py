"""What a merge is told, bound to the columns of its streams."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernels.values import Column
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.join.rows import named
from anabranch.operators.merge.keys import EqualColumns, Key
from anabranch.operators.merge.records import Ints
from anabranch.operators.merge.step import MergeAnswers, Merged
from anabranch.operators.windows.program import kept_rows
from anabranch.schema import TIME_TYPE

if TYPE_CHECKING:
    from anabranch.operators.merge.operator import Merge
    from anabranch.operators.merge.range_operator import RangeMerge

TIME = "_time"


@dataclass(frozen=True)
class Matching:
    """By what two streams are merged."""

    keys: tuple[Key, ...]
    by: tuple[EqualColumns, ...]


@dataclass(frozen=True)
class MergeProgram:
    """The parts of a merge, bound: for each further stream its keys; conditions and columns of the answer.

    `reads` are the columns needed of each source, `schemas` those columns as they are called here.
    """

    matchings: tuple[Matching, ...]
    conditions: tuple[Bound, ...]
    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: tuple[tuple[str, ...], ...]
    schemas: tuple[pa.Schema, ...]

    def answer(self, merged: Merged, answers: MergeAnswers, places: Mapping[str, Ints]) -> pa.Table:
        """Rows of the answer for records that were merged, with their places beside them."""
        table = joined(merged, answers)
        for name, values in places.items():
            table = table.append_column(name, pa.array(values))
        table = table.append_column(TIME, pa.array(answers.times, pa.int64()).view(TIME_TYPE))
        for condition in self.conditions:
            table = table.filter(pa.array(kept_rows(condition, table)))
        answer = project(table, self.columns, self.schema)
        for name in places:
            answer = answer.append_column(name, table.column(name))
        return answer


def joined(merged: Merged, answers: MergeAnswers) -> pa.Table:
    """The columns of both records of each answer; NULL where there is no partner."""
    return _joined(merged.left.table, merged.right.table, answers)


def matched(merged: Merged, answers: MergeAnswers, names: Sequence[str]) -> pa.Table:
    """Some of these columns."""
    sides = (side.table for side in (merged.left, merged.right))
    left, right = (table.select([name for name in table.column_names if name in names]) for table in sides)
    return _joined(left, right, answers)


def _joined(left: pa.Table, right: pa.Table, answers: MergeAnswers) -> pa.Table:
    names = [*left.column_names, *right.column_names]
    if not names:
        return pa.table({"__rows": pa.nulls(len(answers))})
    columns = [*_taken(left, answers.left), *_taken(right, answers.right)]
    return pa.Table.from_arrays(columns, names=names)


def _taken(table: pa.Table, places: Ints) -> list[Column]:
    if table.num_rows == 0:
        return [pa.nulls(len(places), field.type) for field in table.schema]
    table = table.combine_chunks()  # taking from a column in pieces would put it together, too, and more slowly
    missing = places < 0
    indices = pa.array(places, mask=missing) if missing.any() else pa.array(places)
    return [pc.take(column, indices) for column in table.columns]


def program_of(merge: Merge | RangeMerge, schemas: Iterable[pa.Schema]) -> MergeProgram:
    """The program of a merge over streams with these columns."""
    return _program_of(merge, tuple(schemas))


@functools.lru_cache(maxsize=256)
def _program_of(merge: Merge | RangeMerge, schemas: tuple[pa.Schema, ...]) -> MergeProgram:
    own = [named(alias, schema) for (alias, _), schema in zip(merge.sources, schemas, strict=True)]
    matchings = []
    before = own[0]
    for i, right in enumerate(own[1:]):
        keys = tuple(Key.of(bind(a, before), bind(b, right), tolerance) for a, b, tolerance in merge.keys[i])
        by = tuple(EqualColumns.of(bind(a, before), bind(b, right)) for a, b in merge.by[i])
        matchings.append(Matching(keys, by))
        before = pa.unify_schemas([before, right])
    everything = before.append(pa.field(TIME, TIME_TYPE))
    conditions = tuple(bind(sql, everything) for sql in merge.conditions)
    columns = tuple(bind(sql, everything) for _, sql in merge.columns)
    answer = pa.schema([(name, column.type) for (name, _), column in zip(merge.columns, columns, strict=True)])
    used: list[Bound] = [*conditions, *columns]
    for matching in matchings:
        used += [side for key in matching.keys for side in (key.left, key.right)]
        used += [side for equal in matching.by for side in (equal.left, equal.right)]
    wanted = set(columns_of(used, everything))
    kept = tuple(pa.schema([field for field in schema if field.name in wanted]) for schema in own)
    reads = tuple(tuple(schema.names) for schema in kept)
    return MergeProgram(tuple(matchings), conditions, columns, answer, reads, kept)

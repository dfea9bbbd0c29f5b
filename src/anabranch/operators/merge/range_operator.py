"""Merging a stream with one that answers range queries, in any order.

The R-tree merge (RTM) of M. Mazzucco et al. (2002, §4.2): blocks of the first stream are merged with what
their n-cube holds of the second. Blocks are a function of the rows and their times: as many rows as the
window has, or fewer where a round is due. A block sees the rows of the second stream that are no newer than
its own, or than the tolerance of the time allows; a data server is asked for all it has when the block is
merged. It keeps nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.dataspace.columns import ROW
from anabranch.dataspace.ranges import Ranges, ranges_of
from anabranch.errors import QueryError
from anabranch.kernels.exact import IS_DOUBLE, lie_between
from anabranch.kernels.groups import encode
from anabranch.kernels.values import integers, valid
from anabranch.log.offset import MAX_TIME, MIN_TIME
from anabranch.operators.base import Floor, Inputs, Keeps, KnownStreams, Offset, Offsets, Operator, Task
from anabranch.operators.join import completeness
from anabranch.operators.merge.explain import explain_merge
from anabranch.operators.merge.keys import Doubles, Key, Keyed, Numbers, Tolerance, limbs_of_doubles, tolerances
from anabranch.operators.merge.program import MergeProgram, program_of
from anabranch.operators.merge.range_rounds import Cube, Found, Ints, Pairs, merge_block, wider
from anabranch.operators.merge.records import Records
from anabranch.operators.merge.step import MergeAnswers, Merged, chunks

_FAR = MAX_TIME >> 1
"""A time that comes after all others, though nothing has ended then."""
_SLACK = 16
"""By how many times the distance of two doubles an index may be off that has decimals as doubles."""


class Block(NamedTuple):
    """Rows of the first stream, the time they are merged at, and before which time rows of the second are seen."""

    first: int
    end: int
    time: int
    sees: int


@dataclass(frozen=True)
class RangeMerge(Operator):
    """Records of a stream merged with those that range queries find; fields as those of `Merge`."""

    kind: ClassVar[str] = "range_merge"
    named_in_a_host: ClassVar[str] = "merge"

    sources: tuple[tuple[str, str], ...]
    keys: tuple[tuple[tuple[str, str, Tolerance], ...], ...]
    by: tuple[tuple[tuple[str, str], ...], ...]
    joins: tuple[Literal["inner", "left", "full", "anti"], ...]
    conditions: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    policy: Literal["first", "nearest", "all"] = "first"
    window: int = 5000
    every: int | None = 1_000_000
    remainder: Literal["rest", "difference"] = "rest"
    waits: bool = True
    """Whether the second stream is read up to the time of the first; else it is asked for all it has."""
    lag: int = 0
    """How much later (µs) than the first records of the second stream may be: so long a block waits."""

    def __post_init__(self) -> None:
        if len(self.sources) != 2:
            raise QueryError(
                "MERGE_NOT_POSSIBLE",
                "range queries merge two streams",
                hint="make a stream of the first two with CREATE STREAM … AS SELECT …",
            )
        if self.joins[0] == "full":
            raise QueryError(
                "MERGE_NOT_POSSIBLE",
                "with range queries nobody knows which records of the second stream find no partner",
                hint="write LEFT MERGE JOIN, or algorithm = 'cgm'",
            )

    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for alias, *_ in self.sources)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for _, stream in self.sources))

    def settled(self, streams: KnownStreams, *, once: bool = False) -> RangeMerge:
        """Range queries on a data server, or asked once, are about all there is; other streams are waited for."""
        if once or streams.is_elsewhere(self.sources[1][1]):
            return replace(self, waits=False)
        times = tuple(f"`{alias}.{streams.time_of(stream)}`" for alias, stream in self.sources)
        lags = [tolerance for left, right, tolerance in self.keys[0] if (left, right) == times]
        return replace(self, lag=int(min(lags, default=0)))

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self._program(inputs).schema

    def _program(self, inputs: Inputs) -> MergeProgram:
        return program_of(self, (inputs.readers[stream].schema for _, stream in self.sources))

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        blocks = self._blocks(start, end, inputs)
        if not blocks:
            return []
        parts = min(parallelism, len(blocks))
        cuts = [len(blocks) * i // parts for i in range(parts + 1)]
        shares = [blocks[low:high] for low, high in itertools.pairwise(cuts)]
        return [Task(dict(start), dict(end), {"blocks": [list(block) for block in share]}) for share in shares]

    def _blocks(self, start: Offsets, end: Offsets, inputs: Inputs) -> list[Block]:
        """The blocks that are known at the end and were not at the start."""
        name = self.sources[0][1]
        reader, before, known = inputs.readers[name], self._ripe(start), self._ripe(end)
        if known == before:
            return []
        first = self._first_row(before, start[name], inputs)
        until = end[name].row if known == MAX_TIME else reader.row_at_time(known, end[name].row)
        times = integers(reader.read(first, until, [reader.time_column]).column(0))
        every = self.every or 0
        spans = times // every if every else np.zeros(len(times), np.int64)
        edges = [0, *(np.flatnonzero(np.diff(spans)) + 1).tolist(), len(times)]
        blocks = []
        for low, high in itertools.pairwise(edges):
            for at in range(low, high, self.window):
                rows = min(self.window, high - at)
                if rows == self.window:  # full: known as soon as its last row is
                    time = int(times[at + rows - 1])
                    if time >= before:
                        blocks.append(Block(first + at, first + at + rows, time + self.lag, time + 1 + self.lag))
                    continue
                due = (int(spans[at]) + 1) * every if every else MAX_TIME
                if before < due <= known:
                    time = due if due < MAX_TIME else int(times[at + rows - 1]) + 1
                    blocks.append(Block(first + at, first + at + rows, time + self.lag, time + self.lag))
        return blocks

    def _ripe(self, at: Offsets) -> int:
        """The time up to which rows of the first stream can be merged."""
        reached = self.reached(at)
        return reached if reached in (MIN_TIME, MAX_TIME) else reached - self.lag

    def _first_row(self, before: int, start: Offset, inputs: Inputs) -> int:
        """From where blocks are counted that may have been incomplete before."""
        reader = inputs.readers[self.sources[0][1]]
        if before == MIN_TIME:
            return reader.first_row()
        if self.every:
            return reader.row_at_time(before // self.every * self.every, start.row)
        return reader.row_at_time(before, start.row) // self.window * self.window

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        program = self._program(inputs)
        stream = self.sources[1][1]
        ranges = ranges_of(inputs.readers[stream], self._asked_columns(program))
        reached = self.reached(task.start)
        for block in (Block(*fields) for fields in task.detail["blocks"]):
            block = block._replace(time=max(block.time, reached))
            below = task.end[stream].row
            if self.waits:
                below = inputs.readers[stream].row_at_time(block.sees, below)
            merged, answers = self._merged(program, block, ranges, below, inputs)
            yield from program.answer(merged, answers, {}).to_batches()

    def _asked_columns(self, program: MergeProgram) -> list[str]:
        """The columns of the second stream that cubes are of."""
        alias, names = self.sources[1][0], []
        for key in program.matchings[0].keys:
            if not key.right.is_column:
                raise QueryError(
                    "MERGE_NOT_POSSIBLE",
                    f"range queries are about columns, and {key.right.sql} is computed",
                    hint="put the column of the second stream alone, and compute on the other side",
                )
            names.append(key.right.columns[0][len(alias) + 1 :])
        return list(dict.fromkeys(names))

    def _merged(
        self, program: MergeProgram, block: Block, ranges: Ranges, below: int, inputs: Inputs
    ) -> tuple[Merged, MergeAnswers]:
        alias_a, stream_a = self.sources[0]
        own = [name[len(alias_a) + 1 :] for name in program.reads[0]]
        table = inputs.readers[stream_a].read(block.first, block.end, own).rename_columns(list(program.reads[0]))
        matching = program.matchings[0]
        keyed = Keyed.of(matching.keys, 0, table)
        by, usable = [equal.values(0, table) for equal in matching.by], keyed.usable
        for column in by:
            usable &= valid(column)
        places = np.flatnonzero(usable)
        groups = [column.take(pa.array(places)) for column in by]
        asked = _Asked(self, program, ranges, below, groups, as_doubles=keyed.suits_doubles)
        block_keys = asked.of_block(keyed.numbers(as_doubles=keyed.suits_doubles)[:, places])
        pairs = merge_block(block_keys, asked.ask, asked.tolerance, self.policy, self.remainder, asked.keep)
        inputs.work.rows_read += table.num_rows + asked.rows_read
        inputs.work.bytes_read += table.nbytes + asked.bytes_read
        partners, right = asked.partners(pairs)
        left = places[pairs.left]
        missing = np.setdiff1d(np.arange(table.num_rows), left)
        share = completeness.counted(table.num_rows - len(missing), table.num_rows)
        inputs.work.report(completeness.KIND, share)
        if self.joins[0] == "anti":
            left, right = missing, np.full(len(missing), -1)
        elif self.joins[0] == "left":
            left, right = np.concatenate([left, missing]), np.concatenate([right, np.full(len(missing), -1)])
        count = len(left)
        answers = MergeAnswers(left, right, np.full(count, block.time), np.zeros(count, np.int64))
        none = np.zeros(0, np.int64)
        return Merged(answers, Records.new(table, none, 0), Records.new(partners, none, 0)), answers

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        first, second = (end[stream].time for _, stream in self.sources)
        return min(first, second) if self.waits else first

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """The next block is merged when its period is over, or when no row of its last time can come."""
        in_time = {name: offset._replace(time=_FAR) for name, offset in at.items()}
        blocks = self._blocks(at, in_time, inputs)
        if not blocks:
            return {}
        ripe = min(block.sees for block in blocks)
        names = self.inputs if self.waits else self.inputs[:1]
        return {name: ripe for name in names if at[name].time < ripe}

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Of the first stream what is in no complete block; of the second everything: any cube may be asked for."""
        axis, (first, second) = self._ripe(at), (stream for _, stream in self.sources)
        since = MIN_TIME if axis == MIN_TIME or not self.every else axis // self.every * self.every
        floors = {first: Floor(at[first].row, since) if self.every else Floor(at[first].row, axis, self.window)}
        return {**floors, second: Floor(0)}

    def keeps(self) -> Keeps | None:
        return None

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        every = "when a window is full" if self.every is None else f"every {self.every / 1e6:g} s, or a full window"
        how = {"algorithm": "rtm", "window": self.window, "rounds": every, "remainder": self.remainder}
        return explain_merge(self, self.keeps(), **how)


class _Asked:
    """Asks for the records of cubes, and keeps those that have a partner.

    Equal columns are one more key, with a number for each value and a tolerance of 0; it is no part of the
    cubes that are asked for.
    """

    def __init__(
        self, merge: RangeMerge, program: MergeProgram, ranges: Ranges, below: int, by: list[Any], *, as_doubles: bool
    ) -> None:
        alias = merge.sources[1][0]
        self._window = merge.window
        self._matching = program.matchings[0]
        self._ranges = ranges
        self._below = below
        self._by = by
        self._as_doubles = as_doubles
        self._columns = list(program.reads[1])
        self._names = [name[len(alias) + 1 :] for name in self._columns]
        self._last: tuple[pa.Table, Ints] = program.schemas[1].empty_table(), np.empty(0, np.int64)
        self._kept = [self._last]
        self._tolerance = tolerances(self._matching.keys, as_doubles=as_doubles)
        self.rows_read = 0
        self.bytes_read = 0

    @property
    def tolerance(self) -> Numbers:
        if not self._by:
            return self._tolerance
        nothing = np.zeros(1) if self._as_doubles else np.array([[IS_DOUBLE, 0, 0, 0, 0]], np.uint64)
        return np.concatenate([self._tolerance, nothing])

    def of_block(self, keys: Numbers) -> Numbers:
        """The keys of the block, and where its records are of groups, the place of the first of the same group."""
        return np.ascontiguousarray(self._with_groups(keys, self._groups([])[0]) if self._by else keys)

    def _with_groups(self, keys: Numbers, groups: Doubles) -> Numbers:
        return np.concatenate([keys, groups[None] if self._as_doubles else limbs_of_doubles(groups)[None]])

    def _groups(self, by: list[Any]) -> tuple[Doubles, Doubles]:
        """For records of the block and others the first record of the block with the same values, or -1."""
        known = len(self._by[0])
        columns = [
            pa.chunked_array([*chunks(a), *chunks(b)]) for a, b in zip(self._by, by or self._none(), strict=True)
        ]
        groups = encode(columns, len(columns[0]))
        firsts = np.full(groups.size, -1.0)
        firsts[groups.codes[:known][::-1]] = np.arange(known)[::-1]
        return firsts[groups.codes[:known]], firsts[groups.codes[known:]]

    def _none(self) -> list[Any]:
        return [column.slice(0, 0) for column in self._by]

    def ask(self, cube: Cube, without: Cube | None, after: int) -> Found:
        """The next records that are within tolerance of a cube: a window of them, if there are as many."""
        parts: list[tuple[pa.Table, Ints, Numbers]] = []
        left, more = self._window, True
        while left > 0 and more:
            table, more = self._ranges.query_rows(
                *self._range(cube, 1),
                left,
                columns=self._names,
                below=self._below,
                without=None if without is None else self._range(without, -1),
                after=after,
            )
            self.rows_read += table.num_rows
            self.bytes_read += table.nbytes
            parts.append(self._inside(table, cube, without))
            left -= len(parts[-1][1])
            after = int(table.column(ROW)[-1].as_py()) if more else after
        rows = np.concatenate([rows for _, rows, _ in parts])
        keys = np.concatenate([keys for _, _, keys in parts], axis=1)
        self._last = pa.concat_tables([table for table, _, _ in parts]), rows
        seen = Cube.around(keys) if len(rows) else None
        if self._by:
            groups = self._groups([equal.values(1, self._last[0]) for equal in self._matching.by])[1]
            of_any = groups >= 0
            keys, rows = self._with_groups(keys, groups)[:, of_any], rows[of_any]
        return Found(np.ascontiguousarray(keys), rows, seen, after if more else None)

    def _inside(self, table: pa.Table, cube: Cube, without: Cube | None) -> tuple[pa.Table, Ints, Numbers]:
        """What a range has that was meant, with its row numbers and keys: ranges are of doubles."""
        records = table.drop_columns([ROW]).rename_columns(self._columns)
        keyed = Keyed.of(self._matching.keys, 1, records)
        keys = keyed.numbers(as_doubles=self._as_doubles)
        asked = len(self._matching.keys)
        meant = keyed.usable & lie_between(keys, cube.low[:asked], cube.high[:asked], self._tolerance, True)
        if without is not None:
            meant &= ~lie_between(keys, without.low[:asked], without.high[:asked], self._tolerance, False)
        places = np.flatnonzero(meant)
        rows = integers(table.column(ROW))
        if len(places) < len(rows):
            records, rows, keys = records.take(pa.array(places)), rows[places], keys[:, places]
        return records, rows, keys

    def _range(self, cube: Cube, widens: Literal[1, -1]) -> tuple[Doubles, Doubles]:
        """The range to ask for: all that is within tolerance of a cube, or (-1) nothing that is not in it."""
        spans: dict[str, tuple[float, float]] = {}
        for i, key in enumerate(self._matching.keys):
            low, high = _span(key, cube.low[i, 0], cube.high[i, 0], widens)
            least, most = spans.get(key.right.columns[0], (low, high))
            spans[key.right.columns[0]] = max(low, least), min(high, most)
        return np.array([low for low, _ in spans.values()]), np.array([high for _, high in spans.values()])

    def keep(self, rows: Ints) -> None:
        """Keep the records of these numbers, all of the last that were found."""
        records, numbers = self._last
        places = np.flatnonzero(np.isin(numbers, rows))
        self._kept.append((records.take(pa.array(places)), numbers[places]))

    def partners(self, pairs: Pairs) -> tuple[pa.Table, Ints]:
        """The records that were kept, and the place of each pair's partner among them."""
        numbers = np.concatenate([rows for _, rows in self._kept])
        order = np.argsort(numbers, kind="stable")
        return pa.concat_tables([table for table, _ in self._kept]), order[np.searchsorted(numbers[order], pairs.right)]


def _span(key: Key, low: Any, high: Any, widens: Literal[1, -1]) -> tuple[float, float]:
    """From where to where a key is asked for, as the stream's own values, which an index has as doubles."""
    if key.inexact:
        least, most = key.double(low), key.double(high)
        return wider(least, most, key.width) if widens > 0 else (least, most)
    tolerance = key.tolerance if widens > 0 else 0
    least, most = (float(end / 10**key.scale) for end in (key.number(low) - tolerance, key.number(high) + tolerance))
    slack = widens * _SLACK * float(np.spacing(max(abs(least), abs(most))))
    return least - slack, most + slack

"""The merging of one micro-batch: what waits is taken up, new rows are merged, what waits then is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from anabranch.errors import QueryError
from anabranch.kernels.hashing import hashes_of_rows
from anabranch.kernels.merge import DROPPED_A, DROPPED_B, LAST, MERGED, NEVER, REACHED, Known
from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Inputs, Offset, Offsets, Task, time_of_row
from anabranch.operators.join import completeness
from anabranch.operators.merge.completeness import KeySample, cell_width
from anabranch.operators.merge.counts import KIND as MERGES
from anabranch.operators.merge.keys import EqualColumns
from anabranch.operators.merge.pacing import Pacing, RecordClock
from anabranch.operators.merge.program import MergeProgram, joined
from anabranch.operators.merge.records import Flags, Ints, Records
from anabranch.operators.merge.step import (
    MergeAnswers,
    Merged,
    MergeGroups,
    Rules,
    WaitingRecords,
    counts,
    next_due,
    run_step,
)
from anabranch.operators.state import SavedState, StateFiles

if TYPE_CHECKING:
    from anabranch.operators.merge.operator import Merge


class MergeRun:
    """The merging of one micro-batch."""

    def __init__(
        self, merge: Merge, program: MergeProgram, rules: list[Rules], inputs: Inputs, share: tuple[int, int]
    ) -> None:
        self._merge = merge
        self._program = program
        self._rules = rules
        self._inputs = inputs
        self._share = share
        self._files = state_files(merge, inputs)
        self._pacing: Pacing
        self._waiting: list[WaitingRecords] = []
        self._sequence: list[int] = []

    def batch(self, task: Task, *, sampled: bool) -> tuple[Merged, MergeAnswers]:
        """What the micro-batch answers."""
        self._begin(task.start)
        before = self._totals()
        merged, answers = self._advance(task.start, task.end, sampled=sampled)
        if sampled:
            matched, *dropped = (self._totals() - before).tolist()
            self._inputs.work.report(completeness.KIND, completeness.counted(matched, matched + min(dropped)))
            self._inputs.work.rows_thrown += sum(dropped)
        return merged, answers

    def _totals(self) -> Ints:
        """How many records the last merge has merged, and dropped of each side."""
        return self._waiting[-1].groups.totals[[MERGED, DROPPED_A, DROPPED_B]]

    def _begin(self, start: Offsets) -> None:
        """Take up what was kept at the start; if it is lost, begin with the first row again."""
        self._pacing = self._merge.pacing(start, self._inputs)
        loaded = self._files.load(self._merge.state_name(start, self._inputs))
        if loaded is not None:
            self._take_up(loaded)
            return
        self._waiting = [self._nothing(i) for i in range(len(self._rules))]
        self._sequence = [0] * len(self._rules)
        if self._merge.is_beginning(start):
            return
        for name in self._merge.inputs:
            if self._inputs.readers[name].first_row() > 0:
                raise QueryError(
                    "MERGE_STATE_LOST",
                    f'what the merge keeps is lost, and the first rows of stream "{name}" are gone',
                    hint="drop the query and create it again: it begins with the rows there are",
                )
        self._pacing = self._merge.pacing(dict.fromkeys(start, Offset()), self._inputs)
        self._advance(dict.fromkeys(start, Offset()), start, sampled=True)

    def _advance(self, start: Offsets, end: Offsets, *, sampled: bool) -> tuple[Merged, MergeAnswers]:
        """Merge the rows between two offsets."""
        pacing = self._pacing
        low, high, clock = pacing.rows(start), pacing.rows(end), pacing.clock(start, end)
        reached, all_known = self._merge.reached(start), pacing.known(end)
        streams = [stream for _, stream in self._merge.sources]
        left, latest = self._records(0, low, high, clock), MIN_TIME
        ahead = 0 if pacing.base is None else pacing.base[streams[0]] - pacing.base[streams[1]]
        known = Known(all_known, pacing.sure(end), pacing.by_rows, ahead)
        for i, rules in enumerate(self._rules):
            right = self._records(i + 1, low, high, clock)
            waiting = self._waiting[i]
            waiting = replace(waiting, right=clock.timed(streams[i + 1], waiting.right))
            if i == 0:
                waiting = replace(waiting, left=clock.timed(streams[0], waiting.left))
            merged, self._waiting[i] = run_step(rules, waiting, left, right, known, sampled=sampled)
            answers = merged.answers
            if rules.join == "anti":
                answers = answers.at(np.flatnonzero(answers.right < 0))
            latest = _latest(merged, self._waiting[i], latest)
            if i + 1 < len(self._rules):
                left = Records.new(joined(merged, answers), np.minimum(answers.times, LAST), self._sequence[i])
                self._sequence[i] += len(answers)
                # What comes out later is not older than what is known of all streams.
                known = Known.until(min(all_known, pacing.sure(end)))
        return merged, answers.shown(max(latest, reached, pacing.newest(end)))

    def _records(self, source: int, low: dict[str, int], high: dict[str, int], clock: RecordClock) -> Records:
        """New rows of a source."""
        alias, stream = self._merge.sources[source]
        reader = self._inputs.readers[stream]
        names = self._program.reads[source]
        own = [name[len(alias) + 1 :] for name in names]
        table = reader.read(low[stream], high[stream], list(dict.fromkeys([reader.time_column, *own])))
        if self._share[0] == 0:
            self._inputs.work.rows_read += table.num_rows
            self._inputs.work.bytes_read += table.nbytes
        times = integers(table.column(reader.time_column))
        records = Records.new(table.select(own).rename_columns(list(names)), times, low[stream])
        if self._pacing.by_rows:
            records = clock.timed(stream, replace(records, times=np.full(len(records), NEVER)))
        return self._shared(records, source)

    def _shared(self, records: Records, source: int) -> Records:
        """Where tasks share the groups out, the records of this task's groups."""
        part, parts = self._share
        if parts == 1 or len(records) == 0:
            return records
        mine = _part_of(self._rules[0].by, source, records.table, part, parts)
        return records.at(np.flatnonzero(mine))

    def due(self, at: Offsets) -> int | None:
        """The time at which there is a round though no row comes; None if there is none."""
        self._begin(at)
        pacing, times = self._pacing, [NEVER]
        low = high = pacing.rows(at)
        if not pacing.by_rows:
            # Rows that not all streams have reached are still in the log; a window of them tells what comes next.
            high = {name: min(at[name].row, row + self._merge.window) for name, row in low.items()}
        clock, known = pacing.clock(at, at), Known(pacing.known(at), pacing.sure(at), pacing.by_rows)
        for i, (rules, waiting) in enumerate(zip(self._rules, self._waiting, strict=True)):
            if i == 0:
                waiting = replace(waiting, left=waiting.left.followed_by(self._records(0, low, high, clock)))
            right = waiting.right.followed_by(self._records(i + 1, low, high, clock))
            times.append(next_due(rules, replace(waiting, right=right), known))
            known = Known.until(known.time)
        if not pacing.by_rows:
            for stream in self._merge.inputs:
                if high[stream] < at[stream].row:
                    times.append(time_of_row(self._inputs.readers[stream], high[stream]) + 1)
        return None if min(times) >= LAST else min(times)

    # -- state -------------------------------------------------------------------------------------

    def _nothing(self, step: int) -> WaitingRecords:
        fields = [field for schema in self._program.schemas[: step + 1] for field in schema]
        left, right = pa.schema(fields).empty_table(), self._program.schemas[step + 1].empty_table()
        none = np.empty(0, np.int64)
        rules = self._rules[step]
        return WaitingRecords(
            Records.new(left, none, 0),
            Records.new(right, none, 0),
            MergeGroups.none(rules),
            KeySample.empty(len(rules.keys)),
        )

    def save(self, start: Offsets, end: Offsets, part: int, parts: int) -> None:
        """Keep what waits at the end of a micro-batch."""
        tables: dict[str, pa.Table] = {}
        for i, waiting in enumerate(self._waiting):
            tables[f"left{i}"], tables[f"right{i}"] = waiting.left.to_table(), waiting.right.to_table()
            groups = waiting.groups
            numbers = {f"by{j}": column for j, column in enumerate(groups.keys)}
            rings = groups.rings.reshape(len(groups.rings), 3 * self._merge.over)
            tables[f"groups{i}"] = pa.table({**numbers, "control": _lists(groups.control), "ring": _lists(rings)})
            tables[f"sample{i}"] = waiting.sample.to_table()
        facts = {
            "sequence": self._sequence,
            "parts": [waiting.sample.part for waiting in self._waiting],
            "gone": [waiting.groups.gone.tolist() for waiting in self._waiting],
            "base": self._pacing.base,
            "aliases": self._merge.aliases(),
        }
        state = SavedState(tables, facts)
        names = [self._merge.state_name(at, self._inputs) for at in (end, start)]
        self._files.save(names[0], names[1], part, parts, state, self._wanted)
        held = [table for name, table in tables.items() if name.startswith(("left", "right"))]
        self._inputs.work.keeps(sum(table.num_rows for table in held), sum(table.nbytes for table in held))

    def _wanted(self) -> set[str]:
        """The names of states from which someone may go on who shares them."""
        streams = self._merge.inputs
        places = [{name: at[name] for name in streams} for at in self._inputs.places]
        return {self._merge.state_name(at, self._inputs) for at in places}

    def _records_kept(self, state: SavedState, side: str, sources: range) -> Records:
        """Records of some sources as they are called here: what is shared has more columns, and other names."""
        records = Records.from_table(state.tables[side])
        kept_as, called = state.facts.get("aliases", self._merge.aliases()), self._merge.aliases()
        names = [(name, source) for source in sources for name in self._program.schemas[source].names]
        there = [f"{kept_as[source]}{name[len(called[source]) :]}" for name, source in names]
        table = records.table.select(there).rename_columns([name for name, _ in names])
        return replace(records, table=table)

    def _take_up(self, states: list[SavedState]) -> None:
        """What was kept, by however many tasks."""
        self._sequence = list(states[0].facts["sequence"])
        for i, rules in enumerate(self._rules):
            sides = ((f"left{i}", range(i + 1)), (f"right{i}", range(i + 1, i + 2)))
            both = [
                self._kept([self._records_kept(state, side, sources) for state in states], at)
                for at, (side, sources) in enumerate(sides)
            ]
            table = pa.concat_tables([state.tables[f"groups{i}"] for state in states]).combine_chunks()
            keys = [table.column(f"by{j}") for j in range(len(rules.by))]
            control, rings = _matrix(table.column("control")), _matrix(table.column("ring"))
            gone = self._gone([state.facts["gone"][i] for state in states])
            groups = MergeGroups(keys, control, rings.reshape(len(control), rules.over, 3), gone)
            if self._share[1] > 1:
                groups = groups.only(_hashed_to(keys, len(control), *self._share))
            samples = [state.tables[f"sample{i}"] for state in states]
            parts = [state.facts["parts"][i] for state in states]
            sample = KeySample.from_tables(samples, parts, cell_width(rules.widths))
            if self._share[0] > 0:
                sample = KeySample.empty(len(rules.keys))
            self._waiting.append(WaitingRecords(both[0], both[1], groups, sample))

    def _gone(self, sums: list[list[int]]) -> Ints:
        """What tasks counted of groups they have let go; one of them counts on for all."""
        gone = np.array(sums, np.int64)
        reached = gone[:, REACHED].max()
        gone = gone.sum(axis=0) if self._share[0] == 0 else np.zeros(gone.shape[1], np.int64)
        gone[REACHED] = reached
        return gone

    def _kept(self, records: list[Records], source: int) -> Records:
        together = records[0]
        for more in records[1:]:
            together = together.followed_by(more)
        return self._shared(together, source)

    def report(self) -> None:
        """Say how complete the merges are."""
        self._inputs.work.report(MERGES, self._counts())

    def counts_kept(self, at: Offsets) -> list[dict[str, Any]] | None:
        """How complete they were at an offset; None if nothing is kept of it."""
        states = self._files.load(self._merge.state_name(at, self._inputs))
        if states is None:
            return None
        self._take_up(states)
        return self._counts()

    def _counts(self) -> list[dict[str, Any]]:
        aliases = [alias for alias, _ in self._merge.sources]
        said = []
        for i, (rules, waiting) in enumerate(zip(self._rules, self._waiting, strict=True)):
            left = aliases[0] if i == 0 else "+".join(aliases[: i + 1])
            said.append(
                {**counts(rules, waiting), "left": left, "right": aliases[i + 1], "promised": self._merge.delta}
            )
        return said


def state_files(merge: Merge, inputs: Inputs) -> StateFiles:
    """Where what waits is kept."""
    identity = [inputs.readers[stream].identity for stream in merge.inputs]
    return StateFiles(inputs.scratch, "merge", f"{merge!r} {identity}")


def _latest(merged: Merged, waiting: WaitingRecords, before: int) -> int:
    """The latest time of a merge: what comes out when its streams have ended comes then.

    Records that came from another merge for that reason have the latest time of that one, `before`.
    """
    reached = np.append(waiting.groups.control[:, REACHED], waiting.groups.gone[REACHED])
    seen = [merged.left.times, merged.right.times, merged.answers.times, reached]
    latest = max(int(times[times < LAST].max(initial=MIN_TIME)) for times in seen)
    return max(latest, before) if (merged.left.times >= LAST).any() else latest


def _part_of(by: tuple[EqualColumns, ...], side: int, table: pa.Table, part: int, parts: int) -> Flags:
    return _hashed_to([equal.values(side, table) for equal in by], table.num_rows, part, parts)


def _hashed_to(keys: list[Any], count: int, part: int, parts: int) -> Flags:
    mine: Flags = hashes_of_rows(keys, count) % np.uint64(parts) == np.uint64(part)
    return mine


def _lists(matrix: Ints) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel(), pa.int64()), matrix.shape[1])


def _matrix(column: pa.ChunkedArray) -> Ints:
    lists = column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], column.type)
    return np.array(lists.flatten().to_numpy(zero_copy_only=False)).reshape(len(lists), column.type.list_size)

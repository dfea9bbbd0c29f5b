"""Merging streams within a tolerance, as they come in nearly in order.

The continuously generated data merge (CGM) of M. Mazzucco et al. (2002, §4.1), for any number of keys and
streams. Rounds are a function of the rows and their times, see `kernels.merge`; how far streams are read for them
is said by `pacing`. What waits in the windows is kept in a file for each offset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa

from anabranch.dataspace.columns import POSITION
from anabranch.errors import QueryError
from anabranch.kernels.values import integers
from anabranch.log.offset import MAX_TIME, MIN_TIME
from anabranch.operators.base import Floor, Inputs, Keeps, Offsets, Operator, Shared, Task, Work
from anabranch.operators.merge import counts
from anabranch.operators.merge.explain import explain_merge
from anabranch.operators.merge.keys import Tolerance
from anabranch.operators.merge.pacing import ByRows, ByTime, Pacing
from anabranch.operators.merge.program import MergeProgram, program_of
from anabranch.operators.merge.run import MergeRun, state_files
from anabranch.operators.merge.step import BYTES_PER_RECORD, POLICIES, MergeAnswers, Merged, Rules, order_of

ROWS_PER_TASK = 200_000
"""Below this, starting another task costs more than it gains."""
_ROWS_PER_BATCH = 1 << 17
_PLACE = "__place_"
_bases: dict[str, dict[str, int]] = {}
"""Where queries began, which does not change."""


@dataclass(frozen=True)
class Merge(Operator):
    """Records of `sources`, each (alias, stream), merged one source after the other.

    For each further source: `keys` are (left SQL, right SQL, tolerance), `by` equal columns (left, right), inside
    which it is merged, `joins` what becomes of records without a partner. SQL is over columns named
    `alias.column`; `conditions` are about merged records, `columns` are (name, SQL), both also over `_time`.
    """

    kind: ClassVar[str] = "merge"
    named_in_a_host: ClassVar[str] = "merge"
    why_throw: ClassVar[str] = "records that left their window without a partner"
    scratch_is_state: ClassVar[bool] = True

    sources: tuple[tuple[str, str], ...]
    keys: tuple[tuple[tuple[str, str, Tolerance], ...], ...]
    by: tuple[tuple[tuple[str, str], ...], ...]
    joins: tuple[Literal["inner", "left", "full", "anti"], ...]
    conditions: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    time: str
    policy: Literal["first", "nearest", "all"] = "first"
    window: int = 5000
    step: int = 1000
    every: int | None = 1_000_000
    delta: float | None = None
    over: int = 20
    memory: int = 64 << 20
    pace: Literal["time", "rows"] = "time"
    """Whether streams are read up to the same time, or as many rows of each."""
    wait: int | None = None
    """How long (µs) a record waits in its window at most, in the time of the streams."""

    def __post_init__(self) -> None:
        if not 1 <= self.step <= self.window:
            raise QueryError(
                "MERGE_STEP_INVALID",
                f"a step takes 1 to {self.window} records, as many as the window has room for; got {self.step}",
            )

    def aliases(self) -> tuple[str, ...]:
        return tuple(alias for alias, *_ in self.sources)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(stream for _, stream in self.sources))

    def shared(self, schema_of: Callable[[str], pa.Schema]) -> Shared:
        from anabranch.operators.merge.sharing import shared_merge  # with the parser, which only planning needs

        return shared_merge(self, schema_of)

    @property
    def paced_by(self) -> Literal["time", "rows"]:
        return self.pace

    def schema(self, inputs: Inputs) -> pa.Schema:
        timeless = {stream: inputs.readers[stream].time_column == POSITION for stream in self.inputs}
        if len(set(timeless.values())) > 1:
            without = next(stream for stream in timeless if timeless[stream])
            raise QueryError(
                "MERGE_NOT_POSSIBLE",
                f'the records of "{without}" have no time, so they cannot be read along with another stream',
                hint="write algorithm = 'rtm' with it as the second stream, or name its time with TIMESTAMP BY",
            )
        return self._program(inputs).schema

    def _program(self, inputs: Inputs) -> MergeProgram:
        return program_of(self, (inputs.readers[stream].schema for _, stream in self.sources))

    def _rules(self, program: MergeProgram) -> list[Rules]:
        largest = max(self.window, self.memory // (2 * BYTES_PER_RECORD)) if self.delta is not None else self.window
        return [
            Rules(
                matching.keys,
                matching.by,
                join,
                POLICIES[self.policy],
                self.window,
                self.step,
                self.every or 0,
                self.delta or 0.0,
                self.over,
                largest,
                self.wait or 0,
            )
            for matching, join in zip(program.matchings, self.joins, strict=True)
        ]

    # -- plan --------------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        axis = self.reached(end)
        if self.pace == "time" and axis == self.reached(start):
            return []
        if all(end[name][:2] == start[name][:2] for name in self.inputs):
            return []
        pacing = self.pacing(start, inputs)
        low, high = pacing.rows(start), pacing.rows(end)
        rows = sum(high[name] - low[name] for name in self.inputs)
        parts = max(1, min(parallelism, rows // ROWS_PER_TASK))
        # Groups are merged apart from each other; without them each task merges all and gives its part of the answer.
        can_share = len(self.sources) == 2 and self.by[0] and inputs.gathers and axis != MAX_TIME
        shared = "groups" if can_share else "answer"
        if inputs.scratch is None:
            parts = 1
        details = [{"part": i, "parts": parts, "shared": shared} for i in range(parts)]
        return [Task(dict(start), dict(end), detail) for detail in details]

    def pacing(self, at: Offsets, inputs: Inputs) -> Pacing:
        """How far streams are taken in, for a query that is at an offset."""
        if self.pace == "time":
            return ByTime(inputs)
        return self._by_rows(self._base(at, inputs) or dict.fromkeys(self.inputs, 0), inputs)

    def _by_rows(self, base: dict[str, int], inputs: Inputs) -> ByRows:
        return ByRows(inputs, base, 2 * self.window)

    def _base(self, at: Offsets, inputs: Inputs) -> dict[str, int] | None:
        """The rows that the query began with; None if nobody knows."""
        if self.is_beginning(at):
            return {name: max(at[name].row, inputs.readers[name].first_row()) for name in self.inputs}
        query = f"{inputs.scratch} {self!r}"
        if query in _bases and inputs.scratch is not None:
            return _bases[query]
        states = state_files(self, inputs).load(self.state_name(at, inputs))
        if states is None:
            return None
        if len(_bases) > 4096:
            _bases.clear()
        _bases[query] = states[0].facts["base"]
        return _bases[query]

    def is_beginning(self, at: Offsets) -> bool:
        """Whether nothing was merged before."""
        if self.pace == "rows":
            return all(at[name].time == MIN_TIME for name in self.inputs)
        return self.reached(at) == MIN_TIME

    def state_name(self, at: Offsets, inputs: Inputs) -> str:
        """What the state of an offset is called."""
        if self.pace == "time":
            rows = ByTime(inputs).rows({name: at[name] for name in self.inputs})
            return "_".join(str(rows[name]) for name in self.inputs) + f"_{self.reached(at)}"
        places = [at[name][:2] for name in self.inputs]
        return f"rows_{hashlib.sha256(repr(places).encode()).hexdigest()[:32]}"

    # -- run ---------------------------------------------------------------------------------------

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        program, by_groups = self._program(inputs), _is_by_groups(task)
        merged, answers = self.merged(task, inputs)
        for low in range(0, len(answers), _ROWS_PER_BATCH):
            some = answers.at(slice(low, low + _ROWS_PER_BATCH))
            places = _places(merged, some) if by_groups else {}
            yield from program.answer(merged, some, places).to_batches()

    def merged(self, task: Task, inputs: Inputs) -> tuple[Merged, MergeAnswers]:
        """The records that a task has merged, and which of them it answers; what waits is kept."""
        part, parts = task.detail["part"], task.detail["parts"]
        by_groups, program = _is_by_groups(task), self._program(inputs)
        run = MergeRun(self, program, self._rules(program), inputs, (part, parts) if by_groups else (0, 1))
        merged, answers = run.batch(task, sampled=by_groups or part == 0)
        if by_groups or part == 0:
            run.save(task.start, task.end, part if by_groups else 0, parts if by_groups else 1)
            run.report()
        if parts > 1 and not by_groups:
            cuts = [len(answers) * i // parts for i in range(parts + 1)]
            answers = answers.at(slice(cuts[part], cuts[part + 1]))
        return merged.in_one_piece(), answers

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        hidden = [name for name in answers.column_names if name.startswith(_PLACE)]
        if not hidden:
            return answers
        order = np.lexsort([integers(answers.column(name)) for name in reversed(hidden)])
        return answers.drop_columns(hidden).take(pa.array(order))

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        return min(end[name].time for name in self.inputs)

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Rows that were not taken in yet; those that were, are kept in the state."""
        if self.pace == "rows":
            return dict.fromkeys(self.inputs, Floor(0))  # where rows are counted from is in the state, see `held`
        axis = self.reached(at)
        return {name: Floor(at[name].row, axis) for name in self.inputs}

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        base = self._base(at, inputs) if self.pace == "rows" else None
        return self.needs(at) if base is None else self._by_rows(base, inputs).needs(at)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """A round, or the end of a record's time to wait."""
        program = self._program(inputs)
        time = MergeRun(self, program, self._rules(program), inputs, (0, 1)).due(at)
        return {} if time is None else {name: time for name in self.inputs if at[name].time < time}

    def told(self, at: Offsets, inputs: Inputs) -> dict[str, Any]:
        program = self._program(inputs)
        return counts.told(MergeRun(self, program, self._rules(program), inputs, (0, 1)).counts_kept(at))

    def keeps(self) -> Keeps | None:
        most = "" if self.delta is None else f", more where δ asks for it, up to {self.memory} bytes"
        groups = " for each value of the equal columns" if any(self.by) else ""
        return Keeps("records that wait for a partner", f"{self.window} records of each stream{groups}{most}")

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        assert keeps is not None
        every = "only when a step is full" if self.every is None else f"every {self.every / 1e6:g} s, or a full step"
        promise = {} if self.delta is None else {"promise": f"Δ < {self.delta:g} over {self.over} rounds"}
        pace = "as many rows of each stream" if self.pace == "rows" else "all streams up to the same time"
        rounds = {"algorithm": "cgm", "pace": pace, "window": self.window, "step": self.step, "rounds": every}
        waits = {} if not self.wait else {"waits": f"at most {self.wait / 1e6:g} s for a partner"}
        return explain_merge(self, keeps, **rounds, **waits, **promise)


def _is_by_groups(task: Task) -> bool:
    """Whether tasks share the groups out, and not only the answer."""
    return bool(task.detail["parts"] > 1 and task.detail["shared"] == "groups")


def _places(merged: Merged, answers: MergeAnswers) -> dict[str, Any]:
    """What `gather` puts answers in order by, see `step.order_of`."""
    return {f"{_PLACE}{i}": values for i, values in enumerate(order_of(answers, merged.left, merged.right))}

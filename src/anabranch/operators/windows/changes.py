"""Changes: what a window's answer has more, and less, than that of the window before."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.kernels.groups import encode
from anabranch.kernels.values import integers
from anabranch.operators.base import MIN_TIME, Floor, Inputs, Keeps, Offsets, Operator, Task
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.newest import all_windows, axis_of, just_before, newest_window
from anabranch.operators.windows.rows import CHANGE, DELETE, INSERT
from anabranch.operators.windows.sets import END, WindowSetOperation, answers_of
from anabranch.operators.windows.windowed import window_due
from anabranch.schema import TIME_TYPE
from anabranch.windows.panes.table_files import TableFiles

_ROWS_PER_BATCH = 1 << 17
_SHOWN = "shown"
"""Files that hold the answer of the window that ends at their number."""


@dataclass(frozen=True)
class WindowChanges(Operator):
    """The answers of `inner` as rows that are inserted and deleted from window to window.

    Two rows are the same if all columns are, apart from the time. The answer has the columns of `inner`
    and then `_change`; at each end the deleted rows come first.
    """

    kind: ClassVar[str] = "window_changes"
    why_store: ClassVar[str] = "the newest window"

    inner: WindowAggregate | WindowSetOperation

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.inner.inputs

    @property
    def time(self) -> str:
        return self.inner.time

    def schema(self, inputs: Inputs) -> pa.Schema:
        return self.inner.schema(inputs).append(pa.field(CHANGE, pa.string()))

    # -- plan and run ----------------------------------------------------------------------------------

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        if dict(start) == dict(end):
            return []
        # Every window is compared with the one before: none may be left out.
        return [Task(all_windows(start), all_windows(end))]

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        first = self._next_end(task.start, inputs)
        reached = self.axis_of(task.end)
        if first is None or reached is None or first > reached:
            return
        shown = self._shown(task.start, first - self.inner.slide, inputs)
        times = _Times(self, inputs)
        schema = self.schema(inputs)
        previous = first - self.inner.slide
        for end, now in self._answers(task.start, task.end, inputs):
            if end - previous > self.inner.slide and shown.num_rows:
                yield from self._told(shown, shown.slice(0, 0), times.at(previous + self.inner.slide), schema)
                shown = shown.slice(0, 0)
            yield from self._told(shown, now, times.at(end), schema)
            shown, previous = now, end
        last = (reached // self.inner.slide) * self.inner.slide
        if last > previous and shown.num_rows:
            yield from self._told(shown, shown.slice(0, 0), times.at(previous + self.inner.slide), schema)
            shown = shown.slice(0, 0)
        self._remember(last, shown, inputs)

    def axis_of(self, at: Offsets) -> int | None:
        return axis_of(self.inner, at)

    def _next_end(self, at: Offsets, inputs: Inputs) -> int | None:
        """The end of the first window that is not answered at `at`."""
        axis = self.axis_of(at)
        if axis is not None:
            return self.inner.panes.next_end(axis)
        begun = []
        for name in self.inputs:
            reader = inputs.readers[name]
            first = reader.read(reader.first_row(), reader.first_row() + 1, [reader.time_column])
            if first.num_rows:  # a stream without rows may still have reached a time
                begun.append(integers(first.column(0))[0])
        return self.inner.panes.next_end(int(min(begun))) if begun else None

    def _answers(self, start: Offsets, end: Offsets, inputs: Inputs) -> Iterator[tuple[int, pa.Table]]:
        """The answers of `inner`, window by window."""
        if isinstance(self.inner, WindowSetOperation):
            answers = self.inner.answers(start, end, inputs)
        else:
            answers = answers_of(self.inner, start, end, inputs)
        ends = integers(answers.column(END))
        answers = answers.drop_columns([END])
        cuts = np.flatnonzero(np.diff(ends, prepend=ends[0] - 1)).tolist() if len(ends) else []
        for low, high in itertools.pairwise([*cuts, len(ends)]):
            yield int(ends[low]), answers.slice(low, high - low)

    def _told(self, old: pa.Table, new: pa.Table, time: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        gone, come = _difference(old, new, [name for name in old.column_names if name != self.time])
        rows = pa.concat_tables([old.take(pa.array(gone)), new.take(pa.array(come))])
        if rows.num_rows == 0:
            return
        at = rows.column_names.index(self.time)
        rows = rows.set_column(at, self.time, pa.array(np.full(rows.num_rows, time)).view(TIME_TYPE))
        words = pa.array([DELETE] * len(gone) + [INSERT] * len(come), pa.string())
        yield from rows.append_column(CHANGE, words).cast(schema).to_batches(max_chunksize=_ROWS_PER_BATCH)

    # -- the answer before --------------------------------------------------------------------------------

    def _files(self, inputs: Inputs) -> TableFiles | None:
        name = hashlib.sha256(f"{self!r}\n{self.schema(inputs)}".encode()).hexdigest()[:16]
        folder = inputs.folder(f"shown-{name}")
        return None if folder is None else TableFiles(folder, self.inner.schema(inputs))

    def _shown(self, start: Offsets, end: int, inputs: Inputs) -> pa.Table:
        """The answer of the window that ends at `end`, the last one told: kept, or computed again."""
        schema = self.inner.schema(inputs)
        files = self._files(inputs)
        if files is not None:
            for file in files.of_kind(_SHOWN):
                if file.numbers == (end,) and (table := files.read(file)) is not None:
                    return table
        if self.axis_of(start) is None or (end <= 0 and self.inner.unit == "rows"):
            return schema.empty_table()
        before = just_before(self.inner, start, end, inputs)
        answers = self._answers(before, start, dataclasses.replace(inputs, scratch=None))
        return next((table for at, table in answers if at == end), schema.empty_table())

    def _remember(self, end: int, shown: pa.Table, inputs: Inputs) -> None:
        files = self._files(inputs)
        if files is None:
            return
        files.write(_SHOWN, (end,), shown)
        inputs.work.keeps(shown.num_rows, shown.nbytes)
        # The batch may be run again: what it started with is still needed.
        for file in [file for file in files.of_kind(_SHOWN) if file.numbers < (end,)][:-1]:
            files.delete(file)

    # -- what it has reached, needs and keeps ------------------------------------------------------

    def reached(self, end: Offsets) -> int:
        return self.inner.reached(end)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """Also where the last rows have left the window: that is a change."""
        return window_due(self.inner, at, inputs, self.inner.size + self.inner.slide)

    def current(self, reached: int, newest: int, every: int = 1) -> int | None:
        return self.inner.current(reached, newest)

    def store(self, at: Offsets, inputs: Inputs) -> pa.Table:
        """What the changes have led to."""
        return newest_window(self.inner, at, inputs) if at else self.inner.schema(inputs).empty_table()

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """What the window before needs: its answer may have to be computed again."""
        slide = self.inner.slide
        floors = {}
        for name, floor in self.inner.needs(at).items():
            if self.inner.unit == "rows":
                floors[name] = Floor(row=max((floor.row or 0) - slide, 0))
            else:
                time = floor.time if floor.time in (None, MIN_TIME) else floor.time - slide
                floors[name] = Floor(row=floor.row, time=time)
        return floors

    def keeps(self) -> Keeps | None:
        inner = self.inner.keeps()
        return Keeps(
            f"the answer told last{f', and {inner.what}' if inner else ''}",
            f"one answer{f'; {inner.bound}' if inner else ''}",
        )

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        keeps = self.keeps()
        return {
            "operator": self.kind,
            "inputs": list(self.inputs),
            "of": self.inner.explain(inputs),
            "time": self.time,
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "inner": self.inner.to_json()}


class _Times:
    """The time of the answer for the end of a window."""

    def __init__(self, operator: WindowChanges, inputs: Inputs) -> None:
        self._by_rows = operator.inner.unit == "rows"
        self._reader = inputs.readers[operator.inputs[0]]

    def at(self, end: int) -> int:
        if not self._by_rows:
            return end
        return int(integers(self._reader.read(end - 1, end, [self._reader.time_column]).column(0))[0])


def _difference(old: pa.Table, new: pa.Table, names: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The rows of each table that the other does not have, as often as it has them less."""
    columns = [pa.chunked_array([*old.column(n).chunks, *new.column(n).chunks], old.column(n).type) for n in names]
    codes = encode(columns, old.num_rows + new.num_rows).codes
    before, after = codes[: old.num_rows], codes[old.num_rows :]
    return _excess(before, after), _excess(after, before)


def _excess(these: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int64]:
    """Places in `these` of what is there more often than in `others`: the last of them."""
    size = int(max(these.max(initial=-1), others.max(initial=-1))) + 1
    spare = np.bincount(others, minlength=size)
    order = np.argsort(these, kind="stable")
    ranked = these[order]
    occurrence = np.arange(len(these)) - np.searchsorted(ranked, ranked, side="left")
    return np.sort(order[occurrence >= spare[ranked]])

"""What a query answers whose question is asked anew as a whole (`operators.whole`): what came and went since.

The answer before is the one that was told: what its own changes add up to. So what is written is right even where an
engine answers today in other words than yesterday, or with other last digits: that is a change then, told once. A
micro-batch whose changes were written is not asked again (`Host._take`), and one that changes nothing finds none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.catalog import Catalog
from anabranch.engine.options import options_for
from anabranch.engine.protocol import Engine
from anabranch.errors import AnabranchError
from anabranch.operators.base import Inputs, Work
from anabranch.operators.offset import Offsets, offsets_to_json
from anabranch.operators.tree.answer import told
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.checkpoints import rows_at
from anabranch.operators.tree.numbers import Numbers
from anabranch.operators.whole import Whole
from anabranch.queries.member import Member
from anabranch.settings import Settings
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.tree import Select
from anabranch.sql.trees.whole import with_columns
from anabranch.tables.changes import comes
from anabranch.tables.declaration import RESERVED
from anabranch.tables.state import State

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader

_ROWS_AT_ONCE = 1 << 20
_REFUSED_BY_SPARK = ("QUERY_FAILED", "SQL_NOT_UNDERSTOOD")
"""Errors of a question that Spark SQL cannot read either; they do not say why it was asked."""


class _Told(NamedTuple):
    """An answer, and how many rows the log of its changes has with it."""

    answer: pa.Table
    rows: int


class Differences:
    """See the module; of one member, while it runs here."""

    def __init__(self, member: Member, operator: Whole, engine: Callable[[], Engine]) -> None:
        self._member = member
        self._operator = operator
        self._engine = engine
        self._log: Reader | None = None
        self._last: _Told | None = None

    def between(self, start: Offsets, end: Offsets, work: Work) -> pa.Table:
        """The change of the answer, as rows of its log."""
        operator, inputs = self._operator, Inputs(self._member.readers())
        read = operator.rows_of_streams(end, inputs)
        work.keeps(read, 0)
        if not operator.changes(start, end, inputs):
            return operator.schema(inputs).empty_table()
        now = self._asked(end, inputs)
        before = self._before(start, inputs)
        work.rows_read += read
        rows = told(
            _change(before.answer, now),
            self._numbers(before.answer),
            operator,
            rows_at(end),
            operator.time_of_answer(end),
        )
        self._last = _Told(now, before.rows + rows.num_rows)
        return rows

    def _asked(self, at: Offsets, inputs: Inputs) -> pa.Table:
        """The answer over all rows there are at some offsets, read and computed in their order."""
        member, there, views = self._member, self._operator.there(at, inputs), {}
        for name, read in self._operator.views:
            (stream,) = read.inputs
            ends, starts = offsets_to_json({stream: at[stream]}), {stream: there[stream].first}
            options = options_for(read, member.catalog, member.settings, 1, ends=ends, starts=starts)
            views[name] = replace(options, parallelism=1)
        answer = self._engine().evaluate(self._operator.sql, views)
        return answer.rename_columns(list(self._operator.columns)).cast(self._operator.rows)

    def _numbers(self, answer: pa.Table) -> Numbers | None:
        """How often each row of an answer without a key is there."""
        operator = self._operator
        if operator.key or operator.is_one_row:
            return None
        numbers = Numbers(operator.rows, only_comes=False)
        numbers.take_in(Changes.of(answer).consolidated())
        return numbers

    def _before(self, start: Offsets, inputs: Inputs) -> _Told:
        """The answer as it was told."""
        log = self._log = self._log or self._member.reader()
        log.refresh()
        end = log.end().row
        if self._last is not None and self._last.rows == end:
            return self._last
        if hasattr(log, "state_at"):
            state: State = log.state_at(end)
        elif log.first_row() == 0:
            state = self._replayed(log, end)
        else:  # RETAIN has let go of the first changes; what was asked then is still there, and is asked again
            return _Told(self._asked(start, inputs), end)
        return _Told(state.table.select(list(self._operator.columns)), end)

    def _replayed(self, log: Reader, end: int) -> State:
        columns = [field for field in log.schema if field.name not in RESERVED]
        state = State(pa.schema(columns), self._operator.answer_key)
        while state.row < end:
            until = min(end, state.row + _ROWS_AT_ONCE)
            rows = log.read(state.row, until)
            state = state.replayed(rows, comes(rows), until, 0)
        return state


def _change(before: pa.Table, now: pa.Table) -> Changes:
    weights = np.repeat(np.array([1, -1]), [now.num_rows, before.num_rows])
    return Changes(pa.concat_tables([now, before]).combine_chunks(), weights).consolidated()


def differences_of(member: Member, engine: Callable[[], Engine]) -> Differences | None:
    """Those of a member that is about to run, if its question is one that is asked anew."""
    operator = member.operator
    return Differences(member, operator, engine) if isinstance(operator, Whole) else None


def completed(
    plan: StandingPlan, select: Select, catalog: Catalog, settings: Settings, engine: Callable[[], Engine]
) -> StandingPlan:
    """A plan that says the columns of its answer: of a question that is asked anew only the engine can tell them."""
    operator = plan.operator
    if not isinstance(operator, Whole) or plan.schema is not None:
        return plan
    views = {view: options_for(read, catalog, settings, 1) for view, read in operator.views}
    try:
        columns = engine().columns_of(operator.sql, views)
    except AnabranchError as problem:
        if problem.name not in _REFUSED_BY_SPARK:
            raise
        detail = f"it is asked of Spark SQL, as it cannot be kept by what changes: {operator.why}"
        raise type(problem)(problem.name, problem.message, detail=detail, hint=problem.hint) from None
    return with_columns(select, plan, columns)

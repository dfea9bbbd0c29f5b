"""What a query answers whose question is asked anew as a whole (`operators.whole`): what came and went since.

The answer before is what its own changes add up to. So what is written is right even where the engine would answer in
other words today; and a micro-batch that is repeated after its answer was written finds no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from anabranch.catalog import Catalog
from anabranch.engine.options import options_for
from anabranch.engine.protocol import Engine
from anabranch.operators.base import Inputs, Work
from anabranch.operators.offset import Offsets, offsets_to_json
from anabranch.operators.tree.answer import told
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.checkpoints import rows_at
from anabranch.operators.tree.numbers import Numbers
from anabranch.operators.whole import Question, Whole
from anabranch.queries.member import Member
from anabranch.schema import StreamSchema, sql_type
from anabranch.settings import Settings
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.tables.changes import comes
from anabranch.tables.declaration import RESERVED
from anabranch.tables.state import State

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader


class Differences:
    """See the module; of one member, while it runs here."""

    def __init__(self, member: Member, operator: Whole, engine: Callable[[], Engine]) -> None:
        self._member = member
        self._operator = operator
        self._engine = engine
        self._answers: Reader | None = None
        self._state: State | None = None

    def between(self, start: Offsets, end: Offsets, work: Work) -> pa.Table:
        """The change of the answer, as rows of its log."""
        operator, inputs = self._operator, Inputs(self._member.readers())
        if not operator.changes(start, end, inputs):
            return operator.schema(inputs).empty_table()
        now = self._asked(operator.asked(end, inputs))
        before = self._before(start, inputs)
        read = operator.rows_asked(end, inputs)
        work.rows_read += read
        work.keeps(read, 0)
        weights = np.repeat(np.array([1, -1]), [now.num_rows, before.num_rows])
        changes = Changes(pa.concat_tables([now, before]).combine_chunks(), weights).consolidated()
        numbers = None
        if not (operator.key or operator.is_one_row):
            numbers = Numbers(operator.rows, only_comes=False)
            numbers.take_in(Changes.of(before).consolidated())
        return told(changes, numbers, operator, rows_at(end), operator.time_of_answer(end))

    def _asked(self, question: Question) -> pa.Table:
        member, views = self._member, {}
        for view in question.views:
            (stream,) = view.operator.inputs
            ends = offsets_to_json({stream: view.end})
            views[view.name] = options_for(
                view.operator, member.catalog, member.settings, 1, ends=ends, starts={stream: view.first}
            )
        answer = self._engine().evaluate(question.sql, views)
        return answer.rename_columns(list(self._operator.columns)).cast(self._operator.rows)

    def _before(self, start: Offsets, inputs: Inputs) -> pa.Table:
        """The answer as it was told."""
        if self._answers is None:
            self._answers = self._member.reader()
        answers = self._answers
        answers.refresh()
        end = answers.end().row
        if hasattr(answers, "state_at"):
            state: State = answers.state_at(end)
        elif answers.first_row() > (0 if self._state is None else self._state.row):
            # RETAIN has let go of the first changes; what was there then is still there, and is asked again.
            return self._asked(self._operator.asked(start, inputs))
        else:
            state = self._followed(answers, end)
        return state.table.select(list(self._operator.columns))

    def _followed(self, answers: Reader, end: int) -> State:
        known = self._state
        if known is None:
            columns = [field for field in answers.schema if field.name not in RESERVED]
            known = State(pa.schema(columns), self._operator.answer_key)
        if known.row < end:
            rows = answers.read(known.row, end)
            known = known.replayed(rows, comes(rows), end, 0)
        self._state = known
        return known


def differences_of(member: Member, engine: Callable[[], Engine]) -> Differences | None:
    """Those of a member that is about to run, if its question is one that is asked anew."""
    operator = member.operator
    return Differences(member, operator, engine) if isinstance(operator, Whole) else None


def completed(plan: StandingPlan, catalog: Catalog, settings: Settings, engine: Callable[[], Engine]) -> StandingPlan:
    """A plan that says the columns of its answer: of a question that is asked anew only the engine can tell them."""
    operator = plan.operator
    if not isinstance(operator, Whole) or plan.schema is not None:
        return plan
    views = {view: options_for(read, catalog, settings, 1) for view, read in operator.views}
    columns = engine().columns_of(operator.sql, views)
    operator = replace(operator, types=tuple((field.name, sql_type(field.type)) for field in columns))
    return replace(plan, operator=operator, schema=StreamSchema(operator.schema(Inputs({})), plan.time))

"""What planning a standing query gives, whichever family it is of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Operator
from anabranch.schema import StreamSchema
from anabranch.sql.explain import as_json, as_text, plan_as_dict


@dataclass(frozen=True)
class StandingPlan:
    """How a standing query runs: plain data, which goes through JSON, so that it is planned once and for all.

    `residual_sql` is Spark SQL over a view named `__input` that holds the operator's rows; None if
    the operator does everything. `schema` is None where only Spark can tell the types. `time` is the
    answer's time column. `selects_all`: it answers with `*`, whatever columns that were when it was planned.
    """

    operator: Operator
    residual_sql: str | None
    schema: StreamSchema | None
    time: str
    selects_all: bool = False

    @property
    def stream(self) -> str:
        """The first of the streams it reads."""
        return self.operator.inputs[0]

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        """The plan as plain data; `explain_text` and `explain_json` show the same.

        With `inputs` operators also say what they choose for the rows there are.
        """
        return plan_as_dict(self.operator.explain(inputs), self.residual_sql, self.schema, self.time)

    def explain_text(self, inputs: Inputs | None = None) -> str:
        return as_text(self.explain(inputs))

    def explain_json(self, inputs: Inputs | None = None) -> str:
        return as_json(self.explain(inputs))

    def to_json(self) -> dict[str, Any]:
        return {
            "operator": self.operator.to_json(),
            "residual_sql": self.residual_sql,
            "schema": None if self.schema is None else self.schema.to_json(),
            "time": self.time,
            "selects_all": self.selects_all,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> StandingPlan:
        schema = data["schema"]
        return StandingPlan(
            operator=operator_from_json(data["operator"]),
            residual_sql=data["residual_sql"],
            schema=None if schema is None else StreamSchema.from_json(schema),
            time=data["time"],
            selects_all=data["selects_all"],
        )

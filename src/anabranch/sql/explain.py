"""A plan as people and programs read it: an indented tree, or the same as plain data."""

from __future__ import annotations

import json
from typing import Any

from anabranch.operators.base import Operator
from anabranch.schema import StreamSchema


def plan_as_dict(
    operator: Operator, residual_sql: str | None, schema: StreamSchema | None, time: str, pushed: str | None
) -> dict[str, Any]:
    """Operators from the answer down to the streams, what each does, and what is kept."""
    keeps = operator.keeps()
    steps: list[dict[str, Any]] = []
    if residual_sql is not None:
        steps.append({"operator": "spark sql", "sql": residual_sql, "keeps": None})
    steps.append(
        {
            **operator.explain(),
            "operator": operator.kind,
            "keeps": None if keeps is None else {"what": keeps.what, "bound": keeps.bound},
        }
    )
    answer: dict[str, Any] = {"time": time}
    if schema is not None:
        answer["columns"] = schema.to_json()["columns"]
    return {
        "answer": answer,
        "steps": steps,
        "streams": [{"stream": name, "filter_pushed_to_read": pushed} for name in operator.inputs],
        "runs_in_spark_sql": residual_sql is not None,
    }


def as_json(plan: dict[str, Any]) -> str:
    return json.dumps(plan, ensure_ascii=False, indent=2, default=str)


_SHOWN_ELSEWHERE = ("operator", "keeps", "inputs", "time")
_NAMED = ("columns", "keys", "aggregates")


def as_text(plan: dict[str, Any]) -> str:
    """The plan as an indented tree, the answer on top and the streams at the bottom."""
    answer = plan["answer"]
    columns = (
        ", ".join(f"{name} {sql}" for name, sql in answer.get("columns", [])) or "known once Spark has read the query"
    )
    lines = [f"answer: {columns}", f"  time: {answer['time']}"]
    indent = ""
    for step in plan["steps"]:
        lines.append(f"{indent}└─ {step['operator']}")
        indent += "   "
        for key, value in step.items():
            if key not in _SHOWN_ELSEWHERE and value not in (None, [], (), {}, ""):
                lines.append(f"{indent}{key.replace('_', ' ')}: {_value_text(value, named=key in _NAMED)}")
        keeps = step["keeps"]
        lines.append(f"{indent}keeps: {keeps['what'] + '; ' + keeps['bound'] if keeps else 'nothing between batches'}")
    for stream in plan["streams"]:
        lines.append(f"{indent}└─ stream {stream['stream']}")
        if stream["filter_pushed_to_read"]:
            lines.append(f"{indent}   filter pushed to the read: {stream['filter_pushed_to_read']}")
    return "\n".join(lines)


def _value_text(value: Any, *, named: bool) -> str:
    """Parts of a step: `sql AS name` for what has a name, `key = value` for other settings."""
    if isinstance(value, dict) and named:
        return ", ".join(name if name == sql.replace("`", "") else f"{sql} AS {name}" for name, sql in value.items())
    if isinstance(value, dict):
        return ", ".join(f"{key} = {each}" for key, each in value.items())
    return str(value)

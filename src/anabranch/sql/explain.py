"""A plan as people and programs read it: an indented tree, or the same as plain data.

What an operator says of itself is shown as it is, in its order. A part of it that is a step of its
own (it names an `operator`) becomes a branch: the sides of a set operation, the query whose changes
are answered. `inputs` are the streams it reads, where its `filter` holds; one that reads them under other
conditions says so: `reads` is a list of {"stream", "filter"}.
"""

from __future__ import annotations

import json
from typing import Any

from anabranch.schema import StreamSchema


def plan_as_dict(
    step: dict[str, Any], residual_sql: str | None, schema: StreamSchema | None, time: str
) -> dict[str, Any]:
    """Steps from the answer down to the streams; `step` is what the operator says of itself."""
    steps: list[dict[str, Any]] = []
    if residual_sql is not None:
        steps.append({"operator": "spark sql", "sql": residual_sql, "keeps": None})
    steps.append(step)
    answer: dict[str, Any] = {"time": time}
    if schema is not None:
        answer["columns"] = schema.to_json()["columns"]
    return {
        "answer": answer,
        "steps": steps,
        "streams": [{"stream": name, "filter_pushed_to_read": filter_sql} for name, filter_sql in _reads(step)],
        "runs_in_spark_sql": residual_sql is not None or "sql" in step,
    }


def _branches(step: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The parts of a step that are steps themselves, or that hold nothing but steps under their names."""
    branches: dict[str, dict[str, Any]] = {}
    for key, value in step.items():
        if isinstance(value, dict) and "operator" in value:
            branches[key] = value
        elif _holds_steps(value):
            branches |= value
    return branches


def _holds_steps(value: Any) -> bool:
    return (
        isinstance(value, dict) and bool(value) and all(isinstance(v, dict) and "operator" in v for v in value.values())
    )


def _reads(step: dict[str, Any]) -> list[tuple[str, str | None]]:
    """The streams below a step, each with the condition applied while it is read, and each of these pairs once."""
    branches = _branches(step)
    if branches:
        reads = [read for branch in branches.values() for read in _reads(branch)]
    elif "reads" in step:
        reads = [(read["stream"], read["filter"]) for read in step["reads"]]
    else:
        reads = [(name, step.get("filter")) for name in step.get("inputs", ())]
    return list(dict.fromkeys(reads))


def as_json(plan: dict[str, Any]) -> str:
    return json.dumps(plan, ensure_ascii=False, indent=2, default=str)


_SHOWN_ELSEWHERE = ("operator", "tree", "keeps", "inputs", "reads", "time")
_NAMED = ("columns", "keys")


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
        lines += _step_lines(step, indent)
    if not _branches(plan["steps"][-1]):
        reads = [(stream["stream"], stream["filter_pushed_to_read"]) for stream in plan["streams"]]
        lines += _stream_lines(reads, indent)
    return "\n".join(lines)


def once_as_text(plan: dict[str, Any]) -> str:
    """A question that is asked once: of an archive, or in Spark SQL over streams."""
    if "question" in plan:
        return "\n".join(["question to an archive", *_setting_lines(plan["question"], "   ")])
    if "table" in plan:
        settings = {key: value for key, value in plan.items() if key not in ("table", "runs_in_spark_sql")}
        return "\n".join([f"rows of table {plan['table']}", *_setting_lines(settings, "   ")])
    lines = ["spark sql", f"   sql: {plan['sql']}"]
    for use in plan["streams"]:
        kind = "table" if "table" in use else "stream"
        lines.append(f"   └─ {'archive of' if 'archive' in use else kind} {use[kind]}")
        lines += _setting_lines({key: value for key, value in use.items() if key != kind}, "      ")
    return "\n".join(lines)


def _setting_lines(settings: dict[str, Any], indent: str) -> list[str]:
    return [
        f"{indent}{key.replace('_', ' ')}: {_value_text(key, value)}"
        for key, value in settings.items()
        if value is not None
    ]


def _step_lines(step: dict[str, Any], indent: str) -> list[str]:
    """What a step does and keeps, then its branches, down to their streams."""
    branches = _branches(step)
    lines = [
        f"{indent}{key.replace('_', ' ')}: {_value_text(key, value)}"
        for key, value in step.items()
        if key not in _SHOWN_ELSEWHERE
        and key not in branches
        and value not in (None, [], (), {}, "")
        and not _holds_steps(value)
    ]
    lines += [f"{indent}{line}" for line in step.get("tree", ())]
    keeps = step.get("keeps")
    lines.append(f"{indent}keeps: {keeps['what'] + '; ' + keeps['bound'] if keeps else 'nothing between batches'}")
    for number, (name, branch) in enumerate(branches.items(), 1):
        corner, below = ("└─", "   ") if number == len(branches) else ("├─", "│  ")
        label = f"{name}: " if len(branches) > 1 else ""
        lines.append(f"{indent}{corner} {label}{branch['operator']}")
        lines += _step_lines(branch, indent + below)
        if not _branches(branch):
            lines += _stream_lines(_reads(branch), indent + below)
    return lines


def _stream_lines(reads: list[tuple[str, str | None]], indent: str) -> list[str]:
    lines: list[str] = []
    for name, filter_sql in reads:
        lines.append(f"{indent}└─ stream {name}")
        if filter_sql:
            lines.append(f"{indent}   filter pushed to the read: {filter_sql}")
    return lines


def _value_text(key: str, value: Any) -> str:
    """Parts of a step: `sql AS name` for what has a name, `key = value` for other settings, lists with commas."""
    if isinstance(value, dict) and key == "aggregates":
        # The name of an aggregate is its call, as it was written.
        return ", ".join(name if "(" in name else f"{call} AS {name}" for name, call in value.items())
    if isinstance(value, dict) and key in _NAMED:
        return ", ".join(name if name == sql.replace("`", "") else f"{sql} AS {name}" for name, sql in value.items())
    if isinstance(value, dict):
        settings = {name: setting for name, setting in value.items() if setting not in ([], ())}
        return ", ".join(f"{name} = {_value_text(name, setting)}" for name, setting in settings.items())
    if isinstance(value, list | tuple):
        between = "; " if any(isinstance(item, dict) for item in value) else ", "
        return between.join(_value_text("", item) for item in value)
    return str(value)

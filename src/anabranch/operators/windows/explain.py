"""What EXPLAIN says of windows: the class of the query, storage and index and why, and how old answers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from anabranch.errors import QueryError
from anabranch.functions.aggregates import parts_of, row_of, rows
from anabranch.kernels.values import integers, one_array
from anabranch.log.stream import StreamInfo
from anabranch.operators.base import Inputs, LogReader
from anabranch.operators.windows.values import Hints, ValueQuestion, chosen
from anabranch.windows.cost import estimated_distinct
from anabranch.windows.panes.axis import Panes

if TYPE_CHECKING:
    from anabranch.operators.windows.program import WindowProgram

_SAMPLE_ROWS = 65_536

INCREMENTAL = "incremental: combined from partial answers of basic windows"
WITH_HISTOGRAM = "incremental with a histogram of the window"


def is_of_values(function: str) -> bool:
    """True if the function is read from the window's values, not from partial answers."""
    return row_of(function).kind == "holistic"


def refuse_values(program: WindowProgram, aggregates: Sequence[tuple[str, str, str | None]], where: str) -> None:
    """An error for aggregates that need every value, where only partial aggregates are kept."""
    if program.questions:
        named = next(function for _, function, _ in aggregates if is_of_values(function))
        message, hint = not_of_values(named, where)
        raise QueryError("AGGREGATE_NOT_AVAILABLE", message, hint=hint)


def not_of_values(function: str, where: str) -> tuple[str, str]:
    """What that error says, and its hint."""
    *others, last = (row.name for row in rows() if row.bind is not None and row.kind != "holistic")
    name = parts_of(function)[0]
    return (
        f"{name}() needs all values at once, and of {where} only partial aggregates are kept",
        f"use {', '.join(others)} or {last}",
    )


def explain_values(
    aggregates: Sequence[tuple[str, str, str | None]],
    hints: Hints,
    program: WindowProgram | None,
    panes: Panes,
    inputs: Inputs | None,
) -> dict[str, Any]:
    """Class, storage and index, as they would be chosen for the rows the stream holds now."""
    if not any(is_of_values(function) for _, function, _ in aggregates):
        errors = {name: text for name, function, _ in aggregates if (text := _error(function))}
        return {"class": INCREMENTAL, "storage": None, "index": None, "error": errors}
    told: dict[str, Any] = {"class": WITH_HISTOGRAM}
    if program is None or inputs is None:
        told |= {"storage": hints.storage or "chosen when rows come", "index": hints.index or "chosen when rows come"}
    else:
        reader = inputs.readers[program.stream]
        choices = []
        for question in program.questions:
            tuples, distinct = _measured(reader, program, question, panes)
            choice = chosen(question, hints, tuples, distinct, panes.size // panes.length)
            choices.append((_label(program, question) if len(program.questions) > 1 else "", choice))
        told["storage"] = ", ".join(f"{label}{choice.storage}" for label, choice in choices)
        told["index"] = ", ".join(f"{label}{choice.index}" for label, choice in choices)
        told["why"] = "; ".join(f"{label}{choice.why}" for label, choice in choices)
    told["error"] = {name: text for name, function, _ in aggregates if (text := _error(function))}
    return told


def _label(program: WindowProgram, question: ValueQuestion) -> str:
    asked = {"rank": "ranks", "mode": "mode", "distinct": "distinct values"}[question.aggregates[0].question]
    return f"{'about ' if question.approximate else ''}{asked} of {program.arguments[question.argument].sql}: "


def _error(function: str) -> str | None:
    error = row_of(function).error
    return None if error is None else error(float(parts_of(function)[1] or 0))


def _measured(reader: LogReader, program: WindowProgram, question: ValueQuestion, panes: Panes) -> tuple[float, float]:
    """About how many rows a window holds, and how many distinct values, from the newest rows."""
    refresh = getattr(reader, "end", None)
    end = refresh().row if refresh is not None else reader.row_at_time(2**62, 2**62)
    low = max(reader.first_row(), end - _SAMPLE_ROWS)
    if low >= end:
        return 1, 1
    table = reader.read(low, end, program.reads)
    if program.by_rows:
        tuples = panes.size
    else:
        times = integers(table.column(program.time_column))
        span = max(int(times[-1] - times[0]), 1)
        tuples = max(1, round(len(times) * min(panes.size / span, 1e6)))
    values = one_array(program.arguments[question.argument].evaluate(table))
    return tuples, estimated_distinct(len(pc.unique(values)), len(values), most=tuples)


def explain_delay(unit: str, slide: int, streams: Sequence[str], inputs: Inputs | None) -> dict[str, Any]:
    """How long after its time a row is in an answer (§3.3 of the paper: between d and the slide and d)."""
    if unit == "rows":
        return {"answer_delay": f"a row is in the answer once up to {slide} rows have come after it"}
    skew = 0 if inputs is None else max(inputs.readers[name].skew_us for name in streams)
    allowed = f", of which {skew / 1e6:g} s are for late rows" if skew else ""
    told = f"a row is in the answer at most {(slide + skew) / 1e6:g} s after its time{allowed}"
    return {"answer_delay": told + _what_brings_time([inputs.readers[name] for name in streams] if inputs else [])}


def explain_session_delay(gap: int, streams: Sequence[str], inputs: Inputs | None) -> dict[str, Any]:
    """How long after the last row of a session it is answered."""
    skew = 0 if inputs is None else max(inputs.readers[name].skew_us for name in streams)
    allowed = f", of which {skew / 1e6:g} s are for late rows" if skew else ""
    told = f"a session is answered just after {(gap + skew) / 1e6:g} s without a row of its group{allowed}"
    return {"answer_delay": told + _what_brings_time([inputs.readers[name] for name in streams] if inputs else [])}


def _what_brings_time(readers: Sequence[LogReader]) -> str:
    """What must happen besides for time to go on; nothing where it is the clock's."""
    infos = [info for reader in readers if isinstance(info := getattr(reader, "info", None), StreamInfo)]
    own = [info for info in infos if not info.goes_with_the_clock]
    if not own:
        return ""
    silent = [info.idle_us for info in own if info.idle_us is not None]
    idle = f", or {max(silent) / 1e6:g} s of silence are over" if len(silent) == len(own) else ""
    return f", once a later row or a heartbeat has come{idle}"


def measure(unit: str, length: int) -> str:
    """A size or slide in words."""
    return f"{length} rows" if unit == "rows" else f"{length / 1e6:g} s"

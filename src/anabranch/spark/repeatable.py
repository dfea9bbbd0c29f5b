"""The last net below a standing query's rest in Spark SQL: what Spark made of it may depend on its columns alone.

Planning refuses what it sees in the text, with its place. Spark knows the types, so it also knows where a text is
turned into a time without anyone having written so (`hour(text)`, `ts > text`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from anabranch.errors import SqlError
from anabranch.sql.checking.time_texts import TIME_OF_DAY, is_of_the_clock

_TIMES = ("date", "timestamp", "timestamp_ntz")


def check_repeatable(frame: DataFrame) -> None:
    """Refuse a rest that may answer otherwise when it is computed again."""
    plan = frame._jdf.queryExecution().analyzed()
    patterns = frame.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr]
    if not plan.deterministic() or plan.containsPattern(patterns.CURRENT_LIKE()):
        raise SqlError(
            "FUNCTION_NOT_REPEATABLE",
            "a function gives another answer each time, so a standing query could not be repeated after a failure",
            hint="use a column of the stream, such as its time",
        )
    for cast in _casts_of_plan(plan, patterns.CAST()):
        _check_cast(cast)


def _casts_of_plan(plan: Any, pattern: Any) -> Iterator[Any]:
    for expression in _items(plan.expressions()):
        yield from _casts(expression, pattern)
    for child in _items(plan.children()):
        yield from _casts_of_plan(child, pattern)


def _casts(node: Any, pattern: Any) -> Iterator[Any]:
    """The casts in an expression; a list of literals, which may be long, is not gone through."""
    if not node.containsPattern(pattern):
        return
    kind = node.getClass().getSimpleName()
    if kind == "Cast":
        yield node
    for child in [node.value()] if kind == "In" and node.inSetConvertible() else _items(node.children()):
        yield from _casts(child, pattern)


def _items(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(index) for index in range(sequence.size()))


def _check_cast(cast: Any) -> None:
    child, to = cast.child(), str(cast.dataType().simpleString())
    source = str(child.dataType().simpleString())
    if "string" not in source and "variant" not in source:
        return
    if source == "string" and child.foldable():
        clock = to in _TIMES and is_of_the_clock(str(child.eval(None)), today=to == "timestamp")
    else:
        clock = "timestamp" in to.replace("timestamp_ntz", "") and TIME_OF_DAY not in str(child.toString())
    if clock:
        raise SqlError(
            "FUNCTION_NOT_REPEATABLE",
            f"{child.sql()} is read as a time, and without a date it would be one of the day on which it is read, so a "
            "standing query could not be repeated after a failure",
            hint="write CAST(… AS TIMESTAMP), which gives NULL for a time without a date",
        )

"""What can be called: the table of aggregates is here, that of all other functions in `expressions.functions`.

A new function is a row in one of them, and a file where none fits. Parsing, planning, the check of what is allowed,
EXPLAIN, completion, hints and docs/functions.md read the tables.
"""

from __future__ import annotations

from anabranch.expressions.functions import SCALARS
from anabranch.expressions.functions.declaring import ScalarFunction
from anabranch.functions.aggregates import AGGREGATES, AggregateFunction

__all__ = ["AGGREGATES", "SCALARS", "function_names", "named", "spark_has"]


def named(name: str) -> ScalarFunction | AggregateFunction | None:
    """The function that is called by a name in lower case; None if there is none."""
    row = AGGREGATES.get(name)
    return SCALARS.get(name) if row is None or not row.has_call else row


def function_names() -> list[str]:
    """Everything that can be called, in order."""
    return sorted(name for name in (*SCALARS, *AGGREGATES) if named(name) is not None)


def spark_has(name: str) -> bool:
    """Whether Spark has the function, and by this name."""
    row = named(name)
    return row is not None and name not in row.in_spark

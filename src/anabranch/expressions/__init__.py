"""SQL expressions evaluated on Arrow tables with the meaning Spark gives them, without Spark.

Filters, computed columns and HAVING run where the rows are, in Arrow's kernels. The meaning is
that of Spark SQL with `spark.sql.ansi.enabled=false` and the time zone UTC, value for value and
type for type; what cannot be had exactly raises `NotEvaluable` when it is compiled, and the
planner leaves it to Spark. `rules.RULES` is the whole of what is evaluated; `functions` is the table of
what is called by a name.
"""

from __future__ import annotations

from anabranch.expressions.compile import Compiled, compile
from anabranch.expressions.expr import NotEvaluable

__all__ = ["Compiled", "NotEvaluable", "compile"]

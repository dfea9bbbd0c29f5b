"""Choosing between values, and asking for NULL."""

from __future__ import annotations

from sqlglot import exp

from anabranch.expressions import comparisons, logic
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, left_to_spark, of_one

GROUP = "choice"
_LIST = ("this", "expressions")
_CHOICE = ("this", "true", "false")

CHOICE = (
    ScalarFunction(
        "coalesce",
        "The first of its arguments that is not NULL.",
        ("ifnull", "nvl"),
        GROUP,
        {exp.Coalesce: Rule(logic.coalesce, "common type", _LIST)},
        example=Example("coalesce(NULL, 2, 3)", 2),
    ),
    ScalarFunction(
        "greatest",
        "The largest of its arguments; NULLs are passed over.",
        group=GROUP,
        rules={exp.Greatest: Rule(logic.extreme(">"), "common type", (*_LIST, "ignore_nulls"))},
        example=Example("greatest(1, 3, 2)", 3),
    ),
    ScalarFunction(
        "least",
        "The smallest of its arguments; NULLs are passed over.",
        group=GROUP,
        rules={exp.Least: Rule(logic.extreme("<"), "common type", (*_LIST, "ignore_nulls"))},
        example=Example("least(1, 3, 2)", 1),
    ),
    ScalarFunction(
        "if",
        "The second where the first holds, else the third.",
        group=GROUP,
        rules={exp.If: Rule(logic.if_, "common type of the results", _CHOICE)},
        example=Example("if(1 < 2, 'yes', 'no')", "yes"),
    ),
    ScalarFunction(
        "nvl2",
        "The second where the first is not NULL, else the third.",
        group=GROUP,
        rules={exp.Nvl2: Rule(logic.nvl2, "common type of the results", _CHOICE)},
        example=Example("nvl2(NULL, 1, 2)", 2),
    ),
    ScalarFunction(
        "nullif",
        "The first, or NULL where both are equal.",
        group=GROUP,
        rules={exp.Nullif: Rule(logic.nullif, "type of the first", ("this", "expression"))},
        example=Example("nullif(3, 3)", None),
    ),
    ScalarFunction(
        "isnull",
        "Whether it is NULL.",
        group=GROUP,
        rules={exp.Anonymous: Rule(of_one(comparisons.is_null), "any: BOOLEAN", _LIST)},
        example=Example("isnull(NULL)", True),
    ),
    ScalarFunction(
        "isnotnull",
        "Whether it is not NULL.",
        group=GROUP,
        rules={exp.Anonymous: Rule(of_one(comparisons.is_not_null), "any: BOOLEAN", _LIST)},
        example=Example("isnotnull(NULL)", False),
    ),
    *left_to_spark(
        GROUP,
        """
elt: The argument of so high a number, counted from the second.
equal_null: Whether both are equal, or both NULL; the same as `<=>`.
nullifzero: The number, or NULL for zero.
zeroifnull: The number, or zero for NULL.
""",
    ),
)

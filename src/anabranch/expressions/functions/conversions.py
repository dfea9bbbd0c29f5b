"""From one type to another."""

from __future__ import annotations

from sqlglot import exp

from anabranch.expressions import casts
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, left_to_spark

GROUP = "conversions"
CAST = Rule(casts.cast_node, "the type named", ("this", "to"))
"""Between numbers, from whole numbers to text, and what stands as a constant."""

CONVERSIONS = (
    ScalarFunction(
        "cast",
        "The value as one of another type, or NULL where it is none: `CAST(x AS type)`.",
        group=GROUP,
        rules={exp.Cast: CAST, exp.TryCast: CAST},  # the second is how the parser reads CAST
        example=Example("CAST(2.9D AS INT)", 2),
    ),
    *(
        ScalarFunction(
            type_,
            f"The value as {type_.upper()}.",
            group=GROUP,
            rules={exp.Cast: CAST},
            example=Example(call, gives),
        )
        for type_, call, gives in (
            ("boolean", "boolean(true)", True),
            ("double", "double(2)", 2.0),
            ("float", "float(2)", 2.0),
            ("int", "int(2.9D)", 2),
            ("string", "string(7)", "7"),
        )
    ),
    *left_to_spark(
        GROUP,
        """
bigint: The value as BIGINT.
binary: The value as BINARY.
decimal: The value as DECIMAL(10, 0).
smallint: The value as SMALLINT.
tinyint: The value as TINYINT.
to_binary: A text in hex, base64 or UTF-8 as BINARY.
to_number: A text in a format as a number.
try_cast: The value as one of another type, or NULL where it is none: `TRY_CAST(x AS type)`.
try_to_binary: As `to_binary`, or NULL where it is none.
try_to_number: As `to_number`, or NULL where it is none.
typeof: The name of the type.
""",
    ),
)

"""Functions of numbers."""

from __future__ import annotations

import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import arithmetic, logic, numbers
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, left_to_spark, of_one

GROUP = "numbers"
_BINARY = ("this", "expression")
_LAST_BIT = "its last bit may differ from Spark's"

NUMBERS = (
    ScalarFunction(
        "abs",
        "The number without its sign.",
        group=GROUP,
        rules={exp.Abs: Rule(arithmetic.absolute, "number: its type")},
        example=Example("abs(-3)", 3),
    ),
    ScalarFunction(
        "ceil",
        "The smallest whole number that is not below it.",
        ("ceiling",),
        GROUP,
        {exp.Ceil: Rule(numbers.towards(pc.ceil, "CEIL"), "number: BIGINT")},
        example=Example("ceil(2.1D)", 3),
    ),
    ScalarFunction(
        "floor",
        "The largest whole number that is not above it.",
        group=GROUP,
        rules={exp.Floor: Rule(numbers.towards(pc.floor, "FLOOR"), "number: BIGINT")},
        example=Example("floor(-2.1D)", -3),
    ),
    ScalarFunction(
        "mod",
        "What is left of a division, with the sign of the first; the same as `%`.",
        group=GROUP,
        rules={exp.Mod: Rule(arithmetic.remainder, "numbers without DECIMAL: wider type", _BINARY)},
        example=Example("mod(-7, 3)", -1),
    ),
    ScalarFunction(
        "positive",
        "The number itself; the same as `+x`.",
        group=GROUP,
        rules={exp.Anonymous: Rule(of_one(arithmetic.positive), "number: its type", ("this", "expressions"))},
        example=Example("positive(3)", 3),
    ),
    ScalarFunction(
        "power",
        "The number to a power; on Arrow columns the square.",
        ("pow",),
        GROUP,
        {exp.Pow: Rule(numbers.power, "number, 2: DOUBLE", _BINARY)},
        example=Example("power(3, 2)", 9.0),
    ),
    ScalarFunction(
        "round",
        "The nearest number with so many decimal places, half away from zero.",
        group=GROUP,
        rules={
            exp.Round: Rule(numbers.round_, "number: its type; to places only for whole numbers", ("this", "decimals"))
        },
        example=Example("round(2.5D)", 3.0),
    ),
    ScalarFunction(
        "sign",
        "-1.0, 0.0 or 1.0.",
        ("signum",),
        GROUP,
        {exp.Sign: Rule(numbers.sign, "number: DOUBLE")},
        example=Example("sign(-3)", -1.0),
    ),
    ScalarFunction(
        "sqrt",
        "The square root.",
        group=GROUP,
        rules={exp.Sqrt: Rule(numbers.sqrt, "number: DOUBLE")},
        example=Example("sqrt(9)", 3.0),
    ),
    ScalarFunction(
        "isnan",
        "Whether it is not a number; no for NULL.",
        group=GROUP,
        rules={exp.IsNan: Rule(logic.is_nan, "FLOAT, DOUBLE: BOOLEAN")},
        example=Example("isnan(1.0D)", False),
    ),
    ScalarFunction("exp", "e to a power.", group=GROUP, refused={exp.Exp: _LAST_BIT}),
    ScalarFunction("ln", "The logarithm to the base e.", group=GROUP, refused={exp.Ln: _LAST_BIT}),
    ScalarFunction("log", "The logarithm to a base, or to e.", ("log10", "log2"), GROUP, refused={exp.Log: _LAST_BIT}),
    ScalarFunction("sin", "The sine of an angle in radians.", group=GROUP, refused={exp.Sin: _LAST_BIT}),
    ScalarFunction("cos", "The cosine of an angle in radians.", group=GROUP, refused={exp.Cos: _LAST_BIT}),
    ScalarFunction("tan", "The tangent of an angle in radians.", group=GROUP, refused={exp.Tan: _LAST_BIT}),
    ScalarFunction("atan2", "The angle of a point y, x in radians.", group=GROUP, refused={exp.Atan2: _LAST_BIT}),
    ScalarFunction("cbrt", "The cube root.", group=GROUP, refused={exp.Cbrt: _LAST_BIT}),
    *left_to_spark(
        GROUP,
        """
acos: The angle whose cosine it is.
acosh: The number whose hyperbolic cosine it is.
asin: The angle whose sine it is.
asinh: The number whose hyperbolic sine it is.
atan: The angle whose tangent it is.
atanh: The number whose hyperbolic tangent it is.
bround: The nearest number with so many decimal places, half to even.
conv: A number written in another base.
cosh: The hyperbolic cosine.
cot: The cotangent.
counter_diff: How far a counter has gone on, across its restarts.
csc: The cosecant.
degrees: An angle in radians as degrees.
e: The number e.
expm1: e to a power, less 1.
factorial: The factorial of a whole number up to 20.
hypot: The length of the hypotenuse of two sides.
log1p: The logarithm of 1 more than it.
nanvl: The first, or the second where it is not a number.
negative: The number with the other sign.
pi: The number π.
pmod: What is left of a division, never negative.
radians: An angle in degrees as radians.
rint: The nearest whole number as a DOUBLE, half to even.
sec: The secant.
sinh: The hyperbolic sine.
tanh: The hyperbolic tangent.
try_add: A sum, or NULL where it overflows.
try_divide: A quotient, or NULL for a division by zero.
try_mod: What is left of a division, or NULL for one by zero.
try_multiply: A product, or NULL where it overflows.
try_subtract: A difference, or NULL where it overflows.
width_bucket: Which of so many equal ranges it falls into.
""",
    ),
)

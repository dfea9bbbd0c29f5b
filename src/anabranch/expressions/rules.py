"""The one table of what is evaluated: each kind of node, its handler, and its typing rule.

A rule names the arguments of the node it understands; a node that carries any other is refused,
so that a clause nobody thought of is never silently dropped. What stands in no table is refused
too; `REFUSED` holds better reasons for the kinds people are likely to try.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import arithmetic, casts, comparisons, literals, logic, numbers, text, times
from anabranch.expressions.comparisons import comparison, null_safe
from anabranch.expressions.expr import Handler

BINARY = ("this", "expression")


@dataclass(frozen=True)
class Rule:
    """How one kind of node is evaluated; `typing` says what it takes and gives."""

    handler: Handler
    typing: str
    args: tuple[str, ...] = ("this",)


RULES: dict[type[exp.Expr], Rule] = {
    # What stands in the text itself
    exp.Literal: Rule(literals.literal, "INT, BIGINT, DECIMAL by its digits, DOUBLE, STRING", ("this", "is_string")),
    exp.RawString: Rule(literals.raw_string, "STRING"),
    exp.Boolean: Rule(literals.boolean, "BOOLEAN"),
    exp.Null: Rule(literals.nothing, "NULL", ()),
    exp.Interval: Rule(literals.interval, "INTERVAL of weeks or less, beside a TIMESTAMP", ("this", "unit")),
    exp.Paren: Rule(lambda node, build: build(node.this), "as its content"),
    # Arithmetic
    exp.Add: Rule(arithmetic.add, "numbers: wider type; TIMESTAMP + INTERVAL", BINARY),
    exp.Sub: Rule(arithmetic.subtract, "numbers: wider type; TIMESTAMP - INTERVAL", BINARY),
    exp.Mul: Rule(arithmetic.multiply, "numbers: wider type", BINARY),
    exp.Div: Rule(arithmetic.divide, "numbers without DECIMAL: DOUBLE", (*BINARY, "typed", "safe")),
    exp.Mod: Rule(arithmetic.remainder, "numbers without DECIMAL: wider type", BINARY),
    exp.IntDiv: Rule(arithmetic.whole_division, "whole DIV whole: BIGINT", BINARY),
    exp.Neg: Rule(arithmetic.negate, "number: its type"),
    exp.Abs: Rule(arithmetic.absolute, "number: its type"),
    exp.BitwiseAnd: Rule(arithmetic.bitwise(pc.bit_wise_and, "&"), "whole numbers: wider type", BINARY),
    exp.BitwiseOr: Rule(arithmetic.bitwise(pc.bit_wise_or, "|"), "whole numbers: wider type", BINARY),
    exp.BitwiseXor: Rule(arithmetic.bitwise(pc.bit_wise_xor, "^"), "whole numbers: wider type", BINARY),
    exp.BitwiseNot: Rule(arithmetic.bitwise_not, "whole number: its type"),
    # Comparisons
    exp.EQ: Rule(comparison("="), "comparable: BOOLEAN", BINARY),
    exp.NEQ: Rule(comparison("<>"), "comparable: BOOLEAN", BINARY),
    exp.LT: Rule(comparison("<"), "comparable: BOOLEAN", BINARY),
    exp.LTE: Rule(comparison("<="), "comparable: BOOLEAN", BINARY),
    exp.GT: Rule(comparison(">"), "comparable: BOOLEAN", BINARY),
    exp.GTE: Rule(comparison(">="), "comparable: BOOLEAN", BINARY),
    exp.NullSafeEQ: Rule(null_safe(False), "comparable: BOOLEAN", BINARY),
    exp.NullSafeNEQ: Rule(null_safe(True), "comparable: BOOLEAN", BINARY),
    exp.Is: Rule(comparisons.is_, "any IS NULL, BOOLEAN IS TRUE or FALSE: BOOLEAN", BINARY),
    exp.In: Rule(comparisons.in_list, "comparable, a list: BOOLEAN", ("this", "expressions")),
    exp.Between: Rule(comparisons.between, "comparable: BOOLEAN", ("this", "low", "high")),
    # Logic and choice
    exp.And: Rule(logic.connective(pc.and_kleene, "AND"), "BOOLEAN", BINARY),
    exp.Or: Rule(logic.connective(pc.or_kleene, "OR"), "BOOLEAN", BINARY),
    exp.Not: Rule(logic.not_, "BOOLEAN"),
    exp.Case: Rule(logic.case, "common type of the results", ("this", "ifs", "default")),
    exp.If: Rule(logic.if_, "common type of the results", ("this", "true", "false")),
    exp.Nvl2: Rule(logic.nvl2, "common type of the results", ("this", "true", "false")),
    exp.Nullif: Rule(logic.nullif, "type of the first", BINARY),
    exp.Coalesce: Rule(logic.coalesce, "common type", ("this", "expressions")),
    exp.Greatest: Rule(logic.extreme(">"), "common type", ("this", "expressions", "ignore_nulls")),
    exp.Least: Rule(logic.extreme("<"), "common type", ("this", "expressions", "ignore_nulls")),
    exp.IsNan: Rule(logic.is_nan, "FLOAT, DOUBLE: BOOLEAN"),
    # Numbers
    exp.Sqrt: Rule(numbers.sqrt, "number: DOUBLE"),
    exp.Pow: Rule(numbers.power, "number, 2: DOUBLE", BINARY),
    exp.Sign: Rule(numbers.sign, "number: DOUBLE"),
    exp.Floor: Rule(numbers.towards(pc.floor, "FLOOR"), "number: BIGINT"),
    exp.Ceil: Rule(numbers.towards(pc.ceil, "CEIL"), "number: BIGINT"),
    exp.Round: Rule(numbers.round_, "number: its type; to places only for whole numbers", ("this", "decimals")),
    # Conversions
    exp.Cast: Rule(casts.cast_node, "the type named", ("this", "to")),
    exp.TryCast: Rule(casts.cast_node, "the type named (how the parser reads CAST)", ("this", "to")),
    # Text
    exp.Like: Rule(text.like, "STRING, literal without escapes: BOOLEAN", (*BINARY, "negate")),
    exp.StartsWith: Rule(text.search(pc.starts_with, "STARTSWITH"), "STRING, literal: BOOLEAN", BINARY),
    exp.EndsWith: Rule(text.search(pc.ends_with, "ENDSWITH"), "STRING, literal: BOOLEAN", BINARY),
    exp.Contains: Rule(text.search(pc.match_substring, "CONTAINS"), "STRING, literal: BOOLEAN", BINARY),
    exp.Length: Rule(text.length, "STRING: INT"),
    exp.Concat: Rule(text.concat, "STRING, BOOLEAN, whole: STRING", ("expressions", "safe")),
    exp.DPipe: Rule(text.pipe, "STRING, BOOLEAN, whole: STRING", (*BINARY, "safe")),
    exp.Substring: Rule(text.substring, "STRING, literal places: STRING", ("this", "start", "length")),
    exp.Trim: Rule(text.trim, "STRING, literal characters: STRING", (*BINARY, "position")),
    exp.Replace: Rule(text.replace, "STRING, literals: STRING", (*BINARY, "replacement")),
    # Times
    exp.TimestampTrunc: Rule(times.date_trunc, "unit up to WEEK, TIMESTAMP or DATE: TIMESTAMP", ("this", "unit")),
    exp.Extract: Rule(times.extract, "field, TIMESTAMP or DATE: INT", BINARY),
    exp.Year: Rule(times.calendar("YEAR"), "TIMESTAMP or DATE: INT"),
    exp.Month: Rule(times.calendar("MONTH"), "TIMESTAMP or DATE: INT"),
    exp.Day: Rule(times.calendar("DAY"), "TIMESTAMP or DATE: INT"),
    exp.DayOfMonth: Rule(times.calendar("DAY"), "TIMESTAMP or DATE: INT"),
    exp.Hour: Rule(times.clock("HOUR"), "TIMESTAMP or DATE: INT"),
    exp.Minute: Rule(times.clock("MINUTE"), "TIMESTAMP or DATE: INT"),
    exp.Second: Rule(times.clock("SECOND"), "TIMESTAMP or DATE: INT"),
    exp.UnixMicros: Rule(times.since_epoch(1), "TIMESTAMP: BIGINT"),
    exp.UnixMillis: Rule(times.since_epoch(1_000), "TIMESTAMP: BIGINT"),
    exp.UnixSeconds: Rule(times.since_epoch(times.SECOND), "TIMESTAMP: BIGINT"),
    exp.StrToUnix: Rule(times.unix_timestamp, "TIMESTAMP or DATE: BIGINT", ("this", "format")),
}

NAMED: dict[str, Rule] = {
    "positive": Rule(arithmetic.positive, "number: its type"),
    "isnull": Rule(lambda node, build: comparisons.is_null(build(node)), "any: BOOLEAN"),
    "isnotnull": Rule(lambda node, build: comparisons.is_not_null(build(node)), "any: BOOLEAN"),
}
"""Functions of one argument that the parser knows only by name."""

REFUSED: dict[type[exp.Expr], str] = {
    **dict.fromkeys(
        (exp.Exp, exp.Ln, exp.Log, exp.Sin, exp.Cos, exp.Tan, exp.Atan2, exp.Cbrt),
        "its last bit may differ from Spark's",
    ),
    **dict.fromkeys((exp.Upper, exp.Lower, exp.ILike), "case beyond ASCII is another one in Spark"),
    exp.RegexpLike: "Arrow's regular expressions are not Java's",
    exp.Escape: "LIKE with ESCAPE is not evaluated here",
    exp.Alias: "an expression has no name of its own",
}

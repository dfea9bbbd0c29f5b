"""What is evaluated: each kind of node, its handler, and its typing rule; those of functions are in their table.

A rule names the arguments of the node it understands; a node that carries any other is refused,
so that a clause nobody thought of is never silently dropped. What stands in no table is refused
too; `REFUSED` holds better reasons for the kinds people are likely to try.
"""

from __future__ import annotations

import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import arithmetic, comparisons, literals, logic, nested, text
from anabranch.expressions.comparisons import comparison, null_safe
from anabranch.expressions.functions import SCALARS
from anabranch.expressions.functions.declaring import Rule

BINARY = ("this", "expression")


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
    exp.IntDiv: Rule(arithmetic.whole_division, "whole DIV whole: BIGINT", BINARY),
    exp.Neg: Rule(arithmetic.negate, "number: its type"),
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
    exp.DPipe: Rule(text.pipe, "STRING, BOOLEAN, whole: STRING", (*BINARY, "safe")),
    # Arrays and structs
    exp.Dot: Rule(nested.field, "struct: the type of the field", BINARY),
    # What is called by a name
    **{kind: rule for row in SCALARS.values() for kind, rule in row.rules.items() if kind is not exp.Anonymous},
}

REFUSED: dict[type[exp.Expr], str] = {
    **{kind: reason for row in SCALARS.values() for kind, reason in row.refused.items()},
    exp.Alias: "an expression has no name of its own",
}

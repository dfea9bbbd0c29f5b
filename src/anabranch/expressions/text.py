"""Functions of text, by characters of Unicode, as Spark counts them.

Patterns, places and replacements are literals: Arrow's kernels take them once, not per row.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions.expr import Build, Datum, Expr, Handler, NotEvaluable, apply, null
from anabranch.expressions.literals import text_of, whole_of
from anabranch.expressions.types import BOOLEAN, INT, STRING, cast, is_whole, name, require
from anabranch.kernels.letters import lowered, raised

_END = 2**31 - 1


def like(node: exp.Like, build: Build) -> Expr:
    pattern = text_of(build(node.expression), "the pattern of LIKE")
    if "\\" in pattern:
        raise NotEvaluable("LIKE with an escaped character is not evaluated here")
    matches = apply(BOOLEAN, lambda a: pc.match_like(a, pattern), require(build(node.this), STRING, "LIKE"))
    return apply(BOOLEAN, pc.invert, matches) if node.args.get("negate") else matches


def search(kernel: Callable[..., Datum], word: str) -> Handler:
    """STARTSWITH, ENDSWITH, CONTAINS."""

    def handler(node: Any, build: Build) -> Expr:
        pattern = text_of(build(node.expression), f"what {word} looks for")
        return apply(BOOLEAN, lambda a: kernel(a, pattern), require(build(node.this), STRING, word))

    return handler


def length(node: exp.Length, build: Build) -> Expr:
    return apply(INT, pc.utf8_length, require(build(node.this), STRING, "LENGTH"))


def lower(node: exp.Lower, build: Build) -> Expr:
    return apply(STRING, lowered, require(build(node.this), STRING, "LOWER"))


def upper(node: exp.Upper, build: Build) -> Expr:
    return apply(STRING, raised, require(build(node.this), STRING, "UPPER"))


def concat(node: exp.Concat, build: Build) -> Expr:
    if not node.args.get("safe"):
        raise NotEvaluable("texts side by side are joined or quoted differently from version to version")
    return _join([build(part) for part in node.expressions])


def pipe(node: exp.DPipe, build: Build) -> Expr:
    return _join([build(node.this), build(node.expression)])


def _join(parts: list[Expr]) -> Expr:
    """NULL if any part is; whole numbers and truths are written out."""
    texts = []
    for part in parts:
        if not (part.is_null or part.type in (STRING, BOOLEAN) or is_whole(part.type)):
            raise NotEvaluable(f"{name(part.type)} is written as text by Spark")
        texts.append(null(STRING) if part.is_null else cast(part, STRING))
    separator = pa.scalar("", STRING)

    def kernel(*values: Datum) -> Datum:
        return pc.binary_join_element_wise(*values, separator, null_handling="emit_null")

    return apply(STRING, kernel, *texts)


def substring(node: exp.Substring, build: Build) -> Expr:
    """From the 1-based `start` on, or counted from the end if it is negative; 0 is taken as 1."""
    text = require(build(node.this), STRING, "SUBSTRING")
    start = whole_of(build(node.args["start"]), "the start of SUBSTRING")
    count = node.args.get("length")
    size = whole_of(build(count), "the length of SUBSTRING") if count is not None else _END
    first = start - 1 if start > 0 else start
    stop = first + size
    if size <= 0:
        return apply(STRING, lambda a: pc.utf8_slice_codeunits(a, start=0, stop=0), text)
    end = None if (first < 0 <= stop) or stop > _END else stop
    return apply(STRING, lambda a: pc.utf8_slice_codeunits(a, start=first, stop=end), text)


_TRIMS: dict[str, Callable[..., Datum]] = {
    "": pc.utf8_trim,
    "BOTH": pc.utf8_trim,
    "LEADING": pc.utf8_ltrim,
    "TRAILING": pc.utf8_rtrim,
}


def trim(node: exp.Trim, build: Build) -> Expr:
    """Spaces, or any of the characters given, off the ends; tabs and line ends stay."""
    text = require(build(node.this), STRING, "TRIM")
    characters = text_of(build(node.expression), "what TRIM removes") if node.expression else " "
    kernel = _TRIMS[str(node.args.get("position") or "")]
    if not characters:
        return apply(STRING, lambda a: a, text)
    return apply(STRING, lambda a: kernel(a, characters=characters), text)


_PLAIN_PATTERN = re.compile(r"[^\\.\[\](){}*+?^$|]+")


def split(node: exp.RegexpSplit, build: Build) -> Expr:
    """By a text that means itself as a regular expression, too; parts at the end may be empty."""
    pattern = text_of(build(node.expression), "the pattern of SPLIT")
    if not _PLAIN_PATTERN.fullmatch(pattern):
        raise NotEvaluable("SPLIT by a regular expression is not evaluated here")
    text = require(build(node.this), STRING, "SPLIT")
    return apply(pa.list_(STRING), lambda a: pc.split_pattern(a, pattern), text)


def replace(node: exp.Replace, build: Build) -> Expr:
    text = require(build(node.this), STRING, "REPLACE")
    wanted = text_of(build(node.expression), "what REPLACE looks for")
    by = node.args.get("replacement")
    replacement = text_of(build(by), "the replacement of REPLACE") if by is not None else ""
    if not wanted:
        return apply(STRING, lambda a: a, text)
    return apply(STRING, lambda a: pc.replace_substring(a, pattern=wanted, replacement=replacement), text)


def split_part(node: exp.SplitPart, build: Build) -> Expr:
    """The part with a number, from 1, or from the end if it is negative; empty where there are not so many."""
    text = require(build(node.this), STRING, "SPLIT_PART")
    separator = text_of(build(node.args["delimiter"]), "what SPLIT_PART splits at")
    number = whole_of(build(node.args["part_index"]), "the number of SPLIT_PART")
    if number == 0:
        raise NotEvaluable("SPLIT_PART numbers from 1")
    if not separator:
        whole = number in (1, -1)
        return apply(STRING, lambda a: a if whole else pc.utf8_slice_codeunits(a, start=0, stop=0), text)
    return apply(STRING, lambda a: _part(a, separator, number), text)


def _part(texts: Datum, separator: str, number: int) -> Datum:
    """One part of each text; those that have it are found by how many they have, and the others are empty."""
    if isinstance(texts, pa.Scalar):
        return _part(pa.array([texts.as_py()], STRING), separator, number)[0]
    if isinstance(texts, pa.ChunkedArray):
        return pa.chunked_array([_part(chunk, separator, number) for chunk in texts.chunks], STRING)
    parts = pc.split_pattern(texts, separator, max_splits=number) if number > 0 else pc.split_pattern(texts, separator)
    count = pc.list_value_length(parts)
    has = pc.fill_null(pc.greater_equal(count, abs(number)), False)
    some = parts.filter(has)
    ends = pc.cumulative_sum(pc.list_value_length(some))
    begins = pc.subtract(ends, pc.list_value_length(some))
    place = pc.add(begins, number - 1) if number > 0 else pc.add(ends, number)
    empty = pc.if_else(pc.is_valid(texts), "", pa.scalar(None, STRING))
    return pc.replace_with_mask(empty, has, some.flatten().take(place))


def substring_index(node: exp.SubstringIndex, build: Build) -> Expr:
    """What stands before so many separators, or behind so many from the end if that is negative."""
    text = require(build(node.this), STRING, "SUBSTRING_INDEX")
    separator = text_of(build(node.args["delimiter"]), "what SUBSTRING_INDEX looks for")
    count = whole_of(build(node.args["count"]), "the number of SUBSTRING_INDEX")
    if any(separator[i:] == separator[:-i] for i in range(1, len(separator))):
        raise NotEvaluable("SUBSTRING_INDEX counts separators that lie over each other")
    if not separator or count == 0:
        return apply(STRING, lambda a: pc.utf8_slice_codeunits(a, start=0, stop=0), text)
    return apply(STRING, lambda a: _beside(a, separator, count), text)


def _beside(texts: Datum, separator: str, count: int) -> Datum:
    parts = pc.split_pattern(texts, separator, max_splits=abs(count), reverse=count < 0)
    if count > 0:
        return pc.binary_join(pc.list_slice(parts, 0, count), separator)
    behind = pc.binary_join(pc.list_slice(parts, 1), separator)
    return pc.if_else(pc.greater(pc.list_value_length(parts), -count), behind, texts)

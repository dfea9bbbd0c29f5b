"""Functions of text, by characters of Unicode."""

from __future__ import annotations

import pyarrow.compute as pc
from sqlglot import exp

from anabranch.expressions import text
from anabranch.expressions.functions.declaring import Example, Rule, ScalarFunction, left_to_spark

GROUP = "text"
_BINARY = ("this", "expression")
_TRIM = Rule(text.trim, "STRING, literal characters: STRING", (*_BINARY, "position"))
_CASE = "whatever the case is asked of Spark"
_PATTERNS = "Arrow's regular expressions are not Java's"

TEXT = (
    ScalarFunction(
        "concat",
        "Its arguments one behind the other; NULL if any is.",
        group=GROUP,
        rules={exp.Concat: Rule(text.concat, "STRING, BOOLEAN, whole: STRING", ("expressions", "safe"))},
        example=Example("concat('a', 1, 'b')", "a1b"),
    ),
    ScalarFunction(
        "contains",
        "Whether a text holds another.",
        group=GROUP,
        rules={exp.Contains: Rule(text.search(pc.match_substring, "CONTAINS"), "STRING, literal: BOOLEAN", _BINARY)},
        example=Example("contains('stream', 'rea')", True),
    ),
    ScalarFunction(
        "startswith",
        "Whether a text begins with another.",
        group=GROUP,
        rules={exp.StartsWith: Rule(text.search(pc.starts_with, "STARTSWITH"), "STRING, literal: BOOLEAN", _BINARY)},
        example=Example("startswith('stream', 'str')", True),
    ),
    ScalarFunction(
        "endswith",
        "Whether a text ends with another.",
        group=GROUP,
        rules={exp.EndsWith: Rule(text.search(pc.ends_with, "ENDSWITH"), "STRING, literal: BOOLEAN", _BINARY)},
        example=Example("endswith('stream', 'str')", False),
    ),
    ScalarFunction(
        "length",
        "How many characters a text has, or bytes a binary.",
        ("char_length", "character_length", "len"),
        GROUP,
        {exp.Length: Rule(text.length, "STRING: INT")},
        example=Example("length('stream')", 6),
    ),
    ScalarFunction(
        "like",
        "Whether a text fits a pattern of % and _; the same as `LIKE`.",
        group=GROUP,
        rules={exp.Like: Rule(text.like, "STRING, literal without escapes: BOOLEAN", (*_BINARY, "negate"))},
        refused={exp.Escape: "LIKE with ESCAPE is not evaluated here"},
        example=Example("like('stream', 'st%')", True),
    ),
    ScalarFunction(
        "replace",
        "The text with one part replaced by another wherever it stands.",
        group=GROUP,
        rules={exp.Replace: Rule(text.replace, "STRING, literals: STRING", (*_BINARY, "replacement"))},
        example=Example("replace('a-b-c', '-', '+')", "a+b+c"),
    ),
    ScalarFunction(
        "substring",
        "The text from a place on, perhaps only so many characters; negative places count from the end.",
        ("substr",),
        GROUP,
        {exp.Substring: Rule(text.substring, "STRING, literal places: STRING", ("this", "start", "length"))},
        example=Example("substring('stream', 2, 3)", "tre"),
    ),
    ScalarFunction(
        "split",
        "The parts of a text between matches of a regular expression, perhaps at most so many.",
        group=GROUP,
        rules={exp.RegexpSplit: Rule(text.split, "STRING, literal of plain characters: ARRAY<STRING>", _BINARY)},
        example=Example("split('a,b', ',')", ["a", "b"]),
    ),
    ScalarFunction(
        "trim",
        "The text without spaces, or other characters, at its ends.",
        group=GROUP,
        rules={exp.Trim: _TRIM},
        example=Example("trim(' a ')", "a"),
    ),
    ScalarFunction(
        "ltrim",
        "The text without spaces at its beginning.",
        group=GROUP,
        rules={exp.Trim: _TRIM},
        example=Example("ltrim(' a ')", "a "),
    ),
    ScalarFunction(
        "rtrim",
        "The text without spaces at its end.",
        group=GROUP,
        rules={exp.Trim: _TRIM},
        example=Example("rtrim(' a ')", " a"),
    ),
    ScalarFunction(
        "lower",
        "The text in small letters.",
        ("lcase",),
        GROUP,
        {exp.Lower: Rule(text.lower, "STRING: STRING")},
        example=Example("lower('Ärger')", "ärger"),
    ),
    ScalarFunction(
        "upper",
        "The text in capitals.",
        ("ucase",),
        GROUP,
        {exp.Upper: Rule(text.upper, "STRING: STRING")},
        example=Example("upper('straße')", "STRASSE"),
    ),
    ScalarFunction(
        "split_part",
        "One of the parts of a text between separators; negative numbers count from the end.",
        group=GROUP,
        rules={
            exp.SplitPart: Rule(
                text.split_part, "STRING, literal, literal number: STRING", ("this", "delimiter", "part_index")
            )
        },
        example=Example("split_part('a.b.c', '.', 2)", "b"),
    ),
    ScalarFunction(
        "substring_index",
        "The text before so many separators, or behind so many from the end.",
        group=GROUP,
        rules={
            exp.SubstringIndex: Rule(
                text.substring_index, "STRING, literal, literal number: STRING", ("this", "delimiter", "count")
            )
        },
        example=Example("substring_index('a.b.c', '.', 2)", "a.b"),
    ),
    ScalarFunction("ilike", "As `like`, whatever the case.", group=GROUP, refused={exp.ILike: _CASE}),
    ScalarFunction(
        "regexp_like",
        "Whether a regular expression is found in a text.",
        ("rlike",),
        GROUP,
        refused={exp.RegexpLike: _PATTERNS},
    ),
    *left_to_spark(
        GROUP,
        """
ascii: The number of the first character.
bit_length: How many bits the text takes.
btrim: The text without spaces, or other characters, at both ends.
chr, char: The character of a number.
collation: The collation of a text.
concat_ws: Texts with something between them; NULLs are passed over.
find_in_set: The place of a text among those between commas.
format_number: A number with commas between thousands and so many decimal places.
format_string, printf: Arguments put into a format.
initcap: The text with a capital at the beginning of each word.
instr: The place of the first occurrence of a text.
is_valid_utf8: Whether it is well-formed UTF-8.
jaro_winkler_similarity: How alike two texts are, from 0 to 1.
left: So many characters from the beginning.
levenshtein: How many characters have to be changed to make one text the other.
locate, position: The place of a text in another, perhaps from a place on.
lpad: The text filled up on the left to so many characters.
luhn_check: Whether digits pass the Luhn test.
make_valid_utf8: The text with what is no UTF-8 replaced.
mask: The text with letters and digits made unreadable.
octet_length: How many bytes the text takes.
overlay: The text with a part at a place replaced.
quote: The text between quotes.
regexp: The same as `regexp_like`.
regexp_count: How often a regular expression is found.
regexp_extract: What a group of a regular expression matched first.
regexp_extract_all: What a group of a regular expression matched, each time.
regexp_instr: Where a regular expression is found first.
regexp_replace: The text with what a regular expression matches replaced.
regexp_substr: The first part that a regular expression matches.
repeat: The text so many times.
reverse: The text, or an array, the other way round.
right: So many characters from the end.
rpad: The text filled up on the right to so many characters.
sentences: A text as arrays of sentences and words.
soundex: How the text sounds, as a code.
space: So many spaces.
to_char, to_varchar: A number or a time written in a format.
translate: The text with characters replaced one by one.
try_validate_utf8: The text, or NULL if it is no UTF-8.
validate_utf8: The text; an error if it is no UTF-8.
""",
    ),
)

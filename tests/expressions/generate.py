"""Random expressions over the nasty table, typed so that most of them make sense."""

from __future__ import annotations

import random
from collections.abc import Callable

WHOLE, EXACT, FLOATING, TEXT, TIME, DATE, TRUTH = "whole", "exact", "floating", "text", "time", "date", "truth"
COLUMNS = {
    WHOLE: ["i8", "i16", "i", "i2", "l", "l2", "missing"],
    EXACT: ["n", "m", "r", "w"],
    FLOATING: ["f", "d", "d2"],
    TEXT: ["s", "s2"],
    TIME: ["ts", "ts2"],
    DATE: ["dt"],
    TRUTH: ["b", "b2"],
}
LITERALS = {
    WHOLE: [
        *("0", "1", "-1", "3", "1000", "2147483647", "-2147483648", "3000000000", "NULL"),
        *("5L", "7Y", "-12S", "-128Y", "9l"),
    ],
    EXACT: [
        *("0.5", "-1.25", "5BD", "1E2BD", "0.00bd", "00.5", "100", "5L", "7S", "3Y", "-5L"),
        *("+(1)", "+2S", "-(3)", "- -4"),
    ],
    FLOATING: ["0.5D", "0D", "-2.5D", "1e300", "0.1F", "1.5D", "16777217F", "-2f", "double(NULL)"],
    TEXT: ["''", "'a'", "'10.'", "'é😀'", "'x%'", "CAST(NULL AS STRING)"],
    TIME: ["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '1969-07-20 20:17:40.5'", "TIMESTAMP '2020-02-29'"],
    DATE: ["DATE '1970-01-01'", "DATE '2000-02-29'", "DATE '1582-10-15'"],
    TRUTH: ["TRUE", "FALSE", "NULL"],
}
TEXTS = LITERALS[TEXT][:-1]
DECIMALS = ["0.1", "0.5", "1.0", "-1.5", "1000.25"]
WHOLE_TYPES = ["TINYINT", "SMALLINT", "INT", "BIGINT"]
RELATED = {WHOLE: FLOATING, FLOATING: WHOLE, EXACT: FLOATING, TIME: DATE, DATE: TIME}
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]


class Generator:
    """Writes one expression after the other; the same seed writes the same ones."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.shapes: dict[str, list[Callable[[int], str]]] = {
            WHOLE: [
                lambda n: self._binary(WHOLE, ["+", "-", "*", "%", "DIV", "&", "|", "^"], n),
                lambda n: self._call(["-", "+", "ABS", "~", "ROUND"], WHOLE, n),
                lambda n: self._call(["FLOOR", "CEIL"], FLOATING, n),
                lambda n: f"CAST({self._any([WHOLE, FLOATING, TRUTH], n)} AS {self._pick(WHOLE_TYPES)})",
                lambda n: f"LENGTH({self._of(TEXT, n)})",
                lambda n: self._call(["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"], self._pick([TIME, DATE]), n),
                lambda n: self._call(["UNIX_SECONDS", "UNIX_MILLIS", "UNIX_MICROS"], TIME, n),
            ],
            EXACT: [
                lambda n: self._binary(EXACT, ["+", "-", "*"], n),
                lambda n: f"({self._of(EXACT, 0)} {self._pick('+-*')} {self._of(WHOLE, 0)})",
                lambda n: f"({self._pick(LITERALS[EXACT])} {self._pick('+-*')} {self._of(EXACT, 0)})",
                lambda n: self._call(["-", "+", "ABS"], EXACT, n),
                lambda n: f"CAST({self._of(WHOLE, n)} AS DECIMAL(24, 4))",
            ],
            FLOATING: [
                lambda n: self._binary(FLOATING, ["+", "-", "*", "/", "%"], n),
                lambda n: f"({self._of(WHOLE, n)} / {self._of(WHOLE, n)})",
                lambda n: f"({self._of(FLOATING, n)} {self._pick('+-*/')} {self._of(WHOLE, n)})",
                lambda n: f"({self._of(FLOATING, n)} {self._pick('+-*/')} {self._pick(DECIMALS)})",
                lambda n: self._call(["-", "+", "ABS", "ROUND", "SQRT", "SIGN"], FLOATING, n),
                lambda n: f"CAST({self._any([WHOLE, FLOATING, TIME], n)} AS DOUBLE)",
            ],
            TEXT: [
                lambda n: f"CONCAT({self._of(TEXT, n)}, {self._any([TEXT, WHOLE, TRUTH], n)})",
                lambda n: f"({self._of(TEXT, n)} || {self._of(TEXT, n)})",
                lambda n: f"SUBSTRING({self._of(TEXT, n)}, {self.rng.randint(-6, 6)}, {self.rng.randint(-1, 5)})",
                lambda n: self._call(["TRIM", "LTRIM", "RTRIM"], TEXT, n),
                lambda n: f"REPLACE({self._of(TEXT, n)}, {self._pick(TEXTS)}, {self._pick(TEXTS)})",
                lambda n: f"CAST({self._any([WHOLE, TRUTH, TEXT], n)} AS STRING)",
            ],
            TIME: [
                lambda n: (
                    f"({self._of(TIME, n)} {self._pick('+-')} INTERVAL {self.rng.randint(-99, 99)} {self._unit()})"
                ),
                lambda n: f"DATE_TRUNC('{self._unit()}', {self._any([TIME, DATE], n)})",
                lambda n: f"CAST({self._of(DATE, n)} AS TIMESTAMP)",
            ],
            DATE: [lambda n: f"CAST({self._of(TIME, n)} AS DATE)"],
            TRUTH: [
                lambda n: self._binary(TRUTH, ["AND", "OR"], n),
                lambda n: f"(NOT {self._of(TRUTH, n)})",
                self._compare,
                self._compare,
                lambda n: f"({self._any(list(COLUMNS), n)} IS {self._pick(['', 'NOT '])}NULL)",
                self._in,
                self._between,
                lambda n: f"({self._of(TEXT, n)} {self._pick(['', 'NOT '])}LIKE '{self._pattern()}')",
                lambda n: f"({self._of(WHOLE, n)} {self._pick(COMPARISONS)} {self._pick(DECIMALS)})",
                lambda n: (
                    f"{self._pick(['STARTSWITH', 'ENDSWITH', 'CONTAINS'])}({self._of(TEXT, n)}, {self._pick(TEXTS)})"
                ),
                lambda n: f"isnan({self._of(FLOATING, n)})",
            ],
        }

    def expression(self) -> str:
        return self._any(list(COLUMNS), self.rng.randint(1, 4))

    def _pick(self, choices: list[str] | str) -> str:
        return self.rng.choice(choices)

    def _any(self, kinds: list[str], depth: int) -> str:
        return self._of(self._pick(kinds), depth)

    def _of(self, kind: str, depth: int) -> str:
        if depth <= 0:
            return self._pick(COLUMNS[kind]) if self.rng.random() < 0.7 else self._pick(LITERALS[kind])
        if self.rng.random() < 0.2:
            return self._choice(kind, depth - 1)
        return self.rng.choice(self.shapes[kind])(depth - 1)

    def _choice(self, kind: str, n: int) -> str:
        one, two = self._of(kind, n), self._of(kind, n)
        forms: list[Callable[[], str]] = [
            lambda: f"CASE WHEN {self._of(TRUTH, n)} = TRUE THEN {one} WHEN {self._compare(n)} THEN {two} END",
            lambda: f"IF({self._compare(n)}, {one}, {two})",
            lambda: f"COALESCE({one}, {two})",
            lambda: f"NULLIF({one}, {two})",
            lambda: f"GREATEST({one}, {two}, {self._of(kind, 0)})",
            lambda: f"LEAST({one}, {two})",
        ]
        return self.rng.choice(forms)()

    def _binary(self, kind: str, signs: list[str], n: int) -> str:
        return f"({self._of(kind, n)} {self._pick(signs)} {self._of(kind, n)})"

    def _call(self, names: list[str], kind: str, n: int) -> str:
        return f"{self._pick(names)}({self._of(kind, n)})"

    def _compare(self, n: int) -> str:
        one = self._pick(list(COLUMNS))
        other = RELATED.get(one, one) if self.rng.random() < 0.3 else one
        return f"({self._of(one, n)} {self._pick(COMPARISONS)} {self._of(other, n)})"

    def _in(self, n: int) -> str:
        kind = self._pick(list(COLUMNS))
        values = ", ".join(
            self._of(kind, 0) if self.rng.random() < 0.2 else self._pick(LITERALS[kind]) for _ in range(3)
        )
        return f"({self._of(kind, n)} {self._pick(['', 'NOT '])}IN ({values}))"

    def _between(self, n: int) -> str:
        kind = self._pick(list(COLUMNS))
        return f"({self._of(kind, n)} BETWEEN {self._of(kind, n)} AND {self._of(kind, 0)})"

    def _unit(self) -> str:
        return self._pick(["SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MILLISECOND"])

    def _pattern(self) -> str:
        return "".join(self._pick(["%", "_", "a", "1", ".", "é", "x", "("]) for _ in range(self.rng.randint(0, 4)))

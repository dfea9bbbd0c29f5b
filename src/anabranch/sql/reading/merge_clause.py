"""`MERGE JOIN`, and the `WITH (algorithm = 'cgm', window = 5000, …)` behind its ON, token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import did_you_mean
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.shed_clause import bytes_of
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.reading.window_clause import BEFORE_AN_EXPRESSION
from anabranch.sql.tree import MergeOptions

ALGORITHMS = ("cgm", "rtm")
POLICIES = ("first", "nearest", "all")
REMAINDERS = ("rest", "difference")
PACES = ("time", "rows")
MOST_ROWS = 2**31 - 1
"""The largest window, and the most rounds that are looked back on."""

_BEFORE_A_NAME = BEFORE_AN_EXPRESSION | {"FROM", "JOIN", "AS", "=", "<", ">", "<=", ">=", "<>", "+", "-", "*", "/"}
_BEFORE_OPTIONS = {"ON", "JOIN", "USING", "SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT"}
_AFTER_OPTIONS = {
    "", "WHERE", "MERGE", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "NATURAL", ",", ")",
    "GROUP BY", "HAVING", "ORDER BY", "SORT BY", "CLUSTER BY", "DISTRIBUTE BY", "LIMIT", "OFFSET", "WINDOW", "WITH",
    "LATERAL", "QUALIFY", "UNION", "INTERSECT", "EXCEPT", "MINUS",
}  # fmt: skip
_PLACE = "put it after the last ON, before WHERE"


class _Given(NamedTuple):
    """An option: what it is set to, and where its name and its value stand."""

    value: Any
    start: int
    value_start: int


def is_merge(tokens: list[Token], index: int) -> bool:
    """`MERGE JOIN` is the clause, except where a name is wanted: a column, stream or alias may be called merge."""
    return (
        index > 0
        and [word(token) for token in tokens[index : index + 2]] == ["MERGE", "JOIN"]
        and word(tokens[index - 1]) not in _BEFORE_A_NAME
    )


def take_merge_options(cursor: Cursor) -> MergeOptions:
    """The options, where the cursor stands on WITH."""
    _check_place(cursor)
    start = cursor.advance().start
    cursor.expect("(")
    options: dict[str, _Given] = {}
    while True:
        at = cursor.peek()
        name = cursor.name("an option").lower()
        if name not in _TAKE or name in options:
            cursor.index -= 1
            raise cursor.error_here(
                "SYNTAX_ERROR",
                f"{name} is given twice" if name in options else f'a merge has no option "{name}"',
                hint=None if name in options else did_you_mean(name, _TAKE, f"there are: {', '.join(_TAKE)}"),
            )
        cursor.expect("=")
        value = cursor.peek()
        if at is None or value is None:
            cursor.fail("expected a value")
        options[name] = _Given(_TAKE[name](cursor, name), at.start, value.start)
        if not cursor.words(","):
            break
    cursor.expect(")")
    if word(cursor.peek()) not in _AFTER_OPTIONS:
        raise error_at("SYNTAX_ERROR", "WITH (…) ends an ON, and more of it follows", cursor.text, start, hint=_PLACE)
    return _together(options, cursor.text, start)


def _check_place(cursor: Cursor) -> None:
    """The options stand behind an ON and before what follows it."""
    depth = 0
    for token in reversed(cursor.tokens[: cursor.index]):
        depth += (token.token_type == TokenType.R_PAREN) - (token.token_type == TokenType.L_PAREN)
        if depth == 0 and word(token) in _BEFORE_OPTIONS:
            if word(token) == "ON":
                return
            break
    raise cursor.error_here("SYNTAX_ERROR", "WITH (…) of a merge stands behind ON", hint=_PLACE)


# -- values ----------------------------------------------------------------------------------------


def _one_of(allowed: tuple[str, ...]) -> Callable[[Cursor, str], str]:
    def take(cursor: Cursor, name: str) -> str:
        token = cursor.peek()
        if token is None or token.token_type != TokenType.STRING or token.text.lower() not in allowed:
            quoted = [f"'{value}'" for value in allowed]
            hint = "write it in quotes" if token is not None and token.text.lower() in allowed else None
            _refuse(cursor, name, f"{', '.join(quoted[:-1])} or {quoted[-1]}", hint)
        return cursor.advance().text.lower()

    return take


def _count(cursor: Cursor, name: str) -> int:
    token = cursor.peek()
    wanted = "a whole number of rows, 1 or more" if name != "over" else "a whole number of rounds, 1 or more"
    if token is None or token.token_type != TokenType.NUMBER or not token.text.isdecimal():
        _refuse(cursor, name, wanted)
    if len(token.text) > 10 or not 1 <= int(token.text) <= MOST_ROWS:
        _refuse(cursor, name, f"{wanted} and at most {MOST_ROWS}")
    return int(cursor.advance().text)


def _period(cursor: Cursor, name: str) -> int | None:
    """Microseconds; None for 0."""
    token = cursor.peek()
    if word(token) == "INTERVAL":
        return take_interval(cursor, least=0) or None
    if token is None or token.token_type != TokenType.NUMBER or token.text != "0":
        _refuse(cursor, name, "INTERVAL … or 0", hint=f"write for example {name} = INTERVAL 1 SECOND")
    cursor.advance()
    return None


def _length(cursor: Cursor, name: str) -> int:
    """Microseconds."""
    return _period(cursor, name) or 0


def _share(cursor: Cursor, name: str) -> float:
    token = cursor.peek()
    try:
        share = float(token.text) if token is not None and token.token_type == TokenType.NUMBER else 0.0
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        _refuse(cursor, name, "a number between 0 and 1, both excluded", hint="write for example delta = 0.02")
    cursor.advance()
    return share


def _size(cursor: Cursor, name: str) -> int:
    return bytes_of(cursor.advance(), cursor.text)


_TAKE: dict[str, Callable[[Cursor, str], Any]] = {
    "algorithm": _one_of(ALGORITHMS),
    "policy": _one_of(POLICIES),
    "window": _count,
    "step": _count,
    "every": _period,
    "delta": _share,
    "over": _count,
    "memory": _size,
    "remainder": _one_of(REMAINDERS),
    "pace": _one_of(PACES),
    "wait": _length,
}
"""The options of a merge, and how the value of each is read."""


def _refuse(cursor: Cursor, name: str, wanted: str, hint: str | None = None) -> NoReturn:
    token = cursor.peek()
    got = "nothing" if token is None else token.text if token.token_type == TokenType.NUMBER else f'"{token.text}"'
    raise cursor.error_here("MERGE_OPTION_INVALID", f"{name} must be {wanted}, got {got}", hint=hint)


# -- options beside each other ---------------------------------------------------------------------


def _together(options: dict[str, _Given], text: str, start: int) -> MergeOptions:
    values = {name: given.value for name, given in options.items()}
    ranged = values.get("algorithm") == "rtm"
    for name, given in options.items():
        if ranged and name in ("step", "delta", "over", "memory", "pace", "wait"):
            raise error_at(
                "MERGE_OPTION_INVALID",
                f"{name} is for algorithm = 'cgm'",
                text,
                given.start,
                hint=f"leave {name} out: with 'rtm' the other stream is asked for what is near",
            )
        if not ranged and name == "remainder":
            raise error_at(
                "MERGE_OPTION_INVALID",
                "remainder is for algorithm = 'rtm'",
                text,
                given.start,
                hint="leave remainder out, or add algorithm = 'rtm'",
            )
        if name in ("over", "memory") and "delta" not in values:
            raise error_at(
                "MERGE_OPTION_INVALID",
                f"{name} says how delta is kept, and there is no delta",
                text,
                given.start,
                hint=f"add delta = 0.02, or leave {name} out",
            )
    window = values.get("window", MergeOptions.window)
    if values.setdefault("step", max(1, window // 5)) > window:
        raise error_at(
            "MERGE_OPTION_INVALID",
            f"a step of {values['step']} rows is more than the window of {window}",
            text,
            options["step"].value_start,
            hint=f"use step = {max(1, window // 5)}, or a larger window",
        )
    return MergeOptions(**values, start=start)

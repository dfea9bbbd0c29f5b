"""`WITH (memory = '64 MB', shed = 'random')` behind a join, token by token."""

from __future__ import annotations

import re
from typing import Literal, cast

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import did_you_mean
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.tree import Shedding

SHED = ("random", "oldest", "matches")
"""What a join can let go first when its memory is full."""
_OPTIONS = ("memory", "shed")
_SIZE = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<power>[KMGT]?)(?P<binary>I?)B?\s*", re.IGNORECASE)
_POWERS = ("", "K", "M", "G", "T")


def is_shedding(tokens: list[Token], index: int) -> bool:
    """`WITH (` is the clause: a WITH of Spark is followed by a name."""
    return index > 0 and index + 1 < len(tokens) and [word(t) for t in tokens[index : index + 2]] == ["WITH", "("]


def take_shedding(cursor: Cursor) -> Shedding:
    """The options, where the cursor stands on WITH; nothing of the query may follow them."""
    start = cursor.advance().start
    cursor.expect("(")
    options: dict[str, Token] = {}
    while True:
        name = cursor.name("memory or shed").lower()
        if name not in _OPTIONS or name in options:
            cursor.index -= 1
            raise cursor.error_here(
                "SYNTAX_ERROR",
                f"{name} is given twice" if name in options else f'a join has no option "{name}"',
                hint=None if name in options else did_you_mean(name, _OPTIONS, "there are: memory, shed"),
            )
        cursor.expect("=")
        options[name] = cursor.advance()
        if not cursor.words(","):
            break
    cursor.expect(")")
    following = word(cursor.peek())
    if cursor.peek() is not None and following not in (")", "UNION", "INTERSECT", "EXCEPT", "MINUS"):
        cursor.index = next(i for i, token in enumerate(cursor.tokens) if token.start == start)
        raise cursor.error_here("SYNTAX_ERROR", "WITH (…) ends a join, and more follows", hint="put it last")
    if "memory" not in options:
        raise error_at(
            "SYNTAX_ERROR", "shed says what to let go, but not when", cursor.text, start, hint="add memory = '64 MB'"
        )
    return Shedding(bytes_of(options["memory"], cursor.text), _shed(options.get("shed"), cursor.text), start)


def bytes_of(token: Token, text: str) -> int:
    """A size of memory: a number of bytes, or text such as '64 MB'."""
    match = _SIZE.fullmatch(token.text) if token.token_type in (TokenType.STRING, TokenType.NUMBER) else None
    size = 0
    if match is not None:
        base = 1024 if match["binary"] else 1000
        size = round(float(match["number"]) * base ** _POWERS.index(match["power"].upper()))
    if not 0 < size < 2**62:
        raise error_at(
            "SYNTAX_ERROR",
            f'"{token.text}" is not a size of memory',
            text,
            token.start,
            hint="write a number of bytes, or for example '64 MB'",
        )
    return size


def _shed(token: Token | None, text: str) -> Literal["random", "oldest", "matches"]:
    if token is None:
        return "random"
    if token.token_type == TokenType.STRING and token.text.lower() in SHED:
        return cast(Literal["random", "oldest", "matches"], token.text.lower())
    raise error_at(
        "SYNTAX_ERROR",
        f'a join cannot shed "{token.text}"',
        text,
        token.start,
        hint="write " + ", ".join(f"'{policy}'" for policy in SHED[:-1]) + f" or '{SHED[-1]}'",
    )

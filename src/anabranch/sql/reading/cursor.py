"""Reading a statement's tokens one after the other."""

from __future__ import annotations

from typing import NoReturn

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import SqlError
from anabranch.sql.reading.tokens import error_at

_NOT_A_WORD = {TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER, TokenType.NUMBER}


def word(token: Token | None) -> str:
    """The token as an upper-case word; empty for strings, numbers, quoted names and the end."""
    return "" if token is None or token.token_type in _NOT_A_WORD else token.text.upper()


def is_name(token: Token | None) -> bool:
    """True for a token that can be a name: quoted, or a plain word."""
    if token is None:
        return False
    if token.token_type == TokenType.IDENTIFIER:
        return True
    text = word(token)
    return bool(text) and (text[0].isalpha() or text[0] == "_") and text.replace("_", "a").isalnum()


class Cursor:
    """A place among the tokens of one statement."""

    def __init__(self, tokens: list[Token], text: str) -> None:
        self.tokens = tokens
        self.text = text
        self.index = 0

    def peek(self, ahead: int = 0) -> Token | None:
        at = self.index + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def words(self, *wanted: str) -> bool:
        """Takes the words if they come next, all of them."""
        if all(word(self.peek(i)) == keyword for i, keyword in enumerate(wanted)):
            self.index += len(wanted)
            return True
        return False

    def next_is(self, *wanted: str) -> bool:
        return all(word(self.peek(i)) == keyword for i, keyword in enumerate(wanted))

    def expect(self, *wanted: str) -> None:
        for keyword in wanted:
            if not self.words(keyword):
                self.fail(f"expected {keyword}")

    def advance(self) -> Token:
        token = self.peek()
        if token is None:
            self.fail("expected more")
        self.index += 1
        return token

    def name(self, what: str) -> str:
        """A name, quoted or not."""
        token = self.peek()
        if token is None or not is_name(token) or not token.text:
            self.fail(f"expected {what}")
        self.index += 1
        return token.text

    def rest(self) -> list[Token]:
        tokens = self.tokens[self.index :]
        self.index = len(self.tokens)
        return tokens

    def end(self) -> None:
        """Nothing may follow."""
        token = self.peek()
        if token is not None:
            raise self.error_here(
                "SYNTAX_ERROR", f'"{token.text}" was not expected here', hint="end the statement with ;"
            )

    def source(self, first: int, last: int) -> str:
        """The user's own text of tokens first ≤ n < last."""
        return self.text[self.tokens[first].start : self.tokens[last - 1].end + 1] if last > first else ""

    def error_here(self, name: str, message: str, *, detail: str | None = None, hint: str | None = None) -> SqlError:
        token = self.peek()
        start = token.start if token is not None else (self.tokens[-1].end + 1 if self.tokens else 0)
        return error_at(name, message, self.text, start, detail=detail, hint=hint)

    def fail(self, wanted: str, hint: str | None = None) -> NoReturn:
        token = self.peek()
        got = f'got "{token.text}"' if token is not None else "the statement ends here"
        raise self.error_here("SYNTAX_ERROR", f"{wanted}, {got}", hint=hint)

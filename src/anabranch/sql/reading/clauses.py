"""The clauses of a SELECT that are ours, taken out of its tokens.

WINDOW, MERGE, WITH (…), EMIT, hints, and those about history: ARCHIVE, SINCE, REDUCE BY, WITH ERROR.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, cast

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.archive_tree import Accuracy, ArchiveTable, Since
from anabranch.sql.checking.inner_clauses import INNER_HINT, MERGE_INSIDE, MERGE_INSIDE_HINT
from anabranch.sql.checking.safety import check_tokens
from anabranch.sql.reading.accuracy import take_accuracy
from anabranch.sql.reading.archive_clause import (
    is_archive,
    is_since,
    refuse_reducing,
    table_places,
    take_archive,
    take_since,
)
from anabranch.sql.reading.bounding import take_bounding
from anabranch.sql.reading.cursor import Cursor, is_name, word
from anabranch.sql.reading.hints import read_hints
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.merge_clause import is_merge, take_merge_options
from anabranch.sql.reading.reduce_by import is_reducing
from anabranch.sql.reading.shed_clause import is_shedding, take_shedding
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.reading.window_clause import BEFORE_AN_EXPRESSION, is_pairwise, is_window, take_pairs, take_window
from anabranch.sql.reading.window_tables import is_window_table, take_window_table
from anabranch.sql.tree import Bounding, Emit, Hint, Inner, MergeOptions, Merging, Pair, Shedding, Side, Window


@dataclass(frozen=True)
class Clauses:
    """What was taken out.

    `sides` are the clauses of each side of a set operation (of one, if there is none), `inner` those
    of the subqueries that may have some, `archives` the tables of the whole query that are read from one.
    """

    sides: tuple[Side, ...]
    emit: Emit | None
    inner: tuple[Inner, ...] = ()
    archives: tuple[ArchiveTable, ...] = ()
    accuracy: Accuracy | None = None
    bounding: Bounding | None = None
    spans: tuple[Inner, ...] = ()
    """The clauses of every SELECT, with where it stands."""


_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_BEFORE_A_NAME = BEFORE_AN_EXPRESSION | {"FROM", "JOIN", "AS", "ORDER BY", "DISTINCT"}
_VALUES = (TokenType.NUMBER, TokenType.STRING, TokenType.COMMA)


def take_clauses(tokens: list[Token], text: str) -> tuple[list[Token], Clauses]:
    """The tokens that are left for Spark's parser, and our clauses."""
    check_tokens([token for token in tokens if token.token_type != TokenType.HINT], text)
    tokens, bounding = take_bounding(tokens, text)
    tokens, accuracy = take_accuracy(tokens, text)
    tokens, emit = _take_emit(tokens, text)
    tokens = [_as_function_name(tokens, i) for i in range(len(tokens))]
    kept, clauses = _Taker(tokens, text).take(emit, accuracy)
    return kept, replace(clauses, bounding=bounding)


@dataclass
class _Found:
    """The clauses of one SELECT so far."""

    window: Window | None = None
    hints: tuple[Hint, ...] = ()
    pairs: tuple[Pair, ...] = ()
    shedding: Shedding | None = None
    merges: tuple[int, ...] = ()
    options: MergeOptions | None = None
    since: Since | None = None
    begin: int = 0

    def side(self) -> Side:
        merge = Merging(self.merges, self.options or MergeOptions()) if self.merges else None
        return Side(self.window, self.hints, self.pairs, self.shedding, merge, self.since)


@dataclass
class _Taker:
    """Goes through the tokens once, and keeps those that are not of our clauses; each SELECT has its own."""

    tokens: list[Token]
    text: str
    kept: list[Token] = field(default_factory=list)
    sides: list[_Found] = field(default_factory=lambda: [_Found()])
    inner: list[Inner] = field(default_factory=list)
    spans: list[Inner] = field(default_factory=list)
    open: list[_Found | None] = field(default_factory=list)
    """The SELECT of each parenthesis that is open; None where none stands."""
    archives: list[ArchiveTable] = field(default_factory=list)
    places: frozenset[int] = frozenset()
    merges: bool = False

    def take(self, emit: Emit | None, accuracy: Accuracy | None) -> tuple[list[Token], Clauses]:
        cursor = Cursor(self.tokens, self.text)
        self.merges = any(is_merge(self.tokens, index) for index in range(len(self.tokens)))
        self.places = table_places(self.tokens)
        while cursor.peek() is not None:
            if self.tokens[cursor.index].token_type in _VALUES:  # where no clause begins; there may be very many
                self.kept.append(cursor.advance())
            elif not self._take_clause(cursor) and not self._take_history(cursor):
                self._follow(cursor)
                self.kept.append(cursor.advance())
        self._close(self.sides[-1], self.tokens[-1].end)
        sides = tuple(query.side() for query in self.sides)
        clauses = Clauses(sides, emit, tuple(self.inner), tuple(self.archives), accuracy, spans=tuple(self.spans))
        return self.kept, clauses

    def _follow(self, cursor: Cursor) -> None:
        """Keeps track of parentheses and of the sides of a set operation."""
        token = self.tokens[cursor.index]
        if token.token_type == TokenType.L_PAREN:
            begins = word(cursor.peek(1)) in ("SELECT", "WITH") and not is_shedding(self.tokens, cursor.index + 1)
            self.open.append(_Found(begin=token.start) if begins else None)
        elif token.token_type == TokenType.R_PAREN and self.open:
            query = self.open.pop()
            if query is not None:
                self._close(query, token.start, inner=True)
        elif _is_set_operation(self.tokens, cursor.index):
            following = _Found(begin=token.start)
            if not self.open:
                self._close(self.sides[-1], token.start)
                self.sides.append(following)
            elif self.open[-1] is not None:
                self._close(self.open[-1], token.start, inner=True)
                self.open[-1] = following

    def _close(self, query: _Found, end: int, *, inner: bool = False) -> None:
        """Takes note of where a SELECT stands."""
        found = Inner(query.begin, end, query.side())
        self.spans.append(found)
        if inner and not found.side.is_empty:
            self.inner.append(found)

    def _take_clause(self, cursor: Cursor) -> bool:
        """Takes the clause that begins here, if one does."""
        token = self.tokens[cursor.index]
        if token.token_type == TokenType.HINT:
            if self.open:
                raise error_at("HINT_NOT_POSSIBLE", "a subquery cannot have a hint", self.text, token.start)
            self.sides[-1].hints = read_hints(token, self.text)
            cursor.advance()
        elif is_window(self.tokens, cursor.index):
            query = self._query_of_window(token)
            query.window = take_window(cursor)
        elif is_window_table(self.tokens, cursor.index):
            query = self._query_of_window(token)
            stream, query.window = take_window_table(cursor)
            self.kept += stream
        elif is_pairwise(self.tokens, cursor.index):
            query = self._query_of_window(token)
            query.pairs = take_pairs(cursor)
        elif is_merge(self.tokens, cursor.index):
            self._query_of_merge(token).merges += (token.start,)
            cursor.advance()
        elif is_shedding(self.tokens, cursor.index):
            query = self._query("WITH (…)", token)
            if self.merges:
                self._refuse_second_options(query, token)
                query.options = take_merge_options(cursor)
            else:
                query.shedding = take_shedding(cursor)
        else:
            return False
        return True

    def _take_history(self, cursor: Cursor) -> bool:
        """Takes the clause about history that begins here, if one does."""
        if is_archive(self.tokens, cursor.index, self.places):
            kept, archive = take_archive(cursor)
            self.kept += kept
            self.archives.append(archive)
        elif is_since(self.tokens, cursor.index):
            query = self._query_of_since(self.tokens[cursor.index])
            query.since = take_since(cursor)
        elif is_reducing(self.tokens, cursor.index):
            raise refuse_reducing(cursor)
        else:
            return False
        return True

    def _query_of_since(self, token: Token) -> _Found:
        if self.open:
            raise error_at(
                "NOT_IN_THE_LANGUAGE",
                "a subquery cannot have SINCE",
                self.text,
                token.start,
                hint="read FROM ARCHIVE … BETWEEN … AND … there",
            )
        if self.sides[-1].since is not None:
            raise error_at("SYNTAX_ERROR", "SINCE comes twice", self.text, token.start)
        return self.sides[-1]

    def _query_of_window(self, token: Token) -> _Found:
        query = self._query("a WINDOW", token)
        if query.window is not None or query.pairs:
            raise error_at(
                "SYNTAX_ERROR",
                "there are two WINDOW clauses",
                self.text,
                token.start,
                hint="join the windows of pairs with AND" if query.pairs else None,
            )
        return query

    def _query_of_merge(self, token: Token) -> _Found:
        query = self.open[-1] if self.open else self.sides[-1]
        if query is None:
            raise error_at(*MERGE_INSIDE, self.text, token.start, hint=MERGE_INSIDE_HINT)
        return query

    def _refuse_second_options(self, query: _Found, token: Token) -> None:
        if query.options is not None:
            raise error_at(
                "SYNTAX_ERROR",
                "there are two WITH (…)",
                self.text,
                token.start,
                hint="write all options once, after the last ON",
            )

    def _query(self, what: str, token: Token) -> _Found:
        """The SELECT a clause stands in."""
        if not self.open:
            return self.sides[-1]
        query = self.open[-1]
        if query is None:
            raise error_at(
                "NOT_IN_THE_LANGUAGE",
                f"a subquery cannot have {what}",
                self.text,
                token.start,
                hint=INNER_HINT,
            )
        return query


def _as_function_name(tokens: list[Token], index: int) -> Token:
    """`window(…)` and `window.start` are names, though WINDOW also begins a clause; `session(…)` is one, too."""
    token, following = tokens[index], word(tokens[index + 1]) if index + 1 < len(tokens) else ""
    is_window_name = word(token) == "WINDOW" and following in ("(", ".") and not is_pairwise(tokens, index)
    if is_window_name or (word(token) == "SESSION" and following == "("):
        return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return token


def _is_set_operation(tokens: list[Token], index: int) -> bool:
    """True for UNION and its kin; the EXCEPT of `* EXCEPT (a, b)` is none."""
    if word(tokens[index]) not in _SET_OPERATIONS:
        return False
    after_star = index > 0 and tokens[index - 1].token_type == TokenType.STAR
    return not (after_star and index + 1 < len(tokens) and tokens[index + 1].token_type == TokenType.L_PAREN)


# -- EMIT ------------------------------------------------------------------------------------------


def _take_emit(tokens: list[Token], text: str) -> tuple[list[Token], Emit | None]:
    """The tokens without the EMIT that ends a query."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
        kind = _emit_kind(tokens, index)
        if kind is None:
            continue
        cursor = Cursor(tokens, text)
        cursor.index = index + 1 + len(kind.split())
        every = take_interval(cursor) if kind == "EVERY" and depth == 0 else None
        if cursor.peek() is None:
            return tokens[:index], Emit(kind, token.start, every)
        if depth > 0 or not is_name(cursor.peek()):
            continue
        raise error_at(
            "SYNTAX_ERROR", f"EMIT {kind} ends a query, and more follows", text, token.start, hint="put it at the end"
        )
    return tokens, None


def _emit_kind(tokens: list[Token], index: int) -> Literal["CHANGES", "FINAL", "IN ORDER", "EVERY"] | None:
    """`EMIT CHANGES` is the clause unless a name of something is wanted there."""
    if index == 0 or word(tokens[index]) != "EMIT" or word(tokens[index - 1]) in _BEFORE_A_NAME:
        return None
    following = [word(token) for token in tokens[index + 1 : index + 3]]
    if following[:1] == ["EVERY"] or following[:1] == ["CHANGES"] or following[:1] == ["FINAL"]:
        return cast(Literal["CHANGES", "FINAL", "EVERY"], following[0])
    return "IN ORDER" if following == ["IN", "ORDER"] else None

"""A SELECT's tokens into a tree: our clauses are taken out here, the rest is sqlglot's Spark parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import AnabranchError
from anabranch.sql.cursor import Cursor, is_name, word
from anabranch.sql.intervals import take_interval
from anabranch.sql.safety import called, check_tokens
from anabranch.sql.tokens import error_at
from anabranch.sql.tree import Select, Window


class _Later(NamedTuple):
    """A clause of the language that has its place here but no operator behind it."""

    words: tuple[str, ...]
    hint: str


_NAME = "<name>"
LATER_CLAUSES: tuple[_Later, ...] = (
    _Later(("MERGE", "JOIN"), "merge the streams outside, or ask once with JOIN … ON"),
    _Later(("ARCHIVE", _NAME, "BETWEEN"), "ask the stream itself and filter by its time"),
    _Later(("SINCE", "TIMESTAMP"), "filter by the stream's time: WHERE ts >= TIMESTAMP '…'"),
    _Later(("REDUCE", "BY"), "leave REDUCE BY out"),
    _Later(("EMIT", "EVERY"), "say how often with WINDOW = … SLIDE …"),
)


def parse_select(tokens: list[Token], text: str) -> Select:
    """The SELECT made of these tokens of the text."""
    check_tokens(tokens, text)
    _refuse_later_clauses(tokens, text)
    kept, window = _take_window([_as_function_name(tokens, i) for i in range(len(tokens))], text)
    tree = _parse_tree(kept, text)
    return Select(tree, window, text[tokens[0].start : tokens[-1].end + 1], text, tokens[0].start)


def _as_function_name(tokens: list[Token], index: int) -> Token:
    """`window(…)` and `window.start` are names, though WINDOW also begins a clause."""
    token, following = tokens[index], word(tokens[index + 1]) if index + 1 < len(tokens) else ""
    if word(token) == "WINDOW" and following in ("(", ".") and not _is_pairwise_window(tokens, index):
        return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end)
    return token


def _refuse_later_clauses(tokens: list[Token], text: str) -> None:
    for index, token in enumerate(tokens):
        for later in LATER_CLAUSES:
            following = tokens[index : index + len(later.words)]
            if len(following) == len(later.words) and all(
                is_name(t) if wanted == _NAME else word(t) == wanted
                for t, wanted in zip(following, later.words, strict=True)
            ):
                clause = " ".join(w for w in later.words if w not in (_NAME, "TIMESTAMP", "BETWEEN"))
                raise error_at("NOT_IN_THE_LANGUAGE", f"{clause} is not available", text, token.start, hint=later.hint)


def _take_window(tokens: list[Token], text: str) -> tuple[list[Token], Window | None]:
    """The tokens without the window clause, and the window."""
    depth, index, kept = 0, 0, list[Token]()
    window: Window | None = None
    while index < len(tokens):
        token = tokens[index]
        if token.token_type == TokenType.L_PAREN:
            depth += 1
        elif token.token_type == TokenType.R_PAREN:
            depth -= 1
        if _is_pairwise_window(tokens, index):
            raise error_at(
                "NOT_IN_THE_LANGUAGE",
                "a window between two streams is not available",
                text,
                token.start,
                hint="a standing query reads one stream; write WINDOW = …",
            )
        if not _is_window(tokens, index):
            kept.append(token)
            index += 1
            continue
        if depth > 0:
            raise error_at(
                "NOT_IN_THE_LANGUAGE",
                "a subquery cannot have a WINDOW",
                text,
                token.start,
                hint="make the inner query a stream with CREATE STREAM … AS SELECT …",
            )
        if window is not None:
            raise error_at("SYNTAX_ERROR", "there are two WINDOW clauses", text, token.start)
        cursor = Cursor(tokens, text)
        cursor.index = index + 2
        window = _take_sizes(cursor, token.start)
        index = cursor.index
    return kept, window


def _is_window(tokens: list[Token], index: int) -> bool:
    """`WINDOW =` is the clause; a column of that name can only be compared where an expression stands."""
    if index == 0 or index + 2 >= len(tokens) or word(tokens[index]) != "WINDOW" or word(tokens[index + 1]) != "=":
        return False
    before, after = tokens[index - 1], tokens[index + 2]
    return word(before) not in _BEFORE_AN_EXPRESSION and (
        word(after) == "INTERVAL" or after.token_type == TokenType.NUMBER or before.token_type != TokenType.DOT
    )


_BEFORE_AN_EXPRESSION = {
    "AND",
    "OR",
    "NOT",
    "WHERE",
    "HAVING",
    "ON",
    "SELECT",
    ",",
    "(",
    ".",
    "WHEN",
    "THEN",
    "ELSE",
    "GROUP BY",
}


def _is_pairwise_window(tokens: list[Token], index: int) -> bool:
    here = tokens[index : index + 7]
    return (
        len(here) == 7
        and [word(here[i]) for i in (0, 1, 3, 5, 6)] == ["WINDOW", "(", ",", ")", "="]
        and is_name(here[2])
        and is_name(here[4])
        and (index == 0 or word(tokens[index - 1]) not in _BEFORE_AN_EXPRESSION - {"AND"})
    )


def _take_sizes(cursor: Cursor, start: int) -> Window:
    unit, size = _take_size(cursor)
    slide = size
    if cursor.words("SLIDE"):
        begin = cursor.index
        slide_unit, slide = _take_size(cursor)
        cursor_end = cursor.index
        cursor.index = begin
        if slide_unit != unit:
            raise cursor.error_here("WINDOW_UNITS_DIFFER", "the window and its slide must both be time or both ROWS")
        cursor.index = cursor_end
    return Window("time" if unit == "time" else "rows", size, slide, start)


def _take_size(cursor: Cursor) -> tuple[str, int]:
    token = cursor.peek()
    if word(token) == "INTERVAL":
        return "time", take_interval(cursor)
    if token is not None and token.token_type == TokenType.NUMBER:
        count = cursor.advance().text
        if not (cursor.words("ROWS") or cursor.words("ROW")):
            cursor.fail("expected ROWS", hint="write WINDOW = 1000 ROWS, or WINDOW = INTERVAL 10 SECONDS")
        if not count.isdigit() or not 0 < int(count) < 2**53:
            cursor.index -= 2
            raise cursor.error_here(
                "SYNTAX_ERROR", f"a window of {count} rows cannot be", hint="use a whole number from 1"
            )
        return "rows", int(count)
    cursor.fail("expected the window's size", hint="write WINDOW = INTERVAL 1 MINUTE or WINDOW = 1000 ROWS")


class _Parser(SparkParser):
    """Spark's parser, which takes functions as they are written and remembers where it gave up.

    sqlglot would rewrite many functions into relatives that it can translate between dialects
    (`percentile_cont` into `percentile_approx`); here nothing is to be translated.
    """

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {"ARRAY": SparkParser.FUNCTIONS["ARRAY"]}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name]
        for name in ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "SUBSTRING", "SUBSTR", "OVERLAY")
    }
    last_problem: tuple[str, Token | None] = ("", None)

    def raise_error(self, message: str, token: Any = None) -> None:
        at = token or self._curr
        self.last_problem = (message, at if at else None)
        super().raise_error(message, *([token] if token else []))


def _parse_tree(tokens: list[Token], text: str) -> exp.Expr:
    parser = _Parser(dialect="spark", error_level=ErrorLevel.IMMEDIATE)
    try:
        trees = parser.parse(tokens, text)
    except AnabranchError:
        raise
    except SqlglotError:
        raise _syntax_error(*parser.last_problem, tokens, text) from None
    except RecursionError:
        raise error_at("SYNTAX_ERROR", "the query is nested too deeply", text, tokens[0].start) from None
    except Exception:  # whatever a parser of foreign text trips over is a wrong text, not a fault of ours
        raise _syntax_error("", None, tokens, text) from None
    tree = trees[0] if len(trees) == 1 else None
    if isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        return _with_whole_intervals(_with_units(tree))
    raise error_at("SYNTAX_ERROR", "this is not a query", text, tokens[0].start, hint="begin with SELECT")


_TAKES_UNIT = ("dateadd", "date_add", "datediff", "date_diff", "timestampadd", "timestampdiff")


def _with_units(tree: exp.Expr) -> exp.Expr:
    """The DAY of `dateadd(DAY, 1, ts)` is a unit, not a column."""
    for node in list(tree.find_all(exp.Anonymous)):
        if called(node) in _TAKES_UNIT and len(node.expressions) == 3 and isinstance(node.expressions[0], exp.Column):
            node.expressions[0].replace(exp.var(node.expressions[0].name))
    return tree


def _with_whole_intervals(tree: exp.Expr) -> exp.Expr:
    """`ts - INTERVAL 1 DAY 2 HOURS` takes both away; as text it needs parentheses to say so."""
    for node in list(tree.find_all(exp.Add)):
        if _is_interval_sum(node) and isinstance(node.parent, exp.Binary) and not _is_interval_sum(node.parent):
            node.replace(exp.Paren(this=node.copy()))
    return tree


def _is_interval_sum(node: exp.Expr | None) -> bool:
    return (
        isinstance(node, exp.Add)
        and isinstance(node.expression, exp.Interval)
        and (isinstance(node.this, exp.Interval) or _is_interval_sum(node.this))
    )


def _syntax_error(message: str, token: Token | None, tokens: list[Token], text: str) -> AnabranchError:
    wanted = message.removeprefix("Expecting ") if message.startswith("Expecting ") else None
    if token is None:
        said = f"expected {wanted}, the query ends here" if wanted else "the query is not complete"
        return error_at("SYNTAX_ERROR", said, text, tokens[-1].end + 1)
    said = f'expected {wanted}, got "{token.text}"' if wanted else f'"{token.text}" was not expected here'
    return error_at("SYNTAX_ERROR", said, text, token.start)

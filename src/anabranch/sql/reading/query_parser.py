"""A SELECT's tokens into a tree: our clauses are taken out first, the rest is sqlglot's Spark parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError
from sqlglot.tokenizer_core import Token

from anabranch.errors import AnabranchError
from anabranch.expressions.reading import Parser
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.clauses import take_clauses
from anabranch.sql.reading.group_windows import with_windows
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.reading.unnesting import with_laterals
from anabranch.sql.reading.window_tables import with_bare_ends
from anabranch.sql.tree import Select


def parse_select(tokens: list[Token], text: str) -> Select:
    """The SELECT made of these tokens of the text."""
    kept, clauses = take_clauses(tokens, text)
    tree = _parse_tree(kept, text)
    window = next((side.window for side in clauses.sides if side.window is not None), None)
    if any(span.side.window is not None and span.side.window.over is not None for span in clauses.spans):
        tree = with_bare_ends(tree)
    source = text[tokens[0].start : tokens[-1].end + 1]
    return Select(
        tree, window, source, text, tokens[0].start,
        clauses.sides, clauses.emit, clauses.inner, clauses.archives, clauses.accuracy,
        clauses.bounding, clauses.spans,
    )  # fmt: skip


class _Parser(Parser):
    """Spark's parser, which takes functions as they are written and remembers where it gave up.

    sqlglot would rewrite many functions into relatives that it can translate between dialects
    (`percentile_cont` into `percentile_approx`); here nothing is to be translated.
    """

    FUNCTIONS: ClassVar[dict[str, Callable[..., exp.Expr]]] = {"ARRAY": Parser.FUNCTIONS["ARRAY"]}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: Parser.FUNCTION_PARSERS[name]
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
        return _with_whole_intervals(with_windows(with_laterals(_with_units(tree))))
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

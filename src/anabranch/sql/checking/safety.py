"""What a query may touch: streams of the catalog, and functions that only compute.

Three nets, one behind the other. The tokens of the user's text (`check_tokens`): no parameters,
variables or hints. The tree (`check_tree`): only node kinds and functions that are known here, with
the place of what is not. And the text that Spark gets (`spark_text`): made anew from the tree with
every name quoted, then read once more, so that nothing reaches Spark that was not looked at.
"""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import SqlError, did_you_mean
from anabranch.expressions.reading import NUMBER, many_values
from anabranch.functions import SCALARS, function_names, named, spark_has
from anabranch.log.stream import PARTS
from anabranch.sql.checking.time_texts import check_time_texts
from anabranch.sql.reading.elsewhere import AS_OF, FUNCTIONS, RANKED
from anabranch.sql.reading.tokens import error_at, tokenize
from anabranch.sql.tree import Select

WITHIN = "within"
"""A condition of MERGE JOIN … ON; it is planned, and no expression can hold it."""

SESSION_NAMES = frozenset(
    {"user", "current_user", "session_user", "current_catalog", "current_database", "current_schema"}
    | {"current_path", "current_timezone"}
)
"""What Spark reads as a function when no column has the name, even without parentheses."""

_FORBIDDEN_TOKENS: dict[TokenType, str] = {
    TokenType.PARAMETER: "variables and parameters",
    TokenType.PLACEHOLDER: "parameters",
    TokenType.SESSION_PARAMETER: "variables",
    TokenType.COLON: "parameters and paths",
    TokenType.L_BRACE: "braces",
    TokenType.R_BRACE: "braces",
    TokenType.BLOCK_START: "templates",
    TokenType.BLOCK_END: "templates",
    TokenType.HINT: "hints",
    TokenType.PIPE_GT: "pipes",
}

_NODES: tuple[type[exp.Expr], ...] = (
    exp.Select, exp.From, exp.Table, exp.TableAlias, exp.Identifier, exp.Column, exp.Star, exp.Alias, exp.Aliases,
    exp.Literal, exp.RawString, exp.HexString, exp.Boolean, exp.Null, exp.Paren, exp.Tuple, exp.Where, exp.Group,
    exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset, exp.Distinct, exp.Subquery, exp.SetOperation, exp.With,
    exp.CTE, exp.Join, exp.Lateral, exp.Values, exp.Window, exp.WindowSpec, exp.Filter, exp.WithinGroup, exp.Lambda,
    exp.Interval, exp.IntervalSpan, exp.Var, exp.DataType, exp.DataTypeParam, exp.Unary, exp.Binary, exp.Between,
    exp.In, exp.Bracket, exp.Slice, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Pivot, exp.PropertyEQ,
    exp.IgnoreNulls, exp.RespectNulls, exp.AtTimeZone, exp.Escape, exp.If, exp.Case, exp.Dot, exp.Collate, exp.Func,
    exp.ColumnDef, exp.Sort, exp.Cluster, exp.Distribute, exp.SubqueryPredicate, exp.Version,
)  # fmt: skip
"""The kinds of tree nodes a query may be made of; everything else is refused by name."""

_NEVER: tuple[type[exp.Expr], ...] = (
    exp.Parameter, exp.SessionParameter, exp.Placeholder, exp.Command, exp.QueryTransform, exp.Hint, exp.Into,
    exp.TableFromRows, exp.UserDefinedFunction, exp.DynamicIdentifier,
)  # fmt: skip
"""Kinds that would pass as one of `_NODES` by descent."""

_TABLE_PARTS = {"this", "db", "alias", "joins", "laterals", "pivots", "version"}
_SIMPLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYNTAX = """
select from where in not and or as on using join values over exists any all some between then else when case end filter
group by except union intersect minus distinct having lateral view order partition cube rollup sets grouping array map
struct within interval like ilike rlike regexp div is pivot unpivot for with recursive window decimal varchar char limit
offset sort cluster distribute escape left right full inner outer cross semi anti natural replace
"""
_SYNTAX_BEFORE_PAREN = frozenset(_SYNTAX.split())


def check_tokens(tokens: list[Token], text: str) -> None:
    """Refuses what no query of ours has: parameters, variables, hints, templates."""
    for token in tokens:
        what = _FORBIDDEN_TOKENS.get(token.token_type)
        if what is not None:
            raise error_at("NOT_IN_THE_LANGUAGE", f"{what} cannot be used in a query", text, token.start)


def too_large(select: Select) -> SqlError:
    return select.error(
        "QUERY_TOO_LARGE", "the query is nested or chained too deeply", hint="cut it into several queries"
    )


def check_tree(select: Select, *, standing: bool, qualify: bool = False) -> None:
    """Refuses nodes and functions that are not known to be harmless; Spark does not have `qualify`."""
    for node in select.tree.walk():
        if qualify and isinstance(node, exp.Qualify):
            continue
        if isinstance(node, _NEVER) or not isinstance(node, _NODES):
            what = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
            hint = RANKED.hint if isinstance(node, exp.Qualify) else None
            raise select.error("NOT_IN_THE_LANGUAGE", f'a query cannot have "{what}"', node, hint=hint)
        _check_leaf(select, node)
        check_time_texts(select, node, standing=standing)
        if isinstance(node, exp.Table):
            _check_table(select, node)
        elif isinstance(node, exp.Lateral):
            _check_lateral(select, node)
        elif isinstance(node, exp.Func):
            _check_function(select, node, standing)


def _check_leaf(select: Select, node: exp.Expr) -> None:
    if isinstance(node, exp.Identifier) and "${" in node.name:
        raise select.error("NAME_NOT_ALLOWED", f'the name "{node.name}" cannot be used in a query', node)
    if isinstance(node, exp.Var) and many_values(node.parent) is not node and not _SIMPLE.fullmatch(node.name):
        raise select.error("SYNTAX_ERROR", f'"{node.name}" was not expected here', node)
    if isinstance(node, exp.Literal) and not node.is_string and not NUMBER.fullmatch(node.name):
        raise select.error("SYNTAX_ERROR", f'"{node.name}" is not a number', node)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
        raise select.error("NOT_IN_THE_LANGUAGE", "a function is called by its name alone", node)


def _check_table(select: Select, table: exp.Table) -> None:
    if not isinstance(table.this, exp.Identifier):
        name = getattr(table.this, "name", "") or table.this.sql()
        elsewhere = FUNCTIONS.get(name.lower())
        hint = "FROM takes names of streams, no functions" if elsewhere is None else elsewhere.hint
        raise select.error("TABLE_NOT_ALLOWED", f'"{name}" is not a stream', table, hint=hint)
    if table.args.get("catalog") is not None or (table.args.get("db") is not None and table.name.lower() not in PARTS):
        parts = ".".join(part.name for part in table.parts)
        raise select.error(
            "TABLE_NOT_ALLOWED",
            f'"{parts}" is not a stream',
            table,
            hint="only streams can be read; quote a name that holds a dot with backticks as a whole",
        )
    extra = [name for name, value in table.args.items() if value and name not in _TABLE_PARTS]
    if extra:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            f"a stream cannot be read with {extra[0]}",
            table,
            hint=AS_OF.hint if extra[0] == "version" else None,
        )


def _check_lateral(select: Select, lateral: exp.Lateral) -> None:
    alias = lateral.args.get("alias")
    if alias is not None and alias.name and not _SIMPLE.fullmatch(alias.name):
        raise select.error("NAME_NOT_ALLOWED", f'"{alias.name}" cannot name a lateral view', lateral)


def called(node: exp.Expr) -> str:
    """The lower-case name of the function a node calls by name; empty for anything else."""
    return node.this.lower() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else ""


def _check_function(select: Select, node: exp.Func, standing: bool) -> None:
    name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
    known = called(node) or ("" if isinstance(node, exp.Anonymous) else name.lower())
    if known == WITHIN:
        if not select.merges or node.find_ancestor(exp.Join) is None:
            raise select.error(
                "FUNCTION_NOT_ALLOWED",
                "within(…) can only stand in the ON of MERGE JOIN",
                node,
                hint="write MERGE JOIN … ON within(…), or elsewhere abs(x - y) <= tolerance",
            )
        return
    if isinstance(node, exp.Anonymous) and named(known) is None:
        raise _function_error(select, name, node)
    if known in SESSION_NAMES:
        raise _function_error(select, known, node)
    around = node.find_ancestor(exp.Select) if known == "session_window" else None
    if standing and around is not None and around.args.get("group") is None:
        raise select.error(
            "NOT_IN_THE_LANGUAGE",
            "session_window() is something to group by: a row alone does not say how long its session goes on",
            node,
            hint="write WINDOW = SESSION INTERVAL … and aggregates, or ask once",
        )
    varies = SCALARS[known].varies if standing and known in SCALARS else "never"
    if varies == "always" or (varies == "without arguments" and not node.expressions):
        raise select.error(
            "FUNCTION_NOT_REPEATABLE",
            f"{known}() gives another answer each time, so a standing query could not be repeated after a failure",
            node,
            hint="use a column of the stream, such as its time",
        )


def _function_error(select: Select, name: str, node: exp.Expr) -> SqlError:
    allowed = "only functions that compute from their arguments are allowed"
    elsewhere = FUNCTIONS.get(name.lower())
    hint = elsewhere.hint if elsewhere is not None else did_you_mean(name.lower(), function_names(), allowed)
    keyword = re.escape(name) if "start" not in node.meta else None
    return select.error("FUNCTION_NOT_ALLOWED", f'function "{name}" cannot be used', node, hint=hint, keyword=keyword)


def spark_text(tree: exp.Expr, own: tuple[str, ...] = ()) -> str:
    """The tree as text for Spark: every name quoted, nothing left that Spark would substitute.

    `own` are functions that a query cannot call and planning has put there. Spark replaces `${env:HOME}` and the like
    even inside strings, before it parses.
    """
    if not isinstance(tree, exp.Query) or any(isinstance(node, _NEVER) for node in tree.walk()):
        raise SqlError("NOT_IN_THE_LANGUAGE", "only a query can be handed to Spark")
    try:
        sql = tree.sql(dialect="spark", identify=True, comments=False)
    except (SqlglotError, RecursionError, ValueError, AttributeError, TypeError):
        raise SqlError("SYNTAX_ERROR", "the query cannot be written as Spark SQL") from None
    sql = sql.replace("${", "\\u0024{")
    _check_text(sql, tree, own)
    return sql


def _check_text(sql: str, tree: exp.Expr, own: tuple[str, ...]) -> None:
    tokens = tokenize(sql)
    column_lists = {a.name.lower() for a in tree.find_all(exp.TableAlias) if a.args.get("columns")}
    for index, token in enumerate(tokens):
        quoted = token.token_type == TokenType.IDENTIFIER
        name = token.text.lower()
        if token.token_type in _FORBIDDEN_TOKENS or token.token_type == TokenType.SEMICOLON:
            raise SqlError("NOT_IN_THE_LANGUAGE", f'"{token.text}" cannot be used in a query')
        if quoted and "\\u0024{" in name:
            raise SqlError("NAME_NOT_ALLOWED", f'the name "{token.text}" cannot be used in a query')
        if token.token_type in (TokenType.STRING, TokenType.NUMBER):
            continue
        if not quoted and name in SESSION_NAMES:
            raise SqlError("FUNCTION_NOT_ALLOWED", f'function "{name}" cannot be used')
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if following is None or following.token_type != TokenType.L_PAREN:
            continue
        after_dot = index > 0 and tokens[index - 1].token_type == TokenType.DOT
        if quoted:
            allowed = name in column_lists
        else:
            words = name.split()
            allowed = (
                not words[-1].replace("_", "a").isalnum()
                or words[-1] in (*_SYNTAX_BEFORE_PAREN, *own)
                or (spark_has(words[-1]) and not after_dot)
            )
        if not allowed:
            raise SqlError("FUNCTION_NOT_ALLOWED", f'function "{token.text.lower()}" cannot be used')

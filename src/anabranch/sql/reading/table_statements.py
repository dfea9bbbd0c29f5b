"""CREATE TABLE, and the statements that change a table.

Expressions of UPDATE, DELETE and MERGE are read as those of a SELECT made of their tokens, which keep their places, so
that errors point at what the user wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot.tokenizer_core import Token, TokenType

from anabranch.errors import did_you_mean
from anabranch.sql.reading.create_query import SELECTS, take_retain
from anabranch.sql.reading.create_stream import take_type
from anabranch.sql.reading.cursor import Cursor, is_name, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.names import take_new_name
from anabranch.sql.reading.query_parser import parse_select
from anabranch.sql.statements import CreateTable, DeleteFrom, MergeInto, Statement, UpdateTable, When
from anabranch.sql.tree import Select
from anabranch.tables.origin import FORMATS, Origin, format_of

_BEHIND_A_TYPE = ("NOT", "PRIMARY", "PRIMARY KEY")
_KEY = "add PRIMARY KEY (column, …)"
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING)
_ENDS_A_TABLE = ("SET", "WHERE", "USING", "ON", "WHEN")


def take_create_table(cursor: Cursor) -> Statement:
    """What follows CREATE TABLE."""
    if_not_exists = cursor.words("IF", "NOT", "EXISTS")
    name = take_new_name(cursor, "the table's name")
    declared = _Declared()
    if cursor.words("("):
        declared.take_columns(cursor)
    elif not (_is_primary_key(cursor) or cursor.next_is("FROM")):
        cursor.fail("expected (column TYPE, …, PRIMARY KEY (column, …)), or PRIMARY KEY (column, …) FROM a file")
    place = cursor.index
    if declared.columns:
        cursor.expect(")")
    declared.take_key(cursor)
    origin = _take_origin(cursor) if cursor.words("FROM") else None
    if not declared.key:
        cursor.index = place
        raise cursor.error_here("KEY_WANTED", f'table "{name}" has no key', hint=_KEY)
    if origin is None and not declared.columns:
        cursor.fail("expected FROM")
    retain_us = take_retain(cursor)
    if origin is not None and cursor.words("REFRESH"):
        cursor.expect("EVERY")
        origin = replace(origin, refresh_us=take_interval(cursor))
        retain_us = take_retain(cursor) if retain_us is None else retain_us
    columns, required = tuple(declared.columns), tuple(declared.required)
    return CreateTable(name, columns, declared.key, required, retain_us, if_not_exists, origin)


@dataclass
class _Declared:
    """The columns of a table as they are read."""

    columns: list[tuple[str, str]] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    key: tuple[str, ...] = ()

    def take_columns(self, cursor: Cursor) -> None:
        """What stands in the parentheses, up to their end."""
        while True:
            begin = cursor.index
            if not self.take_key(cursor):
                column = cursor.name("a column's name, or PRIMARY KEY")
                if column.lower() in (known.lower() for known, _ in self.columns):
                    cursor.index = begin
                    raise cursor.error_here("COLUMN_EXISTS", f'column "{column}" is declared twice')
                self.columns.append((column, take_type(cursor, _BEHIND_A_TYPE)))
                self._take_rest(cursor, column)
            if not cursor.words(","):
                return

    def _take_rest(self, cursor: Cursor, column: str) -> None:
        """What stands behind a type: NOT NULL, and that the column is the key."""
        if cursor.words("NOT", "NULL"):
            self.required.append(column)
        if _takes_primary_key(cursor):
            if self.key:
                raise cursor.error_here("SYNTAX_ERROR", "PRIMARY KEY comes twice", hint="PRIMARY KEY (a, b)")
            self.key = (column,)
        if cursor.words("NOT", "NULL"):
            self.required.append(column)

    def take_key(self, cursor: Cursor) -> bool:
        """`PRIMARY KEY (column, …)`, if it comes next."""
        begin = cursor.index
        if not _takes_primary_key(cursor):
            return False
        if self.key:
            cursor.index = begin
            raise cursor.error_here("SYNTAX_ERROR", "PRIMARY KEY comes twice")
        self.key = take_names(cursor)
        return True


def _take_origin(cursor: Cursor) -> Origin:
    """A file behind FROM: what it is, unless its name tells, and its path."""
    begin = cursor.index
    token = cursor.peek()
    said = None
    if token is not None and token.token_type not in _TEXTS:
        said = cursor.name("a format or a path in quotes").lower()
        if said not in FORMATS:
            cursor.index = begin
            raise cursor.error_here(
                "FORMAT_NOT_KNOWN", f'format "{said}" is not known', hint=did_you_mean(said, FORMATS)
            )
    begin, token = cursor.index, cursor.peek()
    if token is None or token.token_type not in _TEXTS:
        cursor.fail("expected a path in quotes")
    path = cursor.advance().text
    kind = said or format_of(path)
    if kind is None:
        cursor.index = begin
        raise cursor.error_here(
            "FORMAT_NOT_KNOWN",
            f'the name "{path}" does not tell of which format the file is',
            hint=f"write {', '.join(FORMATS[:-1])} or {FORMATS[-1]} before it",
        )
    return Origin(kind, path)


def _is_primary_key(cursor: Cursor) -> bool:
    begin = cursor.index
    is_key = _takes_primary_key(cursor)
    cursor.index = begin
    return is_key


def _takes_primary_key(cursor: Cursor) -> bool:
    token = cursor.peek()
    if token is not None and token.token_type == TokenType.PRIMARY_KEY:
        cursor.advance()
        return True
    return cursor.words("PRIMARY", "KEY")


def take_names(cursor: Cursor) -> tuple[str, ...]:
    """`(column, …)`, each once."""
    cursor.expect("(")
    names: list[str] = []
    while True:
        begin = cursor.index
        names.append(cursor.name("a column's name"))
        if names[-1].lower() in (name.lower() for name in names[:-1]):
            cursor.index = begin
            raise cursor.error_here("COLUMN_EXISTS", f'column "{names[-1]}" comes twice')
        if not cursor.words(","):
            break
    cursor.expect(")")
    return tuple(names)


# -- UPDATE and DELETE -----------------------------------------------------------------------------


def take_update(cursor: Cursor) -> Statement:
    """What follows UPDATE."""
    table, source = _take_target(cursor)
    cursor.expect("SET")
    columns, values, starts = _take_assignments(cursor, ("WHERE",))
    select = _select(cursor, values, [_made(source[0], "FROM"), *source, *_where(cursor)])
    return UpdateTable(table, columns, select, starts)


def take_delete(cursor: Cursor) -> Statement:
    """What follows DELETE."""
    at = cursor.peek()
    cursor.expect("FROM")
    assert at is not None
    table, source = _take_target(cursor)
    one = [Token(TokenType.NUMBER, "1", at.line, at.col, at.start, at.end)]
    return DeleteFrom(table, _select(cursor, [one], [at, *source, *_where(cursor)]))


def _where(cursor: Cursor) -> list[Token]:
    if not cursor.next_is("WHERE"):
        return []
    if cursor.peek(1) is None:
        cursor.advance()
        cursor.fail("expected a condition")
    return cursor.rest()


def _take_target(cursor: Cursor) -> tuple[str, list[Token]]:
    """The table that is changed, and the tokens of its name and alias."""
    begin = cursor.index
    name = take_new_name(cursor, "the table's name")
    tokens = cursor.tokens[begin : cursor.index]
    _take_alias(cursor)
    return name, [*tokens, *cursor.tokens[begin + 1 : cursor.index]]


def _take_alias(cursor: Cursor) -> str | None:
    if cursor.words("AS"):
        return cursor.name("an alias")
    if is_name(cursor.peek()) and word(cursor.peek()) not in _ENDS_A_TABLE:
        return cursor.name("an alias")
    return None


def _take_assignments(
    cursor: Cursor, ends: tuple[str, ...]
) -> tuple[tuple[str, ...], list[list[Token]], tuple[int, ...]]:
    """`column = value, …`, up to a word that ends them: the columns, their values, and where each begins."""
    columns: list[str] = []
    starts: list[int] = []
    values: list[list[Token]] = []
    while True:
        begin = cursor.index
        columns.append(cursor.name("a column's name"))
        if cursor.words("."):  # the alias may stand before it
            columns[-1] = cursor.name("a column's name")
        starts.append(cursor.tokens[cursor.index - 1].start)
        if columns[-1].lower() in (name.lower() for name in columns[:-1]):
            cursor.index = begin
            raise cursor.error_here("COLUMN_EXISTS", f'column "{columns[-1]}" is set twice')
        cursor.expect("=")
        values.append(_take_expression(cursor, (",", *ends)))
        if not cursor.words(","):
            return tuple(columns), values, tuple(starts)


def _take_expression(cursor: Cursor, ends: tuple[str, ...]) -> list[Token]:
    """The tokens of an expression, up to one that ends it outside of parentheses and CASE."""
    begin, depth = cursor.index, 0
    while (token := cursor.peek()) is not None:
        here = word(token)
        if depth == 0 and (here in ends or here == ")"):
            break
        depth += (here in ("(", "CASE", "[")) - (here in (")", "END", "]"))
        cursor.advance()
    if cursor.index == begin:
        cursor.fail("expected an expression")
    return cursor.tokens[begin : cursor.index]


# -- MERGE -----------------------------------------------------------------------------------------


def take_merge(cursor: Cursor) -> Statement:
    """What follows MERGE."""
    cursor.expect("INTO")
    table = take_new_name(cursor, "the table's name")
    alias = _take_alias(cursor) or table
    using = cursor.peek()
    cursor.expect("USING")
    assert using is not None
    begin = cursor.index
    named = not cursor.next_is("(")
    source_alias = "source"
    if named:
        source_alias = cursor.name("a stream, a table, or (SELECT …)")
        if cursor.words("."):
            source_alias = cursor.name("the rest of the name")
    else:
        _take_parentheses(cursor)
    end = cursor.index
    source_alias = _take_alias(cursor) or source_alias
    plain = not named and word(cursor.tokens[begin + 1]) in SELECTS and not cursor.next_is("(")
    if not plain and cursor.next_is("("):  # names of columns: (VALUES …) AS s(a, b)
        _take_parentheses(cursor)
    if plain:
        source = parse_select(cursor.tokens[begin + 1 : end - 1], cursor.text)
    else:
        tokens = cursor.tokens[begin : cursor.index]
        star = [Token(TokenType.STAR, "*", using.line, using.col, using.start, using.end)]
        source = _select(cursor, [star], [_made(tokens[0], "FROM"), *tokens])
    cursor.expect("ON")
    expressions = [_take_expression(cursor, ("WHEN",))]
    whens = []
    while cursor.peek() is not None:
        cursor.expect("WHEN")
        whens.append(_take_when(cursor, expressions))
    if not whens:
        cursor.fail("expected WHEN MATCHED or WHEN NOT MATCHED")
    return MergeInto(table, alias, source, source_alias, _select(cursor, expressions, []), tuple(whens))


def _take_parentheses(cursor: Cursor) -> None:
    depth = 0
    while (token := cursor.peek()) is not None:
        depth += (word(token) == "(") - (word(token) == ")")
        cursor.advance()
        if depth == 0:
            return
    cursor.fail("expected )")


def _take_when(cursor: Cursor, expressions: list[list[Token]]) -> When:
    matched = not cursor.words("NOT")
    cursor.expect("MATCHED")
    condition = None
    if cursor.words("AND"):
        condition = len(expressions)
        expressions.append(_take_expression(cursor, ("THEN",)))
    cursor.expect("THEN")
    if not matched:
        cursor.expect("INSERT")
        return _take_insert(cursor, expressions, condition)
    if cursor.words("DELETE"):
        return When(True, condition, "delete")
    if not cursor.words("UPDATE"):
        cursor.fail("expected UPDATE SET … or DELETE")
    cursor.expect("SET")
    if cursor.words("*"):
        return When(True, condition, "update")
    columns, values, _ = _take_assignments(cursor, ("WHEN",))
    numbers = tuple(range(len(expressions), len(expressions) + len(values)))
    expressions += values
    return When(True, condition, "update", columns, numbers)


def _take_insert(cursor: Cursor, expressions: list[list[Token]], condition: int | None) -> When:
    if cursor.words("*"):
        return When(False, condition, "insert")
    columns = take_names(cursor) if cursor.next_is("(") else None
    cursor.expect("VALUES")
    cursor.expect("(")
    first = len(expressions)
    expressions.append(_take_expression(cursor, (",",)))
    while cursor.words(","):
        expressions.append(_take_expression(cursor, (",",)))
    cursor.expect(")")
    return When(False, condition, "insert", columns, tuple(range(first, len(expressions))))


# -- expressions as a SELECT -----------------------------------------------------------------------


def _select(cursor: Cursor, values: list[list[Token]], behind: list[Token]) -> Select:
    tokens = [_made(values[0][0], "SELECT"), *values[0]]
    for value in values[1:]:
        tokens += [_made(value[0], ","), *value]
    return parse_select([*tokens, *behind], cursor.text)


_KINDS = {"SELECT": TokenType.SELECT, "FROM": TokenType.FROM, ",": TokenType.COMMA}


def _made(at: Token, text: str) -> Token:
    """A token that the user did not write, in the place of one that is."""
    return Token(_KINDS[text], text, at.line, at.col, at.start, at.end)

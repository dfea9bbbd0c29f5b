"""Windows said in FROM, as Flink and Calcite have them: `TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND))`.

They mean what `WINDOW = …` behind the stream's name does, so that is what they are read as; `TABLE(…)` around them and
the words TABLE and DESCRIPTOR inside may be left out, and arguments may have their names (`SIZE => …`). Which column
the descriptor names is looked at when the stream is known.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from anabranch.sql.reading.cursor import Cursor, is_name, word
from anabranch.sql.reading.intervals import take_interval
from anabranch.sql.reading.tokens import error_at
from anabranch.sql.tree import Window, WindowTable

_LENGTHS = {"TUMBLE": ("SIZE",), "HOP": ("SLIDE", "SIZE"), "SESSION": ("GAP",)}
"""The lengths of time that each takes, in their order."""
_EXAMPLES = {
    "TUMBLE": "TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' MINUTE)",
    "HOP": "HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    "SESSION": "SESSION(TABLE s PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
}


def is_window_table(tokens: list[Token], index: int) -> bool:
    """Whether such a call begins here, where a stream can stand."""
    before = word(tokens[index - 1]) if index else ""
    said = [word(token) for token in tokens[index : index + 4]]
    called = said[2:4] if said[:2] == ["TABLE", "("] else said[:2]
    if len(called) < 2 or called[0] not in _LENGTHS or called[1] != "(":
        return False
    plain = said[0] != "TABLE" and said[2:3] != ["TABLE"]
    return before in ("FROM", "JOIN") or (before == "," and not plain)


def take_window_table(cursor: Cursor) -> tuple[list[Token], Window]:
    """The tokens of the stream's name, and the window; the cursor stands on the call."""
    wrapped = cursor.words("TABLE", "(")
    start = cursor.peek()
    assert start is not None
    name = word(cursor.advance())
    cursor.expect("(")
    _label(cursor)
    cursor.words("TABLE")
    stream = _names_with_dots(cursor, "a stream's name", name)
    partition = _partition(cursor, name)
    cursor.expect(",")
    column = _descriptor(cursor, name)
    lengths: dict[str, int] = {}
    for length in _LENGTHS[name]:
        if not cursor.words(","):
            cursor.fail(f"expected the {length.lower()}", hint=f"write {_EXAMPLES[name]}")
        said = _label(cursor) or length
        lengths[said] = take_interval(cursor)
    if lengths.keys() != set(_LENGTHS[name]):
        cursor.fail(f"expected {' and '.join(_LENGTHS[name])} before", hint=f"write {_EXAMPLES[name]}")
    cursor.expect(*([")", ")"] if wrapped else [")"]))
    over = WindowTable(name, column, partition, start.start)
    if name == "SESSION":
        return stream, Window("time", lengths["GAP"], lengths["GAP"], start.start, kind="session", over=over)
    size = lengths["SIZE"]
    slide = lengths.get("SLIDE", size)
    if size % slide:
        raise error_at(
            "NOT_IN_THE_LANGUAGE",
            "the size of HOP(…) is a multiple of its slide",
            cursor.text,
            start.start,
            hint="write WINDOW = … SLIDE …, whose windows end at multiples of the slide",
        )
    return stream, Window("time", size, slide, start.start, over=over)


def with_bare_ends(tree: exp.Expr) -> exp.Expr:
    """The tree with `x.window_start` as `window_start`, x being the name of the function."""
    for select in tree.find_all(exp.Select):
        source = select.args.get("from_")
        if source is not None and not select.args.get("joins"):
            name = source.this.alias_or_name.lower()
            for node in select.find_all(exp.Column):
                if node.name.lower() in ("window_start", "window_end") and node.table.lower() == name:
                    node.set("table", None)
    return tree


def _label(cursor: Cursor) -> str | None:
    """Takes the name of an argument, `SIZE =>`, if it has one."""
    follows = cursor.peek(1)
    if follows is None or follows.token_type != TokenType.FARROW:
        return None
    name = word(cursor.advance())
    cursor.advance()
    return name


def _names_with_dots(cursor: Cursor, what: str, name: str) -> list[Token]:
    first = cursor.peek()
    if not is_name(first):
        cursor.fail(f"expected {what}", hint=f"write {_EXAMPLES[name]}")
    begin = cursor.index
    cursor.advance()
    while cursor.next_is(".") and is_name(cursor.peek(1)):
        cursor.index += 2
    return cursor.tokens[begin : cursor.index]


def _partition(cursor: Cursor, name: str) -> tuple[str, ...] | None:
    """The columns behind PARTITION BY; None: it is not said."""
    if name != "SESSION" or not cursor.words("PARTITION BY"):
        return None
    columns = [_column(cursor, name)]
    while cursor.next_is(",") and not _is_descriptor(cursor):
        cursor.advance()
        columns.append(_column(cursor, name))
    return tuple(columns)


def _is_descriptor(cursor: Cursor) -> bool:
    """Whether the descriptor is what stands behind the comma."""
    label = cursor.peek(2)
    return word(cursor.peek(1)) == "DESCRIPTOR" or (label is not None and label.token_type == TokenType.FARROW)


def _descriptor(cursor: Cursor, name: str) -> str:
    _label(cursor)
    if not cursor.words("DESCRIPTOR", "("):
        return _column(cursor, name)
    column = _column(cursor, name)
    cursor.expect(")")
    return column


def _column(cursor: Cursor, name: str) -> str:
    """A column, of which what stands before a dot says nothing new: there is one stream."""
    return _names_with_dots(cursor, "a column", name)[-1].text

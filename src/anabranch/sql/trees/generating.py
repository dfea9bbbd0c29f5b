"""explode() in the select list: the row is there once for each element, as with LATERAL VIEW."""

from __future__ import annotations

from sqlglot import exp

from anabranch.sql.checking.safety import called
from anabranch.sql.reading.unnesting import MAKES_ROWS

SOURCE = "the elements"
"""What such a view is called; no query can name it, and `*` is without it."""


def with_generator(tree: exp.Select) -> exp.Select:
    """The same SELECT with a LATERAL VIEW in the place of the one function of its list that makes rows.

    It is left as it is where it says something else or more: in groups and beside window functions.
    """
    found = [number for number, item in enumerate(tree.expressions) if called(_call(item)) in MAKES_ROWS]
    if len(found) != 1 or any(tree.args.get(part) for part in ("group", "having", "qualify")):
        return tree
    if any(item.find(exp.Window) for item in tree.expressions):
        return tree
    (number,) = found
    item = tree.expressions[number]
    call = _call(item)
    names = [part.name for part in item.expressions] if isinstance(item, exp.Aliases) else []
    if isinstance(item, exp.Alias):
        names = [item.alias]
    columns = names or ["pos", "col"][2 - MAKES_ROWS[called(call)] :]
    made = tree.copy()
    alias = exp.TableAlias(this=exp.to_identifier(SOURCE, quoted=True), columns=list(map(_quoted, columns)))
    lateral = exp.Lateral(this=call.copy(), view=True, alias=alias)
    made.append("laterals", lateral)
    elements = [exp.Column(this=_quoted(name), table=_quoted(SOURCE)) for name in columns]
    made.set("expressions", [*made.expressions[:number], *elements, *made.expressions[number + 1 :]])
    return made


def _call(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias | exp.Aliases) else item


def _quoted(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=True)

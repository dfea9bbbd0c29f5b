"""`GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE)` and `HOP(ts, slide, size)` of Flink as `window(ts, size, slide)`.

They mean the same: windows that begin at multiples of the slide since 1970, told once they are complete. Those of
a size that the slide does not divide begin elsewhere here, and are left alone. `SESSION(ts, gap)` is `session_window`.
"""

from __future__ import annotations

from sqlglot import exp

from anabranch.errors import SqlError
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.intervals import interval_us

_ARGUMENTS = {"tumble": 2, "hop": 3, "session": 2}
_MEANT = {"session": "session_window"}
"""What Spark calls them; else it is window."""
_ENDS = {"start": "start", "end": "end"}


def with_windows(tree: exp.Expr) -> exp.Expr:
    """The tree with such windows as calls of window() or session_window(), and their ends as window.start and so on."""
    for group in list(tree.find_all(exp.Group)):
        for node in list(group.find_all(exp.Anonymous)):
            if called(node) in _ARGUMENTS and isinstance(group.parent, exp.Select):
                _rewrite(group.parent, node)
    return tree


def _rewrite(select: exp.Select, node: exp.Anonymous) -> None:
    window = _window(node)
    if window is None:
        return
    kind, arguments = called(node), [argument.sql("spark").lower() for argument in node.expressions]
    for other in list(select.find_all(exp.Anonymous)):
        name, _, end = called(other).partition("_")
        if name != kind or [argument.sql("spark").lower() for argument in other.expressions] != arguments:
            continue
        if end in _ENDS:
            told = exp.column(_ENDS[end], table=window.name)
            alone = isinstance(other.parent, exp.Select)
            other.replace(exp.alias_(told, f"window_{end}") if alone else told)
        elif end == "":
            other.replace(window.copy())


def _window(node: exp.Anonymous) -> exp.Anonymous | None:
    """The call of window() that means the same; None: there is none."""
    kind = called(node)
    if len(node.expressions) != _ARGUMENTS[kind] or not isinstance(node.expressions[0], exp.Column):
        return None
    written = [_text(length) for length in reversed(node.expressions[1:])]
    if None in written:
        return None
    lengths = [text for text in written if text is not None]
    try:
        size, *slide = [interval_us(text) for text in lengths]
    except SqlError:
        return None
    if slide and (slide[0] <= 0 or size % slide[0]):
        return None
    meant = _MEANT.get(kind, "window")
    window = exp.Anonymous(this=meant, expressions=[node.expressions[0].copy(), *map(exp.Literal.string, lengths)])
    window.meta.update(node.meta)
    return window


def _text(length: exp.Expr) -> str | None:
    if not isinstance(length, exp.Interval) or not isinstance(length.this, exp.Literal) or length.unit is None:
        return None
    return f"{length.this.name} {length.unit.name}"

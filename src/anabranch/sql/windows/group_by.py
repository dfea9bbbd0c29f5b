"""What a windowed query groups by: the keys of GROUP BY, or of DISTINCT, and the window among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.errors import SqlError, did_you_mean
from anabranch.schema import ARRIVAL_COLUMN
from anabranch.sql.checking.safety import called
from anabranch.sql.standing.columns import WINDOW_COLUMNS, Scope, column, sql_of, window_column
from anabranch.sql.standing.rows import check_condition
from anabranch.sql.tree import Window
from anabranch.sql.windows.aggregate_functions import aggregate_name
from anabranch.sql.windows.time_windows import length_of_key, window_of
from anabranch.sql.windows.windowed import type_in_window

NO_WINDOW = Window("time", 0, 0)
"""In place of the window, where a scope has none."""


@dataclass(frozen=True)
class GroupBy:
    """The window, the keys of GROUP BY that said it, and the other keys by name."""

    window: Window
    window_keys: list[exp.Expr]
    keys: dict[str, exp.Expr]


def read_groups(scope: Scope, tree: exp.Select, aliases: Mapping[str, exp.Expr]) -> GroupBy:
    """What the query groups by; `aliases` are the names its select list gives."""
    reader = _Reader(scope, tree, aliases, scope.select.window)
    if tree.args.get("distinct"):
        reader.read_distinct()
    reader.read_group()
    if scope.select.window is not None and scope.select.window.kind == "last rows":
        reader.read_per(scope.select.window)
    if reader.window is None and reader.within:
        reader.window = Window("time", min(reader.within), min(reader.within))
    if reader.window is None and scope.has_windows:
        raise _unbounded(scope, tree)
    return GroupBy(reader.window or NO_WINDOW, reader.window_keys, reader.keys)


def _unbounded(scope: Scope, tree: exp.Select) -> SqlError:
    call = next((n for item in tree.expressions for n in item.walk() if aggregate_name(n)), None)
    what = f"{aggregate_name(call)}()" if call is not None else "GROUP BY"
    return scope.select.error(
        "AGGREGATE_UNBOUNDED",
        f'{what} over "{scope.stream}" would never be finished, and its groups would be kept forever',
        call if call is not None else tree.args.get("group"),
        hint=unbounded_hint(scope.schema.time),
    )


def unbounded_hint(time: str) -> str:
    """What bounds an aggregate over a stream with that time column."""
    return (
        f"add WINDOW = INTERVAL 1 MINUTE after FROM, or GROUP BY date_trunc('minute', {time}); for totals of all that "
        "came since a time write FROM … SINCE TIMESTAMP '2026-01-01 00:00:00' … EMIT EVERY INTERVAL 1 MINUTE; for an "
        "answer that changes end the query with EXPIRE AFTER INTERVAL 1 DAY, if rows count for so long, or "
        "ACCEPT UNBOUNDED"
    )


@dataclass
class _Reader:
    scope: Scope
    tree: exp.Select
    aliases: Mapping[str, exp.Expr]
    window: Window | None
    window_keys: list[exp.Expr] = field(default_factory=list)
    keys: dict[str, exp.Expr] = field(default_factory=dict)
    within: list[int] = field(default_factory=list)
    """Lengths of windows of which a key never comes back in another."""

    def read_distinct(self) -> None:
        """DISTINCT groups by all that is selected."""
        before: dict[str, exp.Expr] = {}
        for item in self.tree.expressions:
            columns = list(item.find_all(exp.Column))
            if any(window_column(key) is None for key in columns):
                self._add(checked(self.scope, item.unalias(), before))
            if isinstance(item, exp.Alias):
                before.setdefault(item.alias.lower(), item.this)

    def read_group(self) -> None:
        group = self.tree.args.get("group")
        if group is None:
            return
        for name in ("all", "cube", "rollup", "grouping_sets", "totals"):
            if group.args.get(name):
                raise self._not_available(name.replace("_", " "), group)
        for written in group.expressions:
            if isinstance(written, exp.Cube | exp.Rollup | exp.GroupingSets):
                raise self._not_available(written.key, group)
            self._read_key(written)

    def read_per(self, window: Window) -> None:
        """The keys whose last rows a window is of: the groups, whether GROUP BY names them or not."""
        for name in window.per:
            if self.scope.find(name) is None:
                raise self.scope.select.error(
                    "COLUMN_NOT_FOUND",
                    f'column "{name}" is not in {self.scope.what} "{self.scope.stream}"',
                    start=window.start,
                    hint=did_you_mean(name, self.scope.schema.names),
                )
        written = list(self.keys.values())
        wanted = [self.scope.resolve(column(name)) for name in window.per]
        if written and {sql_of(key) for key in written} != {sql_of(key) for key in wanted}:
            raise self.scope.select.error(
                "NOT_IN_THE_LANGUAGE",
                f"the window is of the last rows PER {', '.join(window.per)}, and GROUP BY has other keys",
                self.tree.args.get("group"),
                hint="leave GROUP BY out: the key of the window is what is grouped by",
                start=window.start,
            )
        for key in wanted:
            self._add(checked(self.scope, key))

    def _not_available(self, what: str, group: exp.Expr) -> SqlError:
        return self.scope.select.error(
            "NOT_IN_THE_LANGUAGE", f"GROUP BY {what.upper()} is not available", group, hint="name the columns"
        )

    def _read_key(self, written: exp.Expr) -> None:
        error = self.scope.select.error
        key = self._meant(written)
        if self.scope.has_windows and window_column(key) is not None:
            return
        window = window_of(self.scope, key)
        if window is not None and self.scope.select.window is None:
            if self.window_keys and not same_call(key, self.window_keys[0]):
                raise error("SYNTAX_ERROR", "GROUP BY can hold one window only", written)
            self.window, self.window_keys = window, [key]
            return
        if window is not None and called(key) != "date_trunc":
            raise error(
                "SYNTAX_ERROR",
                f"WINDOW and {sql_of(key)} both say what the window is",
                written,
                hint="leave one of them out",
            )
        for node in key.walk():
            if aggregate_name(node):
                raise error("AGGREGATE_MISPLACED", "GROUP BY cannot hold an aggregate", written)
        length = length_of_key(self.scope, key)
        if length is not None:
            self.within.append(length)
        self._add(checked(self.scope, key))

    def _add(self, value: exp.Expr) -> None:
        """Takes note of a key, once."""
        if value not in self.keys.values():
            wanted = value.name if isinstance(value, exp.Column) else sql_of(value).replace("`", "")
            self.keys[free_name(wanted, self.keys)] = value

    def _meant(self, written: exp.Expr) -> exp.Expr:
        """A key as an expression over the stream: ordinals and aliases are put in."""
        if isinstance(written, exp.Literal) and not written.is_string:
            items = self.tree.expressions
            if not written.name.isdigit() or not 1 <= int(written.name) <= len(items):
                raise self.scope.select.error(
                    "SYNTAX_ERROR", f"there is no column {written.name} in the select list", written
                )
            item: exp.Expr = items[int(written.name) - 1]
            return item.unalias()
        if isinstance(written, exp.Column) and not written.table and self.scope.find(written.name) is None:
            return self.aliases.get(written.name.lower(), written)
        return written


def checked(
    scope: Scope, node: exp.Expr, aliases: Mapping[str, exp.Expr] | None = None, *, boolean: bool = False
) -> exp.Expr:
    """An expression over the stream's columns that Arrow can do."""
    for inner in node.walk():
        if aggregate_name(inner):
            raise scope.select.error("AGGREGATE_MISPLACED", "an aggregate cannot hold another", inner)
    value = scope.resolve(node, aliases)
    type_in_window(scope, value, node)
    if boolean:
        check_condition(scope, value)
    return value


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """The name, numbered if another key, aggregate or window column has it."""
    used = {name.lower() for name in (*taken, *WINDOW_COLUMNS, ARRIVAL_COLUMN)}
    name, number = wanted, 1
    while name.lower() in used:
        number += 1
        name = f"{wanted} {number}"
    return name


def same_call(first: exp.Expr, second: exp.Expr) -> bool:
    """True if both call the same function of the same arguments, whatever the case and the qualifiers."""
    return called(first) == called(second) != "" and [a.name.lower() for a in first.expressions] == [
        a.name.lower() for a in second.expressions
    ]

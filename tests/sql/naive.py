"""What a planned windowed operator means, computed in the plainest way: every window anew, in Python lists.

The answer is given window by window, also for windows without rows, since changes and set operations
compare windows that end together.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from anabranch import expressions
from anabranch.functions.aggregates import aggregate
from anabranch.operators.base import Operator
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.changes import WindowChanges
from anabranch.operators.windows.rows import WindowRows
from anabranch.operators.windows.sets import WindowSetOperation
from anabranch.schema import TIME_TYPE

Row = tuple[Any, ...]
Windows = dict[int, list[Row]]
"""The answer rows of each window, by its end."""


@dataclass(frozen=True)
class Log:
    """A stream: all its rows, in order, and how far its time has come (µs)."""

    rows: pa.Table
    time_column: str
    reached: int

    def times(self) -> list[int]:
        times: list[int] = self.rows.column(self.time_column).cast(pa.int64()).to_pylist()
        return times


@dataclass(frozen=True)
class Window:
    start: int
    end: int
    time: int
    rows: list[int]


def answers(operator: Operator, logs: Mapping[str, Log]) -> list[Row]:
    """All answer rows, window after window."""
    return [row for _, rows in sorted(by_window(operator, logs).items()) for row in rows]


def by_window(operator: Operator, logs: Mapping[str, Log]) -> Windows:
    if isinstance(operator, WindowAggregate):
        log = logs[operator.stream]
        return {window.end: _groups(operator, window, log) for window in windows(operator, log)}
    if isinstance(operator, WindowRows):
        return _rows(operator, logs[operator.stream])
    if isinstance(operator, WindowSetOperation):
        return _sets(operator, logs)
    assert isinstance(operator, WindowChanges)
    inner = operator.inner
    names = [*inner.names, "_time"] if isinstance(inner, WindowSetOperation) else [name for name, _ in inner.columns]
    return _changes(by_window(inner, logs), names.index(operator.time), inner, logs)


def windows(operator: WindowAggregate | WindowRows, log: Log) -> list[Window]:
    """Every complete window from the first that holds a row on."""
    times, size, slide = log.times(), operator.size, operator.slide
    if operator.unit == "rows":
        ends = range(slide, len(times) + 1, slide)
        return [Window(max(e - size, 0), e, times[e - 1], list(range(max(e - size, 0), e))) for e in ends]
    first = times[0] // slide * slide + slide if times else log.reached + 1
    return [
        Window(e - size, e, e, [i for i, time in enumerate(times) if e - size <= time < e])
        for e in range(first, log.reached + 1, slide)
    ]


# -- rows --------------------------------------------------------------------------------------------


def _kept(table: pa.Table, condition: str | None) -> list[bool]:
    return [True] * table.num_rows if condition is None else [each is True for each in _values(condition, table)]


def _values(sql: str, table: pa.Table) -> list[Any]:
    column = expressions.compile(sql, table.schema).evaluate(table)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[Any] = column.to_pylist()
    return values


def _with_window(table: pa.Table, window: Window, by_rows: bool) -> pa.Table:
    axis = pa.int64() if by_rows else TIME_TYPE
    added = {"window_start": (window.start, axis), "window_end": (window.end, axis), "_time": (window.time, TIME_TYPE)}
    for name, (value, type_) in added.items():
        if name not in table.column_names:
            column = pa.array([value] * table.num_rows, pa.int64()).cast(type_)
            table = table.append_column(pa.field(name, type_), column)
    return table


def _rows(operator: WindowRows, log: Log) -> Windows:
    by_rows = operator.unit == "rows"
    found: Windows = {}
    inside: list[tuple[int, Row]] = []
    for window in windows(operator, log):
        table = log.rows.take(pa.array(window.rows, pa.int64()))
        kept = _kept(table, operator.filter)
        numbers = [number for number, keep in zip(window.rows, kept, strict=True) if keep]
        table = _with_window(log.rows.take(pa.array(numbers, pa.int64())), window, by_rows)
        columns = [_values(sql, table) for _, sql in operator.columns]
        if operator.time == "_time":
            columns.append([window.time] * len(numbers))
        order = _order(table, operator.order, operator.limit)
        answer = [(numbers[i], tuple(column[i] for column in columns)) for i in order]
        if operator.changes:
            own = [name for name, _ in operator.columns]
            place = len(own) if operator.time == "_time" else own.index(operator.time)
            now, before = dict(answer), dict(inside)
            gone = [(_at(row, place, window.time), "delete") for number, row in inside if number not in now]
            come = [(row, "insert") for number, row in answer if number not in before]
            found[window.end] = [(*row, change) for row, change in gone + come]
            inside = answer
        else:
            found[window.end] = [row for _, row in answer]
    return found


def _at(row: Row, place: int, time: int) -> Row:
    return (*row[:place], time, *row[place + 1 :])


def _order(table: pa.Table, keys: Sequence[tuple[str, bool, bool]], limit: int | None) -> list[int]:
    order = list(range(table.num_rows))
    for sql, descending, nulls_first in reversed(keys):
        values = _values(sql, table)
        there = [i for i in order if values[i] is not None]
        there.sort(key=lambda i: values[i], reverse=False) if not descending else _sort_down(there, values)
        missing = [i for i in order if values[i] is None]
        order = missing + there if nulls_first else there + missing
    return order[:limit]


def _sort_down(order: list[int], values: list[Any]) -> None:
    """Descending, equals still in the order they had."""
    order.reverse()
    order.sort(key=lambda i: values[i])
    order.reverse()


# -- groups ------------------------------------------------------------------------------------------


def _groups(operator: WindowAggregate, window: Window, log: Log) -> list[Row]:
    table = log.rows.take(pa.array(window.rows, pa.int64()))
    table = table.filter(pa.array(_kept(table, operator.filter), pa.bool_()))
    if table.num_rows == 0:
        return []
    keys = [_values(sql, table) for _, sql in operator.keys]
    groups: dict[Row, list[int]] = {}
    for i in range(table.num_rows):
        groups.setdefault(tuple(key[i] for key in keys), []).append(i)
    fields: list[tuple[str, pa.DataType, list[Any]]] = []
    members = sorted(groups, key=nulls_first)
    for at, (name, sql) in enumerate(operator.keys):
        fields.append((name, expressions.compile(sql, table.schema).type, [member[at] for member in members]))
    for name, function, argument in operator.aggregates:
        values = [1] * table.num_rows if argument is None else _values(argument, table)
        given = None if argument is None else expressions.compile(argument, table.schema).type
        folded = [_fold(function, [values[i] for i in groups[m] if values[i] is not None]) for m in members]
        fields.append((name, aggregate(function, given).type, folded))
    inner = pa.table({"": pa.nulls(len(members))})
    for name, type_, column in fields:
        inner = inner.append_column(pa.field(name, type_), pa.array(column, type_))
    inner = _with_window(inner, window, operator.unit == "rows")
    inner = inner.filter(pa.array(_kept(inner, operator.having), pa.bool_())).drop_columns([""])
    columns = [_values(sql, inner) for _, sql in operator.columns]
    return [tuple(column[i] for column in columns) for i in _order(inner, operator.order, operator.limit)]


def nulls_first(row: Iterable[Any]) -> list[tuple[bool, Any]]:
    return [(value is not None, 0 if value is None else value) for value in row]


def _fold(function: str, values: list[Any]) -> Any:
    name, _, given = function.partition("(")
    parameter = float(given.rstrip(")")) if given else 0.5
    if name in ("count_distinct", "approx_count_distinct"):
        return len(set(values))
    if name == "count":
        return len(values)
    return _FOLDS[name](sorted(values), parameter) if values else None


def _between(values: list[Any], share: float) -> float:
    place = (len(values) - 1) * share
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (values[high] - values[low]) * (place - low))


def _first_reaching(values: list[Any], share: float) -> Any:
    return values[max(math.ceil(share * len(values)) - 1, 0)]


_FOLDS: dict[str, Callable[[list[Any], float], Any]] = {
    "sum": lambda values, _: sum(values),
    "min": lambda values, _: values[0],
    "max": lambda values, _: values[-1],
    "avg": lambda values, _: sum(values) / len(values),
    "median": _between,
    "percentile": _between,
    "percentile_disc": _first_reaching,
    "approx_percentile": _first_reaching,
    "mode": lambda values, _: min(values, key=lambda value: (-values.count(value), value)),
}


# -- set operations and changes ----------------------------------------------------------------------


def _sets(operator: WindowSetOperation, logs: Mapping[str, Log]) -> Windows:
    left, right = by_window(operator.left, logs), by_window(operator.right, logs)
    reached = min(logs[side.stream].reached for side in (operator.left, operator.right))
    times = {w.end: w.time for side in (operator.left, operator.right) for w in windows(side, logs[side.stream])}
    found: Windows = {}
    for end, time in sorted(times.items()):
        if operator.left.unit == "time" and end > reached:
            continue
        one, other = _bag(operator.left, left.get(end, [])), _bag(operator.right, right.get(end, []))
        if not operator.all:
            one, other = Counter(set(one)), Counter(set(other))
        together = {"intersect": one & other, "except": one - other, "union": one + other}[operator.operation]
        rows = together.elements() if operator.all else iter(set(together))
        found[end] = [(*row, time) for row in sorted(rows, key=nulls_first)]
    return found


def _bag(side: WindowAggregate, rows: list[Row]) -> Counter[Row]:
    names = [name for name, _ in side.columns]
    bag: Counter[Row] = Counter()
    for row in rows:
        counted = "__n" in names
        bag[row[: -2 if counted else -1]] += row[-2] if counted else 1
    return bag


def _changes(
    answered: Windows, place: int, inner: WindowAggregate | WindowSetOperation, logs: Mapping[str, Log]
) -> Windows:
    sides = (inner.left, inner.right) if isinstance(inner, WindowSetOperation) else (inner,)
    times = {window.end: window.time for side in sides for window in windows(side, logs[side.stream])}
    found: Windows = {}
    before: list[Row] = []
    for end, rows in sorted(answered.items()):
        time = times[end]
        had, has = Counter(_at(row, place, 0) for row in before), Counter(_at(row, place, 0) for row in rows)
        gone, come = had - has, has - had
        found[end] = [(*_at(row, place, time), "delete") for row in sorted(gone.elements(), key=nulls_first)]
        found[end] += [(*_at(row, place, time), "insert") for row in sorted(come.elements(), key=nulls_first)]
        before = rows
    return found

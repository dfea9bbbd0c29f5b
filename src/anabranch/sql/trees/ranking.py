"""Window functions: what each call is about, its part, its order and its frame, and the nodes that answer them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import AnabranchError
from anabranch.expressions import NotEvaluable
from anabranch.functions.aggregates import aggregate
from anabranch.operators.tree.nodes import Call, Order, Ranked
from anabranch.schema import sql_type
from anabranch.sql.checking.safety import called
from anabranch.sql.reading.intervals import interval_us
from anabranch.sql.standing.columns import column
from anabranch.sql.standing.rows import type_name
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import Place, names_of
from anabranch.sql.trees.typing import constant_of, shown, type_of

_NUMBERS: dict[str, pa.DataType] = {
    "row_number": pa.int32(), "rank": pa.int32(), "dense_rank": pa.int32(),
    "percent_rank": pa.float64(), "cume_dist": pa.float64(), "ntile": pa.int32(),
}  # fmt: skip
_MOVED = ("lag", "lead")
_PICKED = {"first": "first_value", "first_value": "first_value", "last": "last_value", "last_value": "last_value",
           "nth_value": "nth_value"}  # fmt: skip
_SUMMED = ("count", "sum", "avg", "mean", "min", "max")
KNOWN = (*_NUMBERS, *_MOVED, "first_value", "last_value", "nth_value", *_SUMMED)

_DAY = 86_400_000_000
_DISTANCES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_timestamp, "write INTERVAL …"),
    (pa.types.is_date, "write a number of days"),
    (pa.types.is_floating, "write a number"),
    (pa.types.is_signed_integer, "write a whole number"),
)

Keys = tuple[tuple[exp.Expr, bool, bool], ...]
"""What an order is by: value, descending, NULLs first."""
Read = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Length:
    """A length of time as an end of a frame."""

    us: int

    def __neg__(self) -> Length:
        return Length(-self.us)


@dataclass(frozen=True)
class WindowCall:
    """A call over values that are not columns yet; `name` is that of its column."""

    name: str
    function: str
    arguments: tuple[exp.Expr, ...]
    partition: tuple[exp.Expr, ...]
    order: Keys
    options: tuple[tuple[str, Any], ...]
    filter: exp.Expr | None
    written: exp.Expr


@dataclass
class Windows:
    """Collects the window functions of one SELECT; `named` are those of its WINDOW w AS (…)."""

    context: Context
    named: dict[str, exp.Expr]
    calls: list[WindowCall] = field(default_factory=list)

    def add(self, node: exp.Window, read: Read) -> exp.Expr:
        """Takes note of a call, once, and gives its column."""
        call = _Reader(self.context, node, self._specification(node), read).call()
        for known in self.calls:
            if (known.function, known.arguments, known.partition, known.order, known.options, known.filter) == (
                call.function, call.arguments, call.partition, call.order, call.options, call.filter,
            ):  # fmt: skip
                return column(known.name)
        self.calls.append(call)
        return column(call.name)

    def _specification(self, node: exp.Window) -> exp.Expr:
        name = node.alias
        if not name:
            return node
        known = self.named.get(name.lower())
        if known is None or node.args.get("partition_by") or node.args.get("order"):
            raise self.context.refuse(
                f'there is no WINDOW "{name}"' if known is None else "a named window is taken as it is",
                node,
                f"write WINDOW {name} AS (PARTITION BY … ORDER BY …) behind the conditions",
            )
        return known

    def applied(self, node: int) -> int:
        """The node with the columns of all calls."""
        context = self.context
        groups: dict[tuple[tuple[exp.Expr, ...], Keys], list[WindowCall]] = {}
        for call in self.calls:
            groups.setdefault((call.partition, call.order), []).append(call)
        for (partition, order), calls in groups.items():
            node = self._ranked(context, node, partition, order, calls)
        return node

    def _ranked(
        self, context: Context, node: int, partition: Sequence[exp.Expr], order: Keys, calls: list[WindowCall]
    ) -> int:
        place = Place(f"{calls[0].function}() OVER", calls[0].written)
        calls = [self._with_default(call, context.schema(node)) for call in calls]
        values = [("part", value, value) for value in partition]
        values += [("place", value, value) for value, _, _ in order]
        values += [("value", value, value) for call in calls for value in call.arguments]
        values += [("counted", call.filter, call.filter) for call in calls if call.filter is not None]
        node, names = context.extended(node, values, place)
        take = iter(names)
        parts = tuple(dict.fromkeys(next(take) for _ in partition))
        places: Order = tuple((next(take), descending, first) for _, descending, first in order)
        arguments = [tuple(next(take) for _ in call.arguments) for call in calls]
        filters = [next(take) if call.filter is not None else None for call in calls]
        schema = context.schema(node)
        made: list[Call] = []
        fields: list[pa.Field] = []
        for call, columns, counted in zip(calls, arguments, filters, strict=True):
            options = self._by_distance(call, places, schema)
            made.append(Call(call.name, call.function, columns, filter=counted, options=options))
            types = [schema.field(name).type for name in columns]
            fields.append(pa.field(call.name, self._type(call, types)))
        return context.drafts.add(Ranked(node, parts, places, tuple(made)), pa.schema([*schema, *fields]), place)

    def _by_distance(self, call: WindowCall, order: Order, schema: pa.Schema) -> tuple[tuple[str, Any], ...]:
        """The options of a call; distances of its frame become numbers of the one column of the order."""
        options = dict(call.options)
        unit, *ends = options.get("frame", (None,))
        if unit != "range" or all(edge in (None, 0) for edge in ends):
            return call.options
        if len(order) != 1:
            raise self.context.refuse(
                "a frame of a distance is for an order by one value", call.written,
                "order by one number or time, or write ROWS BETWEEN … AND …",
            )  # fmt: skip
        ((name, descending, _),) = order
        kind = schema.field(name).type
        start, end = (edge if edge in (None, 0) else self._distance(call, edge, kind) for edge in ends)
        if start is not None and end is not None and start > end:
            raise self.context.refuse("a frame goes from an earlier to a later row", call.written, "swap its ends")
        options["frame"] = ["range", start, end]
        return (*options.items(), ("by", (name, descending)))

    def _distance(self, call: WindowCall, edge: Any, kind: pa.DataType) -> float:
        """An end of a frame as a number that can be added to keys of a type."""
        if isinstance(edge, Length):
            if pa.types.is_timestamp(kind):
                return edge.us
            if pa.types.is_date(kind) and edge.us % _DAY == 0:
                return edge.us // _DAY
        elif pa.types.is_floating(kind):
            return float(edge)
        elif isinstance(edge, int) and (pa.types.is_signed_integer(kind) or pa.types.is_date(kind)):
            return edge
        hint = next((hint for test, hint in _DISTANCES if test(kind)), "order by a number or a time")
        raise self.context.refuse(
            f"a frame of this distance is not available for {type_name(kind)}", call.written, hint
        )

    def _with_default(self, call: WindowCall, schema: pa.Schema) -> WindowCall:
        """What lag() and lead() say where there is no such row is of the type of their value."""
        if len(call.arguments) < 2:
            return call
        value, other = call.arguments
        to, type_ = (type_of(self.context.select, each, schema, call.written) for each in (value, other))
        if not to.equals(type_):
            other = exp.cast(other.copy(), sql_type(to), dialect="spark")
        return replace(call, arguments=(value, other))

    def _type(self, call: WindowCall, types: Sequence[pa.DataType]) -> pa.DataType:
        if call.function in _NUMBERS:
            return _NUMBERS[call.function]
        if call.function in _MOVED or call.function in _PICKED.values():
            return types[0]
        try:
            return aggregate(call.function, types[0] if types else None).type
        except AnabranchError as problem:
            raise self.context.select.error(problem.name, problem.message, call.written, hint=problem.hint) from None


@dataclass(frozen=True)
class _Reader:
    context: Context
    node: exp.Window
    specification: exp.Expr
    read: Read

    def call(self) -> WindowCall:
        function, ignores, condition = self.node.this, False, None
        if isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
            ignores, function = isinstance(function, exp.IgnoreNulls), function.this
        if isinstance(function, exp.Filter):
            condition, function = self.read(function.expression.this.copy()), function.this
        name = called(function)
        if name not in (*KNOWN, *_PICKED):
            raise self._refuse(
                f"{name or shown(function)}() is no window function that is available",
                f"there are: {', '.join(sorted(KNOWN))}",
            )
        arguments = list(function.expressions)
        if arguments and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):  # f(x IGNORE NULLS)
            ignores, arguments[0] = isinstance(arguments[0], exp.IgnoreNulls), arguments[0].this
        if arguments and isinstance(arguments[0], exp.Distinct):
            raise self._refuse(f"{name}(DISTINCT …) OVER is not available", "take DISTINCT in a subquery in FROM first")
        name = "avg" if name == "mean" else _PICKED.get(name, name)
        if ignores and name not in (*_MOVED, *_PICKED.values()):
            raise self._refuse(f"{name}() cannot IGNORE NULLS", "leave it out: aggregates skip NULL")
        values, options = self._arguments(name, arguments, ignores)
        order = self._order()
        if not order and name in (*_NUMBERS, *_MOVED):
            raise self._refuse(f"{name}() needs an order", f"write {name}(…) OVER (… ORDER BY …)")
        frame = self._frame(name, bool(order))
        options += (("frame", frame),) if frame is not None else ()
        partition = tuple(
            value for value in (self._value(part) for part in self.specification.args.get("partition_by") or ())
            if names_of(value)
        )  # fmt: skip
        column_name = self.context.drafts.fresh(name)
        written = function if "start" in function.meta else self.node
        return WindowCall(column_name, name, tuple(values), partition, order, options, condition, written)

    def _value(self, written: exp.Expr) -> exp.Expr:
        return self.read(written.copy())

    def _order(self) -> Keys:
        order = self.specification.args.get("order")
        return tuple(
            (self._value(key.this), bool(key.args.get("desc")), bool(key.args.get("nulls_first")))
            for key in (order.expressions if order is not None else ())
        )

    def _arguments(
        self, name: str, written: list[exp.Expr], ignores: bool
    ) -> tuple[list[exp.Expr], tuple[tuple[str, Any], ...]]:
        least, most = {
            "ntile": (1, 1), "lag": (1, 3), "lead": (1, 3), "nth_value": (2, 3), "first_value": (1, 2),
            "last_value": (1, 2),
        }.get(name, (0, 0) if name in _NUMBERS else (1, 1))  # fmt: skip
        if not least <= len(written) <= most:
            raise self.context.select.error(
                "FUNCTION_ARGUMENTS", f"{name}() OVER takes {_said(least, most)}, got {len(written)}", self.node
            )
        if name in _NUMBERS:
            return [], (("count", self._whole(written[0], 1)),) if name == "ntile" else ()
        if name in _SUMMED:
            if name == "count" and isinstance(written[0], exp.Star | exp.Literal):
                return [], ()
            return [self._value(written[0])], ()
        options: tuple[tuple[str, Any], ...] = ()
        if name in _MOVED:
            options = (("offset", self._whole(written[1], None) if len(written) > 1 else 1),)
            others = [self._value(other) for other in written[2:] if not isinstance(other, exp.Null)]
            return [self._value(written[0]), *others], (*options, *((("ignore_nulls", True),) if ignores else ()))
        else:
            if name == "nth_value":
                options = (("n", self._whole(written[1], 1)),)
            ignores |= len(written) == most and self._constant(written[-1]) is True
        return [self._value(written[0])], (*options, *((("ignore_nulls", True),) if ignores else ()))

    def _constant(self, written: exp.Expr) -> Any:
        try:
            return constant_of(written)
        except (AnabranchError, NotEvaluable):
            raise self._refuse(f"{shown(written)} has to be a constant here", None) from None

    def _whole(self, written: exp.Expr, least: int | None) -> int:
        value = self._constant(written)
        if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
            raise self.context.select.error(
                "FUNCTION_ARGUMENTS",
                f"a whole number{'' if least is None else f' from {least}'} is wanted, got {shown(written)}",
                self.node,
            )
        return value

    def _frame(self, name: str, ordered: bool) -> list[Any] | None:
        """Kind, first and last row of a frame, None for no end: rows or peers before (negative) and behind."""
        spec = self.specification.args.get("spec")
        if spec is None:
            return None
        if name in (*_NUMBERS, *_MOVED):
            raise self._refuse(f"{name}() has no frame", "leave ROWS BETWEEN … out")
        kind = str(spec.args.get("kind") or "").lower()
        if kind not in ("rows", "range") or spec.args.get("exclude"):
            raise self._refuse("only frames of ROWS and RANGE are available", "write ROWS BETWEEN … AND …")
        start = self._end(spec, "start")
        end = self._end(spec, "end") if spec.args.get("end") is not None else 0
        if (kind, start, end) == ("range", None, 0) or (not ordered and (start, end) == (None, None)):
            return None
        if kind == "rows" and any(isinstance(edge, Length) for edge in (start, end)):
            raise self._refuse("a frame of ROWS counts rows", "write RANGE BETWEEN INTERVAL … PRECEDING AND …")
        return [kind, start, end]

    def _end(self, spec: exp.Expr, which: str) -> Any:
        value, side = spec.args.get(which), str(spec.args.get(f"{which}_side") or "")
        if value == "CURRENT ROW":
            return 0
        if value == "UNBOUNDED":
            if (which, side) not in (("start", "PRECEDING"), ("end", "FOLLOWING")):
                raise self._refuse("a frame goes from an earlier to a later row", "write BETWEEN … AND …")
            return None
        amount = self._amount(value) if isinstance(value, exp.Expr) else None
        if amount is None:
            raise self._refuse(f"{value} is no end of a frame", "write 3 PRECEDING, CURRENT ROW or 3 FOLLOWING")
        return -amount if side == "PRECEDING" else amount

    def _amount(self, value: exp.Expr) -> Any:
        if isinstance(value, exp.Interval):
            return Length(interval_us(value.sql(dialect="spark").removeprefix("INTERVAL ").replace("'", "")))
        amount = self._constant(value)
        return None if isinstance(amount, str | bool) else amount

    def _refuse(self, message: str, hint: str | None) -> AnabranchError:
        return self.context.refuse(message, self.node, hint)


def _said(least: int, most: int) -> str:
    return f"{least} arguments" if least == most else f"{least} to {most} arguments"


def named_windows(tree: exp.Select) -> dict[str, exp.Expr]:
    """The windows that a SELECT names."""
    return {window.this.name.lower(): window for window in tree.args.get("windows") or ()}

"""The window functions: what their calls say, the types they give, and how they are computed over rows in order.

`Call.options`, by function; what is not said has the value in parentheses:

| functions | options |
|---|---|
| `row_number`, `rank`, `dense_rank`, `percent_rank`, `cume_dist` | none |
| `ntile` | `count`: how many tiles |
| `lag`, `lead` | `offset` (1); `default` (NULL): a value of the argument's type; `ignore_nulls` (False) |
| `first_value`, `last_value` | `frame`; `ignore_nulls` (False) |
| `nth_value` | `n` ≥ 1; `frame`; `ignore_nulls` (False) |
| `count`, `sum`, `avg`, `min`, `max` | `frame`; the call may have a `filter` |

`lag` and `lead` may have a second argument, a column of the type of the first: the default as of each row. `count`
without an argument counts rows. A `frame` is `[unit, start, end]`: the unit `"rows"` or `"range"`, then how many rows
behind the row the frame begins and ends (-3: three rows before it), None for the first and the last row of the part.
Of a range 0 means the first and the last peer. Other numbers are how far keys are away, of the one column of the order,
which the option `by` names with whether it is descending: times in µs, dates in days. Without a frame it is
`["range", None, 0]`, which without an order is the part, as then all are peers.

Types are Spark's, but as in other aggregates avg is DOUBLE and a sum that does not fit is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from anabranch.kernels import ranks
from anabranch.kernels.fold import overflow
from anabranch.kernels.frames import Frames, shifted
from anabranch.kernels.ranks import Standing
from anabranch.kernels.refining import order_codes
from anabranch.kernels.values import floats, integers, one_array, valid
from anabranch.operators.tree.nodes import Call

_INT, _BIGINT, _DOUBLE = pa.int32(), pa.int64(), pa.float64()
_BY_PLACE: dict[str, tuple[Callable[[Standing], NDArray[Any]], pa.DataType]] = {
    "row_number": (ranks.row_number, _INT),
    "rank": (ranks.rank, _INT),
    "dense_rank": (ranks.dense_rank, _INT),
    "percent_rank": (ranks.percent_rank, _DOUBLE),
    "cume_dist": (ranks.cume_dist, _DOUBLE),
}
_VALUES = ("lag", "lead", "first_value", "last_value", "nth_value")
FUNCTIONS = (*_BY_PLACE, "ntile", *_VALUES, "count", "sum", "avg", "min", "max")


def type_of(call: Call, schema: pa.Schema) -> pa.DataType:
    """The type of a call's column; a call that cannot be computed here is a mistake of who made it."""
    if call.function not in FUNCTIONS or call.distinct:
        raise ValueError(f"{call.function} is no window function that is computed here")
    options = dict(call.options)
    unit, *ends = options.get("frame", ("range", None, 0))
    if unit not in ("rows", "range") or (unit == "range" and not {*ends} <= {None, 0} and "by" not in options):
        raise ValueError(f"a frame of {unit} {ends} is not computed here")
    if call.function in _BY_PLACE:
        return _BY_PLACE[call.function][1]
    if call.function == "ntile":
        return _INT
    if call.function == "count":
        return _BIGINT
    argument = schema.field(call.arguments[0]).type
    if call.function == "avg":
        return _DOUBLE
    if call.function == "sum":
        if pa.types.is_decimal(argument):
            return pa.decimal128(38, argument.scale)
        return _BIGINT if pa.types.is_signed_integer(argument) else _DOUBLE
    return argument


def compute(call: Call, at: Standing, rows: pa.Table) -> pa.Array:
    """What a call says of each of the rows, which stand as `at` tells."""
    options = dict(call.options)
    if call.function in _BY_PLACE:
        function, type_ = _BY_PLACE[call.function]
        return pa.array(function(at)).cast(type_)
    if call.function == "ntile":
        return pa.array(ranks.ntile(at, options["count"])).cast(_INT)
    if call.function in ("lag", "lead"):
        return _neighbour(call, options, at, rows)
    present = np.ones(len(at), np.bool_)
    if call.filter is not None:
        present &= integers(rows.column(call.filter)).astype(np.bool_)
    unit, start, end = options.get("frame", ("range", None, 0))
    frames = _within(options["by"], at, rows, start, end) if "by" in options else Frames.of(at, unit, start, end)
    if not call.arguments:
        return pa.array(frames.counts(present))
    values = one_array(rows.column(call.arguments[0]))
    if call.function not in _VALUES or options.get("ignore_nulls", False):
        present &= valid(values)
    if call.function in _VALUES:
        number = {"first_value": 1, "last_value": -1}.get(call.function) or options["n"]
        return _taken(values, frames.nth(present, number))
    return _AGGREGATES[call.function](frames, present, values)


def _within(by: tuple[str, bool], at: Standing, rows: pa.Table, start: float | None, end: float | None) -> Frames:
    """Frames by how far keys are away."""
    name, descending = by
    column = one_array(rows.column(name))
    present = valid(column)
    if pa.types.is_floating(column.type):
        keys: NDArray[Any] = column.fill_null(0.0).to_numpy(zero_copy_only=False)
        present = present & ~np.isnan(keys)
    else:
        keys = integers(column)
    if descending:  # the same the other way round; the least whole number has no opposite
        keys = -keys if keys.dtype.kind == "f" else ~keys
    return Frames.within(at, keys, present, start, end)


def _neighbour(call: Call, options: dict[str, Any], at: Standing, rows: pa.Table) -> pa.Array:
    values = one_array(rows.column(call.arguments[0]))
    present = valid(values) if options.get("ignore_nulls", False) else np.ones(len(at), np.bool_)
    offset = options.get("offset", 1)
    places = shifted(at, present, -offset if call.function == "lag" else offset)
    found = _taken(values, places)
    if len(call.arguments) > 1:
        other = one_array(rows.column(call.arguments[1]))
    elif options.get("default") is not None:
        other = pa.scalar(options["default"], values.type)
    else:
        return found
    return pc.if_else(pa.array(places >= 0), found, other)


def _taken(values: pa.Array, places: NDArray[np.int64]) -> pa.Array:
    """The values at some places, NULL for -1."""
    return values.take(pa.array(places, mask=places < 0))


def _count(frames: Frames, present: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return pa.array(frames.counts(present))


def _sum(frames: Frames, present: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    nothing = frames.counts(present) == 0
    if pa.types.is_decimal(values.type):
        wide = pa.decimal128(38, values.type.scale)
        sums = frames.decimal_sums(present, values, wide)
        if sums is None:
            raise overflow(f"DECIMAL(38,{wide.scale})", "sum(CAST(… AS DOUBLE))")
        return pc.if_else(pa.array(nothing), pa.scalar(None, wide), sums)
    if pa.types.is_signed_integer(values.type):
        numbers, fit = frames.sums(present, integers(values))
        if not fit:
            raise overflow("BIGINT", "sum(CAST(… AS DECIMAL(38, 0)))")
        return pa.array(numbers, mask=nothing)
    return pa.array(frames.double_sums(present, floats(values)), mask=nothing)


def _avg(frames: Frames, present: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    counts = frames.counts(present)
    return pa.array(frames.double_sums(present, floats(values)) / np.maximum(counts, 1), mask=counts == 0)


def _min(frames: Frames, present: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return _taken(values, frames.largest(present, ~order_codes(values)))


def _max(frames: Frames, present: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return _taken(values, frames.largest(present, order_codes(values)))


_AGGREGATES: dict[str, Callable[[Frames, NDArray[np.bool_], pa.Array], pa.Array]] = {
    "count": _count,
    "sum": _sum,
    "avg": _avg,
    "min": _min,
    "max": _max,
}

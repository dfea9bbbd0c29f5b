"""What aggregates are of a list of values, by their definition."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

from anabranch.operators.tree.nodes import Aggregate, Call
from tests.operators.tree.rows import EPOCH, NAN, Bag, Row, plain

Values = list[Any]


def answer(node: Aggregate, schema: pa.Schema, rows: Bag) -> Bag:
    at = schema.get_field_index
    groups: dict[Row, list[Row]] = defaultdict(list)
    if not node.keys:
        groups[()] = []
    for values, count in rows.items():
        groups[tuple(values[at(key)] for key in node.keys)] += [values] * count
    return Counter({(*key, *(_call(call, schema, each) for call in node.calls)): 1 for key, each in groups.items()})


def _call(call: Call, schema: pa.Schema, rows: list[Row]) -> Any:
    at = schema.get_field_index
    if call.filter is not None:
        rows = [row for row in rows if row[at(call.filter)] is True]
    name, _, rest = call.function.partition("(")
    arguments = [[row[at(argument)] for row in rows] for argument in call.arguments]
    if name in ("min_by", "max_by"):
        return _by(name, *arguments)
    if name in ("collect_list", "string_agg", "first", "last"):
        return _in_order(name, dict(call.options), list(zip(*arguments, strict=True)), once=call.distinct)
    tuples = [each for each in zip(*arguments, strict=True) if None not in each] if arguments else [()] * len(rows)
    if call.distinct or "distinct" in name:
        tuples = list(dict.fromkeys(tuples))
    if name == "count" or "distinct" in name:
        return len(tuples)
    values = [each[0] for each in tuples]
    if name == "count_if":
        return sum(value is True for value in values)
    if not values:
        return None
    return plain(FUNCTIONS[name](values, float(rest[:-1]) if rest else 0.5))


def order(value: Any) -> Any:
    """What a value is sorted by: NaN is the largest number."""
    if value == NAN:
        return (1, 0.0)
    return (0, value - EPOCH if hasattr(value, "tzinfo") else value)


def _in_order(name: str, options: dict[str, Any], rows: list[Row], *, once: bool) -> Any:
    """What is made of the values in the order that is said, and then in their own."""
    if name in ("collect_list", "string_agg") or options.get("ignore_nulls"):
        rows = [row for row in rows if row[0] is not None]
    if once:
        rows = list(dict.fromkeys(rows))
    rows = sorted(rows, key=lambda row: _null_or(row[0], True))
    for at, (descending, nulls_first) in reversed(list(enumerate(options.get("order", ()), 1))):
        rows = sorted(rows, key=lambda row: _null_or(row[at], nulls_first != descending), reverse=descending)
    values = [row[0] for row in rows]
    if name == "collect_list":
        return tuple(values)
    if not values:
        return None
    return options.get("separator", "").join(values) if name == "string_agg" else values[0 if name == "first" else -1]


def _null_or(value: Any, null_is_least: bool) -> Any:
    return (not null_is_least, 0) if value is None else (null_is_least, order(value))


def _by(name: str, values: Values, by: Values) -> Any:
    pairs = [(v, b) for v, b in zip(values, by, strict=True) if b is not None]
    if not pairs:
        return None
    best = (max if name == "max_by" else min)((b for _, b in pairs), key=order)
    of_best = [v for v, b in pairs if b == best]
    there = [v for v in of_best if v is not None]
    return min(there, key=order) if there else None


def exact(values: Values) -> Any:
    """The sum as a fraction, or what NaN and infinities make of it."""
    special = {value for value in values if value == NAN or (isinstance(value, float) and not math.isfinite(value))}
    if special:
        return special.pop() if len(special) == 1 else NAN
    return sum((Fraction(value) for value in values), Fraction(0))


def _double(number: Any) -> float:
    return math.nan if number == NAN else float(number)


def _sum(values: Values, _: float) -> Any:
    if isinstance(values[0], Decimal):
        return sum(values, Decimal(0))
    total = exact(values)
    return int(total) if isinstance(values[0], int) else _double(total)


def _doubles(values: Values) -> Values:
    return [value if value == NAN else float(value) for value in values]


def _avg(values: Values, _: float) -> float:
    return _double(exact(_doubles(values))) / len(values)


def _spread(less: int, root: bool) -> Callable[[Values, float], Any]:
    def spread(values: Values, _: float) -> Any:
        doubles = _doubles(values)
        if len(doubles) <= less:
            return None
        total = exact(doubles)
        if not isinstance(total, Fraction):
            return math.nan
        together = float(len(doubles) * sum(Fraction(x) ** 2 for x in doubles) - total**2)
        variance = together / len(doubles) / (len(doubles) - less)
        return math.sqrt(variance) if root else variance

    return spread


def _between(values: Values, share: float) -> float:
    ordered = [_double(value) for value in sorted(_doubles(values), key=order)]
    place = (len(ordered) - 1) * share
    below, above = math.floor(place), math.ceil(place)
    if below == above or ordered[below] == ordered[above]:
        return ordered[below]
    return (above - place) * ordered[below] + (place - below) * ordered[above]


def _at(values: Values, share: float) -> Any:
    return sorted(values, key=order)[max(math.ceil(len(values) * share) - 1, 0)]


def _mode(values: Values, _: float) -> Any:
    often = Counter(values)
    return min((value for value in often if often[value] == max(often.values())), key=order)


FUNCTIONS: dict[str, Callable[[Values, float], Any]] = {
    "sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "min": lambda values, _: min(values, key=order),
    "max": lambda values, _: max(values, key=order),
    "any_value": lambda values, _: min(values, key=order),
    "bool_and": lambda values, _: all(values),
    "every": lambda values, _: all(values),
    "bool_or": lambda values, _: any(values),
    "some": lambda values, _: any(values),
    "any": lambda values, _: any(values),
    "variance": _spread(1, False),
    "var_samp": _spread(1, False),
    "var_pop": _spread(0, False),
    "stddev": _spread(1, True),
    "std": _spread(1, True),
    "stddev_pop": _spread(0, True),
    "median": _between,
    "percentile": _between,
    "percentile_cont": _between,
    "percentile_disc": _at,
    "percentile_approx": _at,
    "approx_median": _at,
    "mode": _mode,
}


def wanted(node: Aggregate, schema: pa.Schema) -> Callable[[Sequence[Bag], int], Bag]:
    return lambda bags, _: answer(node, schema, bags[0])

"""The merge for PySpark programs that have a session and a folder of streams, and no database open."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from anabranch.operators.merge.operator import Merge
from anabranch.operators.merge.range_operator import RangeMerge
from anabranch.spark.frames import Length, check_select, interval, named_streams, quoted, streaming, wrong

Tolerance: TypeAlias = float | Decimal | Length | None
"""How far apart two keys may be: a number, a length of time, or None for equal values."""
On: TypeAlias = str | Mapping[str | tuple[str, str], Tolerance]
"""A condition as text, or tolerances by column, or by a pair of expressions over earlier streams and the next."""
Kind: TypeAlias = Literal["inner", "left", "full", "anti"]

_KINDS = {
    "inner": "MERGE JOIN",
    "left": "LEFT MERGE JOIN",
    "full": "FULL MERGE JOIN",
    "anti": "LEFT ANTI MERGE JOIN",
}


def merge_join(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    streams: Mapping[str, str] | Sequence[str],
    on: On | Sequence[On],
    kind: Kind | Sequence[Kind] = "inner",
    select: str = "*",
    where: str | None = None,
    algorithm: Literal["cgm", "rtm"] | None = None,
    policy: Literal["first", "nearest", "all"] | None = None,
    window: int | None = None,
    step: int | None = None,
    every: Length | Literal[0] | None = None,
    delta: float | None = None,
    over: int | None = None,
    memory: int | str | None = None,
    remainder: Literal["rest", "difference"] | None = None,
    pace: Literal["time", "rows"] | None = None,
    wait: Length | Literal[0] | None = None,
    settings: Mapping[str, object] | None = None,
) -> DataFrame:
    """Streams of the database at `root` merged where their keys nearly agree, as a streaming DataFrame.

    `streams` are names by alias, or names; the first drives. `on` says what must nearly agree, for more
    than two streams as a list with one entry for each further stream; so may `kind`. The options are
    those of MERGE JOIN … WITH (…), None being their defaults.

        merged = merge_join(
            spark, "river", streams={"p": "rain", "f": "floods"},
            on={"lat": 0.25, "lon": 0.25, "ts": "1 hour", "station": None}, select="p.lat, p.rain, f.depth",
        )
    """
    options = {
        "algorithm": algorithm, "policy": policy, "window": window, "step": step, "every": every, "delta": delta,
        "over": over, "memory": memory, "remainder": remainder, "pace": pace, "wait": wait,
    }  # fmt: skip
    named = named_streams(streams)
    text = merge_text(named, on, kind, select, where, options)
    return streaming(spark, root, text, settings, (Merge.kind, RangeMerge.kind), list(named), select)


def merge_text(
    named: Mapping[str, str], on: Any, kind: Any, select: Any, where: Any, options: Mapping[str, Any]
) -> str:
    """The SELECT that the arguments mean; each of them on lines of its own, so that none can reach into the next."""
    first, *others = named
    conditions = [on] if isinstance(on, str | Mapping) else on
    kinds = [kind] * len(others) if isinstance(kind, str) else kind
    for argument, given in (("on", conditions), ("kind", kinds)):
        if not isinstance(given, Sequence) or len(given) != len(others):
            raise wrong(argument, on if argument == "on" else kind, "one for each stream after the first")
    lines = [f"SELECT {check_select(select)}", f"FROM {quoted(named[first])} AS {quoted(first)}"]
    for alias, condition, join in zip(others, conditions, kinds, strict=True):
        if not isinstance(join, str) or join.lower() not in _KINDS:
            raise wrong("kind", join, ", ".join(map(repr, _KINDS)))
        lines.append(f"{_KINDS[join.lower()]} {quoted(named[alias])} AS {quoted(alias)}")
        lines.append(f"ON {_condition(first, alias, condition)}")
    chosen = [f"{name} = {_option(name, value)}" for name, value in options.items() if value is not None]
    lines += [f"WITH ({', '.join(chosen)})"] if chosen else []
    if where is not None:
        lines.append(f"WHERE {_text('where', where)}")
    return "\n".join(lines)


def _text(argument: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise wrong(argument, given, "a condition as text")
    return given


def _condition(first: str, alias: str, on: Any) -> str:
    if not isinstance(on, Mapping):
        return _text("on", on)
    if not on:
        raise wrong("on", on, "a tolerance for one key or more")
    parts = []
    for key, tolerance in on.items():
        if isinstance(key, str) and key:
            left, right = (f"{quoted(source)}.`{key.replace('`', '``')}`" for source in (first, alias))
        elif isinstance(key, tuple) and len(key) == 2 and all(isinstance(side, str) and side for side in key):
            left, right = key
        else:
            raise wrong("a key of on", key, "the name of a column, or two expressions as text")
        near = f"within({left}, {right}, {_tolerance(tolerance)})"
        parts.append(f"({left}) = ({right})" if tolerance is None else near)
    return " AND ".join(parts)


def _tolerance(tolerance: Any) -> str:
    number = _number(tolerance)
    if number is None:
        return "" if tolerance is None else interval(tolerance, "a tolerance")
    if not 0 <= number < math.inf:
        raise wrong("a tolerance", tolerance, "a number, zero or more")
    return str(tolerance) if isinstance(tolerance, Decimal) else repr(number)


def _option(name: str, value: Any) -> str:
    number = _number(value)
    if name in ("window", "step", "over"):
        if not isinstance(number, int):
            raise wrong(name, value, "a whole number")
        return repr(number)
    if name == "delta":
        if number is None or not 0 < number < 1:
            raise wrong(name, value, "a number between 0 and 1")
        return repr(number)
    if name in ("every", "wait"):
        return "0" if number == 0 else interval(value, name)
    if name == "memory" and isinstance(number, int):
        return repr(number)
    if not isinstance(value, str):
        raise wrong(name, value, "text" if name != "memory" else "a number of bytes, or text such as '64 MB'")
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _number(value: object) -> int | float | None:
    """A number of any kind as Python's own; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, numbers.Integral):
        return int(value)
    return float(value) if isinstance(value, numbers.Real | Decimal) else None

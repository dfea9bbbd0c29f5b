"""The window join for PySpark programs that have a session and a folder of streams, and no database open."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from anabranch.operators.join.operator import WindowJoin
from anabranch.spark.frames import Length, check_select, interval, named_streams, quoted, streaming, wrong

Window: TypeAlias = Length | tuple[Length, Length]
"""How far apart two rows may be; a pair of lengths says how much earlier and later the second may be."""


def window_join(
    spark: SparkSession,
    root: str | os.PathLike[str],
    *,
    streams: Mapping[str, str] | Sequence[str],
    windows: Window | int | Mapping[tuple[str, str], Window],
    on: str | None = None,
    select: str = "*",
    in_order: bool = False,
    settings: Mapping[str, object] | None = None,
) -> DataFrame:
    """Streams of the database at `root` joined inside windows, as a streaming DataFrame.

    `streams` are names by alias, or names. `windows` is one for all pairs (a length of time, or a
    number of rows), or one for each pair of aliases. `on` is any condition, `select` a select list.

        joined = window_join(
            spark, "river", streams={"A": "north", "B": "south"}, windows="1 hour",
            on="A.GasId = B.GasId", select="A.GasId, B.level",
        )
    """
    named = named_streams(streams)
    check_select(select)
    if on is not None and not isinstance(on, str):
        raise wrong("on", on, "a condition as text, such as 'A.k = B.k'")
    text = f"SELECT {select} FROM {', '.join(f'{quoted(name)} AS {quoted(alias)}' for alias, name in named.items())}"
    text += f" {_windows(windows)}" + (f" WHERE {on}" if on else "") + (" EMIT IN ORDER" if in_order else "")
    return streaming(spark, root, text, settings, (WindowJoin.kind,), list(named), select)


def _windows(windows: Any) -> str:
    """The WINDOW clause."""
    if isinstance(windows, Mapping):
        pairs = []
        for pair, window in windows.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise wrong("windows", windows, "by pairs of aliases, {('A', 'B'): '5 minutes'}")
            pairs.append(f"WINDOW({quoted(pair[0])}, {quoted(pair[1])}) = {_window(window)}")
        return " AND ".join(pairs)
    if isinstance(windows, int) and not isinstance(windows, bool):
        return f"WINDOW = {windows} ROWS"
    return f"WINDOW = {_window(windows)}"


def _window(window: Any) -> str:
    if isinstance(window, tuple) and len(window) == 2:
        return f"BETWEEN {interval(window[0])} AND {interval(window[1])}"
    if isinstance(window, tuple):
        raise wrong("a window", window, "a length of time, or two: how much earlier and later")
    return interval(window)

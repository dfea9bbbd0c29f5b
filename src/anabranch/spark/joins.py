"""The window join for PySpark programs that have a session and a folder of streams, and no database open."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from anabranch.catalog import Catalog
from anabranch.clock import SystemClock
from anabranch.errors import QueryError
from anabranch.log import Storage, StreamReader
from anabranch.operators.base import Inputs
from anabranch.operators.window_join import WindowJoin
from anabranch.settings import Settings
from anabranch.spark.engine import Engine
from anabranch.spark.options import FORMAT, SourceOptions, ddl
from anabranch.spark.session import Session, register
from anabranch.sql.intervals import interval_us
from anabranch.sql.parser import parse
from anabranch.sql.plan import plan_standing
from anabranch.sql.statements import SelectOnce

Length: TypeAlias = str | dt.timedelta
"""A length of time: `"10 seconds"`, `"-5 seconds"` or a timedelta."""
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
    named = _streams(streams)
    if not isinstance(select, str) or not select.strip() or any(mark in select for mark in ("--", "/*", ";")):
        raise _wrong("select", select, "a select list as text, such as 'A.k, B.v AS w'")
    if on is not None and not isinstance(on, str):
        raise _wrong("on", on, "a condition as text, such as 'A.k = B.k'")
    text = f"SELECT {select} FROM {', '.join(f'{_quoted(name)} AS {_quoted(alias)}' for alias, name in named.items())}"
    text += f" {_windows(windows)}" + (f" WHERE {on}" if on else "") + (" EMIT IN ORDER" if in_order else "")
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a join is one SELECT", detail=text)
    catalog = Catalog(Storage(os.fspath(root)), SystemClock(), create=False)
    plan = plan_standing(statements[0].select, catalog.schema)
    if not isinstance(plan.operator, WindowJoin) or [each[0] for each in plan.operator.sources] != list(named):
        raise _wrong("select", select, "a select list without aggregates over the streams that are joined")
    chosen = Settings(settings)
    storages = {name: catalog.stream_storage(name) for name in plan.operator.inputs}
    options = SourceOptions(
        operator=plan.operator.to_json(),
        streams={name: storage.address for name, storage in storages.items()},
        spark_schema=ddl(plan.operator.schema(Inputs({name: StreamReader(s) for name, s in storages.items()}))),
        parallelism=chosen["parallelism"] or spark.sparkContext.defaultParallelism,
        batch_rows=chosen["batch_rows"],
        poll_ms=chosen["poll_ms"],
        window_memory_bytes=chosen["window_memory_bytes"],
    )
    if plan.residual_sql is not None:  # Spark SQL does the rest, with the meaning a database gives it
        return Engine(Session(chosen, None, spark)).stream(options, plan.residual_sql)
    register(spark)
    return spark.readStream.format(FORMAT).options(**options.to_options()).load()


def _wrong(argument: str, got: object, wanted: str) -> QueryError:
    return QueryError("JOIN_ARGUMENT_INVALID", f"{argument} must be {wanted}, got {got!r}")


def _streams(streams: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Names of streams by alias."""
    wanted = "names by alias, {'A': 'north', 'B': 'south'}, or a list of different names, two or more"
    if isinstance(streams, Mapping):
        named = dict(streams)
    elif isinstance(streams, str) or not isinstance(streams, Sequence) or len(set(streams)) < len(streams):
        raise _wrong("streams", streams, wanted)
    else:
        named = {name: name for name in streams}
    if len(named) < 2 or not all(isinstance(text, str) and text for pair in named.items() for text in pair):
        raise _wrong("streams", streams, wanted)
    return named


def _quoted(name: str) -> str:
    stream, dot, kind = name.rpartition(".")
    parts = [stream, kind] if dot and kind == "rejects" else [name]
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def _windows(windows: Any) -> str:
    """The WINDOW clause."""
    if isinstance(windows, Mapping):
        pairs = []
        for pair, one in windows.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise _wrong("windows", windows, "by pairs of aliases, {('A', 'B'): '5 minutes'}")
            pairs.append(f"WINDOW({_quoted(pair[0])}, {_quoted(pair[1])}) = {_window(one)}")
        return " AND ".join(pairs)
    if isinstance(windows, int) and not isinstance(windows, bool):
        return f"WINDOW = {windows} ROWS"
    return f"WINDOW = {_window(windows)}"


def _window(window: Any) -> str:
    if isinstance(window, tuple) and len(window) == 2:
        return f"BETWEEN {_length(window[0])} AND {_length(window[1])}"
    if isinstance(window, tuple):
        raise _wrong("a window", window, "a length of time, or two: how much earlier and later")
    return _length(window)


def _length(length: Any) -> str:
    if isinstance(length, dt.timedelta):
        us = length // dt.timedelta(microseconds=1)
    elif isinstance(length, str):
        text = length.strip()
        us = 0 if text == "0" else -interval_us(text[1:]) if text.startswith("-") else interval_us(text)
    else:
        raise _wrong("a window", length, "a length of time, such as '5 minutes' or a timedelta")
    return f"{'- ' if us < 0 else ''}INTERVAL {abs(us)} MICROSECONDS"

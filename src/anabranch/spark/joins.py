"""The window join for PySpark programs that have a session and a folder of streams, and no database open."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from pyspark.sql import DataFrame, SparkSession

from anabranch.catalog import Catalog
from anabranch.clock import SystemClock
from anabranch.errors import QueryError
from anabranch.log import Storage, StreamReader
from anabranch.operators.base import Inputs
from anabranch.settings import Settings
from anabranch.spark.engine import Engine
from anabranch.spark.options import FORMAT, SourceOptions, ddl
from anabranch.spark.session import Session
from anabranch.spark.source import AnabranchSource
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
    named = dict(streams) if isinstance(streams, Mapping) else {name: name for name in streams}
    text = f"SELECT {select} FROM {', '.join(f'{_quoted(name)} AS {_quoted(alias)}' for alias, name in named.items())}"
    text += f" {_windows(windows)}" + (f" WHERE {on}" if on else "") + (" EMIT IN ORDER" if in_order else "")
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a join is one SELECT", detail=text)
    catalog = Catalog(Storage(os.fspath(root)), SystemClock(), create=False)
    plan = plan_standing(statements[0].select, catalog.schema)
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
    spark.dataSource.register(AnabranchSource)
    return spark.readStream.format(FORMAT).options(**options.to_options()).load()


def _quoted(name: str) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in name.split("."))


def _windows(windows: Window | int | Mapping[tuple[str, str], Window]) -> str:
    """The WINDOW clause."""
    if not isinstance(windows, Mapping):
        return f"WINDOW = {windows} ROWS" if isinstance(windows, int) else f"WINDOW = {_window(windows)}"
    pairs = (f"WINDOW({_quoted(a)}, {_quoted(b)}) = {_window(one)}" for (a, b), one in windows.items())
    return " AND ".join(pairs)


def _window(window: Window) -> str:
    if isinstance(window, tuple):
        return f"BETWEEN {_length(window[0])} AND {_length(window[1])}"
    return _length(window)


def _length(length: Length) -> str:
    if isinstance(length, dt.timedelta):
        us = length // dt.timedelta(microseconds=1)
    else:
        text = length.strip()
        us = -interval_us(text[1:]) if text.startswith("-") else interval_us(text)
    return f"{'- ' if us < 0 else ''}INTERVAL {abs(us)} MICROSECONDS"

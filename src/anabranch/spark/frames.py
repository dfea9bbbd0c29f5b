"""What the operators for PySpark programs share: arguments as SQL text, and a plan as a streaming DataFrame."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from anabranch.catalog import Catalog
from anabranch.catalog.planning import plan_query
from anabranch.clock import SystemClock
from anabranch.dataspace.access import Access
from anabranch.errors import QueryError
from anabranch.log import Storage
from anabranch.operators.base import Inputs, Operator
from anabranch.settings import Settings
from anabranch.spark.engine import Engine
from anabranch.spark.options import FORMAT, SourceOptions, ddl, frame_scratch
from anabranch.spark.session import Session, register
from anabranch.sql.intervals import interval_us
from anabranch.sql.parser import parse
from anabranch.sql.plan import StandingPlan
from anabranch.sql.statements import SelectOnce

Length: TypeAlias = str | dt.timedelta
"""A length of time: `"10 seconds"`, `"-5 seconds"` or a timedelta."""


def streaming(
    spark: SparkSession,
    root: str | os.PathLike[str],
    text: str,
    settings: Mapping[str, object] | None,
    wanted: tuple[type[Operator], ...],
    aliases: Sequence[str],
    select: str,
) -> DataFrame:
    """The answer of a SELECT over streams of the database at `root`, as it grows.

    It must be run by an operator that is `wanted`, over the sources that `aliases` name.
    """
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a join is one SELECT", detail=text)
    storage, chosen = Storage(os.fspath(root)), Settings(settings)
    catalog = Catalog(storage, SystemClock(), create=False, access=Access.of(chosen, storage))
    plan = plan_query(statements[0].select, catalog)
    sources: Sequence[tuple[str, ...]] = getattr(plan.operator, "sources", ())
    if not isinstance(plan.operator, wanted) or [each[0] for each in sources] != list(aliases):
        raise wrong("select", select, "a select list without aggregates over the streams that are joined")
    return _frame(spark, plan, catalog, chosen)


def _frame(spark: SparkSession, plan: StandingPlan, catalog: Catalog, settings: Settings) -> DataFrame:
    storages = {name: catalog.stream_storage(name) for name in plan.operator.inputs}
    options = SourceOptions(
        operator=plan.operator.to_json(),
        streams={name: storage.address for name, storage in storages.items()},
        spark_schema=ddl(plan.operator.schema(Inputs({name: catalog.open_stream(name) for name in storages}))),
        scratch=frame_scratch(catalog, plan.operator),
        parallelism=settings["parallelism"] or spark.sparkContext.defaultParallelism,
        batch_rows=settings["batch_rows"],
        poll_ms=settings["poll_ms"],
        window_memory_bytes=settings["window_memory_bytes"],
        access=catalog.access,
        claims_time=True,
    )
    if plan.residual_sql is not None:  # Spark SQL does the rest, with the meaning a database gives it
        return Engine(Session(settings, None, spark)).stream(options, plan.residual_sql)
    register(spark)
    return spark.readStream.format(FORMAT).options(**options.to_options()).load()


# -- arguments ---------------------------------------------------------------------------------------


def wrong(argument: str, got: object, wanted: str) -> QueryError:
    return QueryError("JOIN_ARGUMENT_INVALID", f"{argument} must be {wanted}, got {got!r}")


def check_select(select: object) -> str:
    """A select list, which must not end the SELECT it is put into."""
    if not isinstance(select, str) or not select.strip() or any(mark in select for mark in ("--", "/*", ";")):
        raise wrong("select", select, "a select list as text, such as 'A.k, B.v AS w'")
    return select


def named_streams(streams: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Names of streams by alias."""
    wanted = "names by alias, {'A': 'north', 'B': 'south'}, or a list of different names, two or more"
    if isinstance(streams, Mapping):
        named = dict(streams)
    elif isinstance(streams, str) or not isinstance(streams, Sequence) or len(set(streams)) < len(streams):
        raise wrong("streams", streams, wanted)
    else:
        named = {name: name for name in streams}
    if len(named) < 2 or not all(isinstance(text, str) and text for pair in named.items() for text in pair):
        raise wrong("streams", streams, wanted)
    return named


def quoted(name: str) -> str:
    stream, dot, kind = name.rpartition(".")
    parts = [stream, kind] if dot and kind == "rejects" else [name]
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def interval(length: Any, argument: str = "a window") -> str:
    """A length of time as SQL has it."""
    if isinstance(length, dt.timedelta):
        us = length // dt.timedelta(microseconds=1)
    elif isinstance(length, str):
        text = length.strip()
        us = 0 if text == "0" else -interval_us(text[1:]) if text.startswith("-") else interval_us(text)
    else:
        raise wrong(argument, length, "a length of time, such as '5 minutes' or a timedelta")
    return f"{'- ' if us < 0 else ''}INTERVAL {abs(us)} MICROSECONDS"

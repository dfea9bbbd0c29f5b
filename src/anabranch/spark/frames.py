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
from anabranch.engine.options import FORMAT, frame_scratch, options_for
from anabranch.errors import QueryError
from anabranch.log import Storage
from anabranch.log.stream import REJECTS, rejects_owner
from anabranch.settings import Settings
from anabranch.spark.engine import SparkEngine
from anabranch.spark.session import Session, register
from anabranch.sql.reading.intervals import interval_us
from anabranch.sql.reading.parser import parse
from anabranch.sql.standing.standing_plan import StandingPlan
from anabranch.sql.statements import SelectOnce

Length: TypeAlias = str | dt.timedelta
"""A length of time: `"10 seconds"`, `"-5 seconds"` or a timedelta."""


def streaming(
    spark: SparkSession,
    root: str | os.PathLike[str],
    text: str,
    settings: Mapping[str, object] | None,
    kinds: tuple[str, ...],
    aliases: Sequence[str],
    select: str,
) -> DataFrame:
    """The answer of a SELECT over streams of the database at `root`, as it grows.

    It must be run by an operator of one of these kinds, over the sources that `aliases` name.
    """
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], SelectOnce):
        raise QueryError("SELECT_WANTED", "a join is one SELECT", detail=text)
    storage, chosen = Storage(os.fspath(root)), Settings(settings)
    catalog = Catalog(storage, SystemClock(), create=False, access=Access.of(chosen, storage))
    plan = plan_query(statements[0].select, catalog)
    if plan.operator.kind not in kinds or plan.operator.aliases() != tuple(aliases):
        raise wrong("select", select, "a select list without aggregates over the streams that are joined")
    return _frame(spark, plan, catalog, chosen)


def _frame(spark: SparkSession, plan: StandingPlan, catalog: Catalog, settings: Settings) -> DataFrame:
    scratch, cores = frame_scratch(catalog, plan.operator), spark.sparkContext.defaultParallelism
    options = options_for(plan.operator, catalog, settings, cores, scratch=scratch, claims_time=True)
    if plan.residual_sql is not None:  # Spark SQL does the rest, with the meaning a database gives it
        return SparkEngine(Session(settings, None, spark)).stream(options, plan.residual_sql)
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
    owner = rejects_owner(name)
    parts = [name] if owner is None else [owner, REJECTS]
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

"""A database without Spark whose SELECTs over several tables are answered by DuckDB."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import sqlglot

from anabranch.clock import Clock
from anabranch.engine.options import ArchivedFiles, SourceOptions
from anabranch.log import Storage
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Offset, offsets_from_json
from anabranch.operators.opening import open_stream
from anabranch.testing.sparkless import LocalEngine, LocalRunning, SparklessDatabase


class ReadingEngine(LocalEngine):
    """Answers SELECTs by DuckDB."""

    def sql_once(
        self, sql: str, views: dict[str, SourceOptions], files: Mapping[str, ArchivedFiles] | None = None
    ) -> pa.Table:
        with duckdb.connect() as connection:
            for view, options in views.items():
                connection.register(view, _rows(options))
            return connection.sql(sqlglot.transpile(sql, "spark", "duckdb")[0]).to_arrow_table()

    @property
    def running(self) -> list[LocalRunning]:
        return [running for running in self._running if running.alive]


def _rows(options: SourceOptions) -> pa.Table:
    """The rows of one stream or table, up to where it is to be read."""
    operator = operator_from_json(options.operator)
    readers = {name: open_stream(Storage(path), options.access) for name, path in options.streams.items()}
    for reader in readers.values():
        reader.refresh()
    inputs = Inputs(readers)
    start = {name: Offset(reader.first_row()) for name, reader in readers.items()}
    tasks = operator.plan(start, offsets_from_json(options.ends), inputs, 1)
    batches = [batch for task in tasks for batch in operator.run(task, inputs)]
    return pa.Table.from_batches(batches, operator.schema(inputs))


class ReadingDatabase(SparklessDatabase):
    """`meanwhile` is what happens while someone who reads waits."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        queries: bool = True,
    ) -> None:
        self.meanwhile: Callable[[], None] | None = None
        super().__init__(path, settings=settings, clock=clock, queries=queries, engine=ReadingEngine)

    @property
    def local(self) -> ReadingEngine:
        assert isinstance(self._local, ReadingEngine)
        return self._local

    def _wait_a_moment(self) -> None:
        if self.meanwhile is None:
            super()._wait_a_moment()
        else:
            self.meanwhile()

    def read_together(self, *names: str) -> dict[str, pa.Table]:
        """The columns k and v of some tables, views and streams, read by one statement."""
        read = self.sql(" UNION ALL ".join(f"SELECT '{name}' AS name, k, v FROM {name}" for name in names)).table()
        return {name: read.filter(pc.field("name") == name).select(["k", "v"]) for name in names}


def planned(running: LocalRunning) -> None:
    """Have a query decide where its next micro-batch ends, which it then runs later, as Spark does."""
    if not running._checkpoint.exists(f"offsets/{running._number}"):
        start = running._offsets(running._number - 1)
        end = running._ends(start)
        if end != start:
            running._write("offsets", {}, end)


def some_query_goes_on(db: ReadingDatabase, chance: random.Random) -> None:
    """One of them decides where its micro-batch ends, or runs it."""
    running = db.local.running
    if running:
        chosen = chance.choice(running)
        if chance.random() < 0.5:
            planned(chosen)
        else:
            chosen.step()

"""The rests of a host's members in Spark SQL: one job for the rows of a micro-batch, whichever members they are of.

A job costs tens of milliseconds, and planning one as much again. So rests are put together (`sql.standing.rest`), and
what they are together is planned once, over rows that come from a file: each micro-batch writes the file anew and runs
the same plan. Rows keep their order, as they do where a query stands alone.
"""

from __future__ import annotations

import contextlib
import functools
import secrets
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import ipc
from pyspark.sql import DataFrame, SparkSession

from anabranch.engine.options import SourceOptions, ddl
from anabranch.engine.rests import Unfinished
from anabranch.log.storage import Storage
from anabranch.spark.answers import arrow_schema, sealed
from anabranch.spark.staging import sweep, unseal
from anabranch.sql.standing.rest import REST, Rest, joint_sql, slot
from anabranch.sql.standing.rows import INPUT_VIEW

PLACE = "__place"
"""The column that says whose a row is."""
MOST_TOGETHER = 100
"""So many rests are one plan; planning takes longer than in proportion to them."""
_MOST_KNOWN = 2000
"""After so many rests that were seen those are forgotten that may be of members of long ago."""
_ROWS_PER_TASK = 200_000
_ROWS_PER_BATCH = 1 << 16
_CARRIED = pa.schema([(PLACE, pa.int64()), (REST, pa.int64())])

_Kind = tuple[Rest, pa.Schema, pa.Schema]
"""A rest, the columns it reads and those it answers with."""


class Rests:
    """The rests of one host, in one life of Spark."""

    def __init__(self, spark: SparkSession, staging: Storage) -> None:
        self.spark = spark
        self._staging = staging
        self._joints: list[_Joint] = []
        self._joint_of: dict[_Kind, _Joint] = {}

    def finish(self, parts: Sequence[Unfinished]) -> list[pa.Table]:
        """What becomes of the rows of each part, in their order."""
        wanted: dict[_Joint, list[int]] = {}
        for place, part in enumerate(parts):
            wanted.setdefault(self._joint((part.rest, part.rows.schema, part.schema)), []).append(place)
        answers: dict[int, pa.Table] = {}
        for joint, places in wanted.items():
            answers |= zip(places, joint.run([parts[place] for place in places]), strict=True)
        return [answers[place] for place in range(len(parts))]

    def _joint(self, kind: _Kind) -> _Joint:
        joint = self._joint_of.get(kind)
        if joint is None:
            if len(self._joint_of) >= _MOST_KNOWN:
                self._joints, self._joint_of = [], {}
            joint = next((each for each in self._joints if each.takes(kind)), None)
            if joint is None:
                joint = _Joint(self.spark, self._staging)
                self._joints.append(joint)
            joint.add(kind)
            self._joint_of[kind] = joint
        return joint


class _Joint:
    """Rests that are one plan; their rows stand in one file, with a column for each that any of them reads."""

    def __init__(self, spark: SparkSession, staging: Storage) -> None:
        self._spark = spark
        self._staging = staging
        self._file = f"rests-{secrets.token_hex(8)}.arrow"
        self._numbers: dict[_Kind, int] = {}
        self._columns: dict[str, pa.Field] = {}
        self._slots: dict[tuple[pa.DataType, ...], list[int]] = {}
        self._frames: dict[int, DataFrame] = {}

    def takes(self, kind: _Kind) -> bool:
        """Whether it has room for one more, which does not call anything else by a name that is taken."""
        known = (self._columns.get(field.name.lower(), field) == field for field in kind[1])
        return len(self._numbers) < MOST_TOGETHER and all(known)

    def add(self, kind: _Kind) -> None:
        _, reads, answers = kind
        self._numbers[kind] = len(self._numbers)
        self._columns |= {field.name.lower(): field for field in reads}
        self._slots.setdefault(tuple(answers.types), []).append(self._numbers[kind])
        self._frames.clear()

    # -- run ---------------------------------------------------------------------------------------

    def run(self, parts: Sequence[Unfinished]) -> list[pa.Table]:
        rows = sum(part.rows.num_rows for part in parts)
        tasks = 1 if rows < _ROWS_PER_TASK else self._spark.sparkContext.defaultParallelism
        self._write(parts)
        answers = self._collected(self._frame(tasks), tasks > 1)
        edges = np.searchsorted(answers.column(PLACE).to_numpy(), np.arange(len(parts) + 1))
        return [
            self._answer(part, answers.slice(low, high - low))
            for part, low, high in zip(parts, edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]

    def _write(self, parts: Sequence[Unfinished]) -> None:
        schema = pa.schema([*_CARRIED, *self._columns.values()])
        numbers = [self._numbers[part.rest, part.rows.schema, part.schema] for part in parts]
        wide = [_widened(part.rows, place, numbers[place], schema) for place, part in enumerate(parts)]

        def write(sink: pa.NativeFile) -> None:
            with ipc.new_file(sink, schema) as out:
                out.write_table(pa.concat_tables(wide).combine_chunks())

        self._staging.make(durable=False)
        self._staging.write(write, self._file, durable=False)

    def _collected(self, frame: DataFrame, many: bool) -> pa.Table:
        """All rows in order; those of many do not pass through the memory of the JVM."""
        if not many:
            return frame.toArrow()
        schema = arrow_schema(frame)
        came = sealed(frame, schema, self._staging.address, SourceOptions.inline_bytes).toArrow()
        try:
            return unseal(came, schema, self._staging)[0]
        finally:
            sweep(came, self._staging)

    def _answer(self, part: Unfinished, rows: pa.Table) -> pa.Table:
        place = list(self._slots).index(tuple(part.schema.types))
        columns = [rows.column(slot(place, column)) for column in range(len(part.schema))]
        return pa.Table.from_arrays(columns, names=part.schema.names).cast(part.schema)

    # -- planned once ------------------------------------------------------------------------------

    def _frame(self, tasks: int) -> DataFrame:
        if tasks not in self._frames:
            self._frames[tasks] = self._planned(tasks)
        return self._frames[tasks]

    def _planned(self, tasks: int) -> DataFrame:
        spark, view = self._spark, f"{INPUT_VIEW}_{secrets.token_hex(8)}"
        read = functools.partial(_rows_of_file, self._staging.address, self._file, tasks)
        columns = ddl(pa.schema([*_CARRIED, *self._columns.values()]))
        spark.range(0, tasks, 1, tasks).mapInArrow(read, columns).createTempView(view)
        rests = [(number, rest) for (rest, _, _), number in self._numbers.items()]
        joint = joint_sql(rests, list(self._slots.values()), [PLACE])
        try:
            return spark.sql(f"WITH {INPUT_VIEW} AS (SELECT * FROM {view}) {joint}")
        finally:
            with contextlib.suppress(Py4JError, OSError):
                spark.catalog.dropTempView(view)


def _widened(rows: pa.Table, place: int, number: int, schema: pa.Schema) -> pa.Table:
    """Rows with all columns of a plan; those that they do not have are NULL."""
    own = {field.name.lower(): rows.column(at) for at, field in enumerate(rows.schema)}
    carried = {PLACE: place, REST: number}
    columns = []
    for field in schema:
        column = own.get(field.name.lower())
        if field.name in carried:
            column = pa.repeat(pa.scalar(carried[field.name], field.type), rows.num_rows)
        columns.append(pa.nulls(rows.num_rows, field.type) if column is None else column)
    return pa.Table.from_arrays(columns, schema=schema)


def _rows_of_file(address: str, name: str, of: int, pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """In a worker: its piece of the rows."""
    for batch in pieces:
        for piece in batch.column(0).to_pylist():
            table = ipc.open_file(Storage(address).open_file(name)).read_all()
            low, high = table.num_rows * piece // of, table.num_rows * (piece + 1) // of
            yield from table.slice(low, high - low).to_batches(max_chunksize=_ROWS_PER_BATCH)

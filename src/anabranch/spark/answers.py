"""Large one-time answers: tasks write them to files, which are then mapped here.

Spark would bring all rows of an answer into the memory of its JVM first. So an answer that may be
large is put into envelopes like those of standing queries (see `staging`): its rows go from the tasks'
workers to files beside the data and from there into this process, as pages that the kernel may drop
again. Their order is that of the tasks, and that of rows within each, as Spark has it. The files are
deleted as soon as they are mapped: they live as long as the answer does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import VariantType

from anabranch.errors import QueryError
from anabranch.log.storage import Storage
from anabranch.operators.base import Work
from anabranch.spark.staging import ENVELOPE_DDL, seal, unseal

_FEW_ROWS = 10_000
_FEW_BYTES = 16 * 1024 * 1024
_MULTIPLYING = ("Join", "Generate", "Range", "Expand")
"""Steps of a plan that may give more rows than they take."""
_LEFT_BEHIND_SECONDS = 86_400


def arrow_schema(frame: DataFrame) -> pa.Schema:
    """The columns of a DataFrame in Arrow's types."""
    return to_arrow_schema(frame.schema, timezone="UTC")


def sealed(frame: DataFrame, schema: pa.Schema, staging: str, inline_bytes: int, most_bytes: int = 0) -> DataFrame:
    """The rows of a DataFrame in envelopes, one of each task; of a task with more than `most_bytes` only that."""

    def put(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        task = context.partitionId() if context is not None else 0
        casted = (b.cast(schema) for b in batches)
        yield seal(casted, task, staging, inline_bytes, Work(), most_bytes)

    return frame.mapInArrow(put, ENVELOPE_DDL)


class Answers:
    """Where large answers of one database pass through, and how large they may be (0: as large as the disk)."""

    def __init__(self, place: Storage, most_bytes: int, inline_bytes: int) -> None:
        self._place = place
        self._most_bytes = most_bytes
        self._inline_bytes = inline_bytes

    def collect(self, frame: DataFrame, reads_bytes: int) -> pa.Table:
        """All rows of a frame that reads so many bytes."""
        if _is_small(frame, reads_bytes) or any(isinstance(f.dataType, VariantType) for f in frame.schema.fields):
            return frame.toArrow()
        self._sweep()
        place = self._place.child(secrets.token_hex(8))
        try:
            place.make()
        except OSError:  # a directory that this process may only read
            return frame.toArrow()
        try:
            schema = arrow_schema(frame)
            envelopes = sealed(frame, schema, place.address, self._inline_bytes, self._most_bytes).toArrow()
            self._refuse_if_too_large(envelopes, place)
            return unseal(envelopes, schema, place)[0]
        finally:
            with contextlib.suppress(OSError):
                place.delete_all()

    def _refuse_if_too_large(self, envelopes: pa.Table, place: Storage) -> None:
        cut_off = any(rows < 0 for rows in envelopes.column("rows").to_pylist())
        if cut_off or 0 < self._most_bytes < sum(place.files().values()):
            raise QueryError(
                "RESULT_TOO_LARGE",
                f"the answer has more than {self._most_bytes} bytes",
                hint="ask for less (WHERE, LIMIT, aggregates), read the stream in parts with db.reader, "
                "or raise the setting answer_bytes",
            )

    def _sweep(self) -> None:
        """Delete what a process that was killed has left behind."""
        if not self._place.is_local:
            return
        for name in self._place.directories():
            with contextlib.suppress(OSError):
                if time.time() - os.stat(self._place.full(name)).st_mtime > _LEFT_BEHIND_SECONDS:
                    self._place.child(name).delete_all()


def _is_small(frame: DataFrame, reads_bytes: int) -> bool:
    """Whether an answer surely takes little memory, so that the way through files is not worth its time."""
    plan = frame._jdf.queryExecution().optimizedPlan()
    most = plan.maxRows()
    if most.isDefined() and most.get() <= _FEW_ROWS:
        return True
    return reads_bytes <= _FEW_BYTES and not any(step in plan.toString() for step in _MULTIPLYING)

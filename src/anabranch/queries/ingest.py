"""Rows of a Spark streaming DataFrame into a stream, each exactly once.

Executors write a micro-batch's rows as Arrow; the driver appends them with the micro-batch's
number, and the log passes over a number it has seen. Rows of one micro-batch arrive together, so
they are put in order of time first.
"""

from __future__ import annotations

from typing import Any

from anabranch.engine.protocol import Batch, Engine
from anabranch.errors import AnabranchError, DataError, QueryError, did_you_mean
from anabranch.log import Storage, StreamWriter
from anabranch.queries.checkpoint import mend_ingest


class Ingest:
    """A running ingestion; get one from `Database.ingest`."""

    def __init__(
        self, engine: Engine, frame: Any, writer: StreamWriter, name: str, storage: Storage, *, available_now: bool
    ) -> None:
        self._writer = writer
        self._producer = f"ingest {name}"
        schema = writer.info.schema
        if not getattr(frame, "isStreaming", False):
            raise DataError(
                "FRAME_IS_NOT_STREAMING",
                f"got {type(frame).__name__} that does not stream",
                hint="use spark.readStream, or db.append(stream, frame.toArrow())",
            )
        unknown = [c for c in frame.columns if c not in schema.names]
        if unknown:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'column "{unknown[0]}" of the DataFrame is not in stream "{writer.info.name}"',
                hint=did_you_mean(unknown[0], schema.names),
            )
        storage.make()
        mend_ingest(storage.child("checkpoint"), name, writer.batch(self._producer))
        self._time = schema.time
        self._running = engine.ingest(
            frame,
            storage.child("staging"),
            storage.child("checkpoint"),
            self._take,
            available_now=available_now,
        )

    def _take(self, batch: Batch) -> None:
        batch.make_durable()
        rows = batch.rows
        if self._time in rows.column_names:
            rows = rows.sort_by(self._time)
        self._writer.append(rows, producer=self._producer, batch=batch.number)

    @property
    def status(self) -> str:
        return self._running.status

    @property
    def failure(self) -> AnabranchError | None:
        return self._running.failure

    def wait(self, timeout: float | None = None) -> None:
        """For `available_now`: until all that was there is in the stream."""
        if not self._running.run_to_end(timeout):
            raise QueryError("QUERY_IS_BEHIND", f"the ingestion did not end in {timeout:g} s")

    def stop(self) -> None:
        self._running.stop()

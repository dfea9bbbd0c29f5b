"""Spark's own reports of what each micro-batch took, read the same way for us and for the peer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from anabranch.database import Database
from anabranch.queries import Query
from anabranch.spark.running import Running

KEPT = "spark.sql.streaming.numRecentProgressUpdates"


@dataclass(frozen=True)
class MicroBatch:
    """Spark's report of one micro-batch."""

    number: int
    began: float
    """Seconds since the epoch."""
    milliseconds: dict[str, int]
    """What its phases took; `triggerExecution` is all of them together."""
    rows: int
    end_offset: str

    @property
    def end(self) -> float:
        return self.began + self.milliseconds["triggerExecution"] / 1000


def keep_progress(db: Database) -> None:
    """Let Spark remember the reports of a whole run instead of the last few."""
    db.spark.conf.set(KEPT, "100000")


def progress_of(query: Query) -> list[MicroBatch]:
    """The micro-batches a running query has done since it was started in this process."""
    running = query._host._running
    assert isinstance(running, Running)
    return micro_batches(running._query)


def micro_batches(streaming_query: Any) -> list[MicroBatch]:
    """One for each micro-batch that ran; reports of looks that found nothing are left out."""
    found: dict[int, MicroBatch] = {}
    for report in streaming_query.recentProgress:
        data = json.loads(report.json)
        if "addBatch" not in data["durationMs"]:
            continue
        source = data["sources"][0]
        offset = source["endOffset"]
        found[data["batchId"]] = MicroBatch(
            number=data["batchId"],
            began=datetime.fromisoformat(data["timestamp"]).timestamp(),
            milliseconds=data["durationMs"],
            rows=source["numInputRows"],
            end_offset=offset if isinstance(offset, str) else json.dumps(offset),
        )
    return [found[number] for number in sorted(found)]


def steady_rate(batches: list[MicroBatch], rows: int, batch_rows: int) -> float:
    """Rows/s from the end of the first micro-batch to the end of the last."""
    return (rows - batch_rows) / (batches[-1].end - batches[0].end)

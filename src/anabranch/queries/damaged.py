"""A query that is there and cannot be made ready: its declaration, or that of a stream it reads, cannot be read.

It stands among the others as failed, with the reason, so that the rest of the database opens; it can be dropped.
"""

from __future__ import annotations

from typing import Any, NoReturn

from anabranch.catalog import Catalog, QueryInfo
from anabranch.errors import AnabranchError
from anabranch.queries.progress import Progress
from anabranch.queries.query import Query

_NOTHING = {"rows": 0, "bytes": 0, "why": "nothing is known"}


class DamagedQuery(Query):
    """A handle on a query that nobody can run."""

    def __init__(self, info: QueryInfo, catalog: Catalog, problem: AnabranchError) -> None:
        self.name = info.name
        self.sql = info.sql
        self.id = info.id
        self._catalog = catalog
        self._failure = problem
        self._storage = catalog.query_storage(info.name)
        self._progress = Progress(self._storage)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @property
    def reads_history(self) -> bool:
        return False

    @property
    def status(self) -> str:
        return "failed"

    @property
    def failure(self) -> AnabranchError | None:
        return self._failure

    @property
    def runs_here(self) -> bool:
        return False

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        assert self._failure is not None
        raise self._failure

    start = start_soon = stop = wait = table = store = stream = explain = reevaluate = _refuse

    def waits_for(self) -> dict[str, Any] | None:
        return None

    def halt(self) -> None:
        """There is nothing to end."""

    def drop(self) -> None:
        self._catalog.drop_query(self.name)

    def stats(self) -> dict[str, Any]:
        counts = self._progress.counts
        return {
            "name": self.name,
            "status": self.status,
            "rows_in": counts.rows_in,
            "bytes_in": counts.bytes_in,
            "batches": counts.batches,
            "rows_per_second": 0.0,
            "last_batch_ms": 0.0,
            "behind_rows": 0,
            "waits_for": None,
            "completeness": {"last_batch": 1.0, "all": 1.0},
            **dict.fromkeys(("stream", "store", "scratch", "throw"), _NOTHING),
            "failure": str(self._failure),
        }

    def events(self) -> list[dict[str, Any]]:
        return list(self._progress.counts.events)

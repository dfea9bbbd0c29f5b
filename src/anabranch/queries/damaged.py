"""A query that is there and cannot be made ready: its declaration, or that of a stream it reads, cannot be read.

It stands among the others as failed, with the reason, so that the rest of the database opens; it can be dropped.
"""

from __future__ import annotations

from typing import Any, NoReturn

from anabranch.catalog import Catalog, QueryInfo
from anabranch.errors import AnabranchError
from anabranch.queries.progress import Progress
from anabranch.queries.query import Query
from anabranch.queries.statistics import stats_of_damaged


class DamagedQuery(Query):
    """A handle on a query that nobody can run."""

    def __init__(self, info: QueryInfo, catalog: Catalog, problem: AnabranchError) -> None:
        self.name = info.name
        self.sql = info.sql
        self.id = info.id
        self._catalog = catalog
        self._failure = problem
        self._progress = Progress(catalog.query_storage(info.name))

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @property
    def host(self) -> None:
        return None

    @property
    def reads_history(self) -> bool:
        return False

    @property
    def answers_over_nothing(self) -> bool:
        return False

    @property
    def answers_all_columns(self) -> bool:
        return False

    @property
    def status(self) -> str:
        return "failed"

    @property
    def failure(self) -> AnabranchError:
        return self._failure

    @property
    def runs_here(self) -> bool:
        return False

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise self._failure

    start = start_soon = stop = wait = table = store = stream = explain = reevaluate = _refuse

    def waits_for(self) -> dict[str, Any] | None:
        return None

    def halt(self) -> None:
        """There is nothing to end."""

    def drop(self) -> None:
        self._catalog.drop_query(self.name)

    def _counted(self) -> Progress:
        return self._progress

    def stats(self) -> dict[str, Any]:
        return stats_of_damaged(self.name, self._progress, self._failure)

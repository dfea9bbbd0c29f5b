"""Waiting until some rows are taken in by a query, also by one that reads them through the answers of others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from anabranch.log.offset import End

if TYPE_CHECKING:
    from anabranch.log.appended import Appended
    from anabranch.queries.query import Query


def wait_for(
    appended: Appended, query: Query, find: Callable[[str], Query | None], timeout: float | None = None
) -> bool:
    """Until the rows are taken in; False if the query reads nothing of them."""
    deadline = None if timeout is None else time.monotonic() + timeout
    target: dict[str, End] = {}
    for name in query.inputs:
        source = find(name)
        if name.lower() == appended.stream.lower():
            target[name] = End(int(appended))
        elif source is not None and wait_for(appended, source, find, _left(deadline)):
            target[name] = query.ends()[name]
    if target:
        query.wait(_left(deadline), {name: target.get(name, End()) for name in query.inputs})
    return bool(target)


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.001)

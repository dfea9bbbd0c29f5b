"""Anabranch, a stream database in Python on Apache Spark.

>>> import anabranch as ab, tempfile
>>> with ab.open(tempfile.mkdtemp(), queries=False) as db:
...     _ = db.sql("CREATE STREAM packets (saddr STRING, length INT, ts TIMESTAMP) TIMESTAMP BY ts")
...     db.append("packets", [{"saddr": "10.0.0.1", "length": 40, "ts": "2026-11-15 12:00:00"}])
1
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from anabranch.archive.reduction import Reducer, Seen
    from anabranch.database import Database
    from anabranch.queries.check import Report
    from anabranch.result import Result

__version__ = "0.1.0"
__all__ = ["AnabranchError", "Database", "Reducer", "Result", "Seen", "__version__", "check", "open"]


def open(
    path: str | os.PathLike[str],
    *,
    spark: Any = None,
    settings: Mapping[str, Any] | None = None,
    queries: bool = True,
    create: bool = True,
) -> Database:
    """Open the database in a directory, making it if it is new.

    Standing queries that were running go on (`queries=False` leaves them alone, for programs that
    only append or read). `spark` is a session to use; without it Spark starts when first needed, on
    the master that the settings name. `settings` are listed in `anabranch.settings`.
    """
    from anabranch.database import Database

    return Database(path, spark=spark, settings=settings, queries=queries, create=create)


def check(path: str | os.PathLike[str], *, repair: bool = False) -> Report:
    """Look through a database that nobody need have open: what is missing or damaged; with `repair` do what is safe."""
    from anabranch.log.storage import Storage
    from anabranch.queries.check import check_database

    return check_database(Storage(os.fspath(path)), repair=repair)


_LOADED_WHEN_ASKED_FOR = {
    "Database": "anabranch.database",
    "Reducer": "anabranch.archive.reduction",
    "Result": "anabranch.result",
    "Seen": "anabranch.archive.reduction",
}
"""Executors and the command line's `--help` do without Arrow and the SQL front end."""


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_ASKED_FOR:
        return getattr(importlib.import_module(_LOADED_WHEN_ASKED_FOR[name]), name)
    raise AttributeError(f"module 'anabranch' has no attribute {name!r}")

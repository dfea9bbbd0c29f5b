"""The only folder that imports pyspark: session, data source, staged answers, running queries.

For PySpark programs: `anabranch.spark.window_join`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.spark.joins import window_join

__all__ = ["window_join"]


def __getattr__(name: str) -> Any:
    if name == "window_join":  # importing pyspark takes a second
        from anabranch.spark.joins import window_join

        return window_join
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""The only folder that imports pyspark: session, data source, staged answers, running queries.

For PySpark programs: `anabranch.spark.window_join` and `anabranch.spark.merge_join`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.spark.joins import window_join
    from anabranch.spark.merges import merge_join

__all__ = ["merge_join", "window_join"]


def __getattr__(name: str) -> Any:  # importing pyspark takes a second
    if name == "window_join":
        from anabranch.spark.joins import window_join

        return window_join
    if name == "merge_join":
        from anabranch.spark.merges import merge_join

        return merge_join
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

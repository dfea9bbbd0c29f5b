"""Running queries: each has its Stream, Store, Scratch and Throw (Babu and Widom 2001, §4.2)."""

from anabranch.queries.query import Query

__all__ = ["Query"]

"""What exists, durably: the streams and standing queries of a database directory."""

from anabranch.catalog.catalog import QUERY_ORIGIN, Catalog, QueryInfo

__all__ = ["QUERY_ORIGIN", "Catalog", "QueryInfo"]

"""What exists, durably: the streams and standing queries of a database directory."""

from anabranch.catalog.catalog import Catalog, QueryInfo

__all__ = ["Catalog", "QueryInfo"]

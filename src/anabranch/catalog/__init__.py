"""What exists, durably: the streams and standing queries of a database directory."""

from anabranch.catalog.catalog import Catalog
from anabranch.catalog.query_info import QueryInfo
from anabranch.catalog.readers import ARCHIVE, QUERY, STREAM, TABLE, VIEW, ObjectName

__all__ = ["ARCHIVE", "QUERY", "STREAM", "TABLE", "VIEW", "Catalog", "ObjectName", "QueryInfo"]

"""Tables and views, as what is known of their changes tells of them."""

from __future__ import annotations

import pyarrow as pa

from anabranch.errors import CatalogError
from anabranch.log.stream import changes_name
from anabranch.sql.standing.sources import Lookup
from anabranch.sql.trees.context import TableColumns, Tables
from anabranch.tables.declaration import NUMBER, RESERVED


def tables_of(lookup: Lookup) -> Tables:
    """The columns of tables and views, by what is known of their changes."""

    def rows_of(name: str) -> TableColumns | None:
        try:
            changes = lookup(changes_name(name))
        except CatalogError:
            return None
        if not changes.key or changes.changes_by is not None:
            return None
        shown = [field for field in changes.arrow if field.name not in (*RESERVED, NUMBER)]
        return TableColumns(pa.schema(shown), () if NUMBER in changes.key else changes.key)

    return rows_of

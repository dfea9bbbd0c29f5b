"""Rows of a host's members whose rest Spark SQL computes: what an engine is asked to make of them."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from anabranch.sql.standing.rest import Rest


class Unfinished(NamedTuple):
    """Rows as an operator gave them, what is still to be done with them, and the columns of the answer."""

    rest: Rest
    rows: pa.Table
    schema: pa.Schema

"""What an engine must know of a source; no pyspark here, so that it can be said before Spark is up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from anabranch.catalog import Catalog
from anabranch.dataspace.access import Access
from anabranch.log.storage import Storage
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.budget import ANY, Budget
from anabranch.operators.pace import PACE, Pace
from anabranch.schema import sql_type
from anabranch.settings import Settings

FORMAT = "anabranch"
"""The name of the data source in Spark."""


BEGIN = "begin.json"
"""Beside Spark's own files of a checkpoint: where it begins, if it is not the first of its query."""


AGAIN = "again.json"
"""Beside that: where micro-batches end whose answers were lost, and are to be the same when they are computed again."""


def ddl(schema: pa.Schema) -> str:
    """An Arrow schema as Spark DDL.

    >>> ddl(pa.schema([("a b", pa.int32())]))
    '`a b` INT'
    """
    return ", ".join(f"`{f.name.replace('`', '``')}` {sql_type(f.type)}" for f in schema)


def options_for(
    operator: Operator, catalog: Catalog, settings: Settings, parallelism: int, **more: Any
) -> SourceOptions:
    """How an engine of some parallelism reads an operator over the streams of a catalog, as they are now.

    `more`: what belongs to a standing query, a DataFrame or a question alone.
    """
    readers = {name: catalog.open_stream(name, history=operator.reads_history) for name in operator.inputs}
    for reader in readers.values():
        reader.refresh()
    return SourceOptions(
        operator=operator.to_json(),
        streams={name: catalog.stream_storage(name).address for name in operator.inputs},
        spark_schema=ddl(operator.schema(Inputs(readers))),
        parallelism=settings["parallelism"] or parallelism,
        batch_rows=settings["batch_rows"],
        poll_ms=settings["poll_ms"],
        inline_bytes=settings["inline_bytes"],
        every=settings["reevaluate_every"],
        every_at_most=settings["reevaluate_at_most"],
        window_memory_bytes=settings["window_memory_bytes"],
        budget=Budget(settings["member_rows"], settings["member_bytes"], settings["member_ms"]),
        access=catalog.access,
        **more,
    )


def frame_scratch(catalog: Catalog, operator: Operator) -> str | None:
    """Where an operator keeps its state when a program reads it as a DataFrame; None if it has none."""
    if not operator.scratch_is_state:
        return None
    # A stream that was made anew has other rows: what was kept of those before is not for it.
    streams = {name: catalog.stream(name).id for name in operator.inputs}
    return catalog.frame_storage(json.dumps([operator.to_json(), streams])).address


@dataclass(frozen=True)
class ArchivedFiles:
    """Files of an archive that Spark reads itself: rows of the times since ≤ t < until, in any order."""

    stream: str
    time: str
    paths: list[str]
    end: int
    """Rows from here on are not in them."""
    since: int | None
    until: int | None


@dataclass(frozen=True)
class SourceOptions:
    """All the source must know; travels through Spark as one JSON text."""

    operator: dict[str, Any]
    streams: dict[str, str]
    """Where each input stream lies, by the name the operator uses."""
    spark_schema: str
    """The answer's columns as Spark DDL."""
    sealed: bool = False
    scratch: str | None = None
    staging: str | None = None
    holder: str | None = None
    """The query that needs rows again; retention keeps them for it."""
    cuts: str | None = None
    """Where the query finds how far it may go (`engine.cuts`); None: as far as it can."""
    parallelism: int = 1
    batch_rows: int = 2_000_000
    poll_ms: int = 40
    inline_bytes: int = 1024 * 1024
    every: int = 1
    every_at_most: int = 0
    """How many of its windows a query answers, see `operators.pace`; a file at `pace` may say otherwise."""
    pace: str | None = None
    window_memory_bytes: int = 1 << 30
    budget: Budget = ANY
    """Of each member of a host."""
    claims_time: bool = False
    """The source itself lets time go on where the operator waits for it: nobody else does for a DataFrame."""
    ends: dict[str, list[Any]] = field(default_factory=dict)
    """For one-time reads: up to where each stream is read, so that all tasks see the same rows."""
    begin: dict[str, list[Any]] | None = None
    """Where a standing query goes on whose checkpoint is a new one; None: where its operator says."""
    again: list[dict[str, list[Any]]] = field(default_factory=list)
    """Where micro-batches ended before that are run again."""
    starts: dict[str, int] = field(default_factory=dict)
    """For one-time reads: rows before this one are left out."""
    access: Access = field(default_factory=Access)
    """What the declarations of the streams may reach."""

    def current_pace(self) -> Pace:
        """How many windows are answered now: what was said last, even while the query runs."""
        said = Storage(self.pace).read_json(PACE) if self.pace else None
        return Pace(**said) if said else Pace(self.every, self.every_at_most)

    def to_options(self) -> dict[str, str]:
        return {"anabranch": json.dumps(asdict(self))}

    @staticmethod
    def from_options(options: Mapping[str, str]) -> SourceOptions:
        fields = json.loads(options["anabranch"])
        access = {name: tuple(listed) for name, listed in fields.pop("access").items()}
        return SourceOptions(**{**fields, "budget": Budget(*fields["budget"])}, access=Access(**access))

"""A data set of a server as a stream: what CREATE STREAM … FROM dataspace says, checked with the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from anabranch.dataspace.access import Access
from anabranch.dataspace.columns import POSITION
from anabranch.dataspace.remote_reader import Place
from anabranch.errors import DataError, did_you_mean
from anabranch.schema import TIME_TYPE, StreamSchema, arrow_type

_PATIENCE = 5.0


def declare(
    columns: Sequence[tuple[str, str]], time: str | None, options: Mapping[str, str], access: Access | None = None
) -> tuple[StreamSchema, dict[str, str]]:
    """The columns of a stream that is a data set, and what is to be kept of its options.

    The columns are the server's unless some are given, which must be among them.
    """
    place = Place(**options)
    known = place.client(access or Access(), _PATIENCE).describe(place.dataset)
    served: dict[str, str] = dict(known["columns"])
    chosen = _chosen(columns, served, place) if columns else served
    time = _time(time, chosen, known, place)
    fields = [pa.field(column, arrow_type(sql)) for column, sql in chosen.items()]
    if time == POSITION:
        fields.append(pa.field(POSITION, TIME_TYPE))
    place = place._replace(identity=known["identity"])
    kept = {key: value for key, value in place._asdict().items() if value is not None}
    return StreamSchema(pa.schema(fields), time), kept


def _chosen(columns: Sequence[tuple[str, str]], served: dict[str, str], place: Place) -> dict[str, str]:
    by_lower = {name.lower(): name for name in served}
    chosen: dict[str, str] = {}
    for name, sql in columns:
        column = by_lower.get(name.lower())
        if column is None:
            raise DataError(
                "COLUMN_NOT_FOUND",
                f'data set "{place.dataset}" has no column "{name}"',
                hint=did_you_mean(name, served),
            )
        if not arrow_type(sql).equals(arrow_type(served[column])):
            raise DataError(
                "TYPE_MISMATCH",
                f'column "{column}" of data set "{place.dataset}" is {served[column]}, {sql} was declared',
                hint="leave the columns out to take the data set's",
            )
        chosen[column] = served[column]
    return chosen


def _time(wanted: str | None, chosen: dict[str, str], known: dict[str, Any], place: Place) -> str:
    if wanted is None:
        return known["time"] if known["time"] in chosen else POSITION
    column = {name.lower(): name for name in chosen}.get(wanted.lower())
    if column is None:
        raise DataError(
            "COLUMN_NOT_FOUND", f'time column "{wanted}" is not among the columns', hint=did_you_mean(wanted, chosen)
        )
    if chosen[column] != "TIMESTAMP":
        raise DataError("TIME_TYPE_MISMATCH", f'time column "{column}" is {chosen[column]}, it must be TIMESTAMP')
    if not known["in_order"].get(column):
        raise DataError(
            "TIME_NOT_IN_ORDER",
            f'times in column "{column}" of data set "{place.dataset}" go back, or some are NULL',
            hint="leave TIMESTAMP BY out: rows then have their position as time, in column _position",
        )
    return column

"""What a table is: its columns, its key, and the log of its changes.

A table exists once the stream of its changes does, `<table>.changes`, which is declared with all there is to know:

    _change   insert, update_before, update_after or delete
    …         the table's columns: the row as it is after the change, or before it
    _version  the number of the statement that made the change, from 1 on
    _time     when it did, by the clock; it never goes back
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from anabranch.errors import DataError, did_you_mean
from anabranch.log.feed import refuse_nested_keys
from anabranch.log.stream import FILE, KEY, REQUIRED, TABLE, StreamInfo, changes_name, changes_owner
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema, arrow_type
from anabranch.tables.origin import Origin

CHANGE, VERSION = "_change", "_version"
INSERT, BEFORE, AFTER, DELETE = "insert", "update_before", "update_after", "delete"
COMES = f"{CHANGE} IN ('{INSERT}', '{AFTER}')"
"""The condition, in SQL, of changes after which the row is there."""
CHANGES_US = 86_400_000_000
"""How long changes of a view are kept where nothing is said."""
NUMBER = "_number"
"""Of a view whose rows have no key: which of several equal rows one is, from 0 on."""
RESERVED = (CHANGE, VERSION, ARRIVAL_COLUMN)
"""The columns that changes have besides those of the table."""


@dataclass(frozen=True)
class TableInfo:
    """The declaration of a table; `required` are the columns that hold no NULL, those of the key among them."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    required: tuple[str, ...]
    retain_us: int | None = None
    id: str = ""
    origin: Origin | None = None
    """The file of which it is a copy; None: statements change it."""

    @staticmethod
    def declare(
        name: str,
        columns: Iterable[tuple[str, str]],
        key: Iterable[str],
        required: Iterable[str] = (),
        retain_us: int | None = None,
        origin: Origin | None = None,
    ) -> TableInfo:
        """A table from SQL type names; names of the key may be spelled in any case."""
        fields: dict[str, pa.Field] = {}
        for column, sql in columns:
            if column.lower() in fields:
                raise DataError("COLUMN_EXISTS", f'column "{column}" is declared twice')
            if column.lower() in (*RESERVED, NUMBER):
                raise DataError(
                    "COLUMN_RESERVED",
                    f'column "{column}" is kept for the changes of the table',
                    hint="give it another name",
                )
            fields[column.lower()] = pa.field(column, arrow_type(sql))
        schema = pa.schema(list(fields.values()))
        whole_key = tuple(_known(schema, part).name for part in key)
        if not whole_key:
            raise DataError("KEY_WANTED", f'table "{name}" has no key', hint="add PRIMARY KEY (column, …)")
        if len(set(whole_key)) < len(whole_key):
            raise DataError("COLUMN_EXISTS", f'a column comes twice in the key of table "{name}"')
        refuse_nested_keys(schema, whole_key)
        said = {_known(schema, column).name for column in required} | set(whole_key)
        return TableInfo(name, schema, whole_key, tuple(n for n in schema.names if n in said), retain_us, origin=origin)

    @staticmethod
    def of(changes: StreamInfo) -> TableInfo:
        """The table whose changes a stream holds."""
        arrow = changes.schema.arrow
        schema = pa.schema([field for field in arrow if field.name not in RESERVED])
        return TableInfo(
            changes_owner(changes.name) or "",
            schema,
            tuple(json.loads(changes.options[KEY])),
            tuple(json.loads(changes.options[REQUIRED])),
            changes.retain_us,
            changes.id,
            Origin.from_text(changes.options[FILE]) if FILE in changes.options else None,
        )

    @property
    def shown(self) -> pa.Schema:
        """The columns that people see: all but the number that tells equal rows of a view apart."""
        return pa.schema([field for field in self.schema if field.name != NUMBER])

    @property
    def changes(self) -> str:
        """The name of the stream of its changes."""
        return changes_name(self.name)

    def stream(self) -> StreamInfo:
        """The stream of its changes."""
        return StreamInfo(
            self.changes,
            StreamSchema(changes_schema(self.schema), ARRIVAL_COLUMN),
            retain_us=self.retain_us,
            origin=TABLE,
            owner=self.name,
            options={
                KEY: json.dumps(list(self.key)),
                REQUIRED: json.dumps(list(self.required)),
                **({} if self.origin is None else {FILE: self.origin.to_text()}),
            },
        )

    def find(self, column: str) -> pa.Field:
        """A column by its name in any case; one that is not there is an error."""
        return _known(self.schema, column, self.name)


def changes_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of a table's changes."""
    return pa.schema(
        [pa.field(CHANGE, pa.string()), *schema, pa.field(VERSION, pa.int64()), pa.field(ARRIVAL_COLUMN, TIME_TYPE)]
    )


def _known(schema: pa.Schema, column: str, table: str | None = None) -> pa.Field:
    by_lower: Mapping[str, pa.Field] = {field.name.lower(): field for field in schema}
    if column.lower() not in by_lower:
        of = "among the columns" if table is None else f'in table "{table}"'
        raise DataError(
            "COLUMN_NOT_FOUND", f'column "{column}" is not {of}', hint=did_you_mean(column, list(schema.names))
        )
    return by_lower[column.lower()]

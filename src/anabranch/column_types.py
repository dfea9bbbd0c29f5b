"""The types of columns: Spark SQL's on the outside and Arrow's on the inside.

`TYPES` is the whole correspondence of plain ones. Arrays and structs hold values of these, or of each other.
"""

from __future__ import annotations

import re
from typing import NoReturn

import pyarrow as pa

from anabranch.errors import DataError

TIME_TYPE = pa.timestamp("us", tz="UTC")

TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": TIME_TYPE,
}
_ALIASES = {
    "BOOL": "BOOLEAN",
    "BYTE": "TINYINT",
    "SHORT": "SMALLINT",
    "INTEGER": "INT",
    "LONG": "BIGINT",
    "REAL": "FLOAT",
    "TEXT": "STRING",
    "VARCHAR": "STRING",
}
_DECIMAL = re.compile(r"DECIMAL\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?", re.IGNORECASE)
_MOST_LEVELS = 32
"""Arrays and structs are not nested deeper: each level takes Python's stack."""
_PART = re.compile(r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<word>\w+(?:\s*\([\d\s,]*\))?)|(?P<mark>[<>,:]))\s*")
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INSTEAD = {"MAP": "write ARRAY<STRUCT<key: …, value: …>>"}


def is_nested(type_: pa.DataType) -> bool:
    """Whether values of a type are made of others: an array or a struct.

    >>> is_nested(pa.list_(pa.int32())), is_nested(pa.string())
    (True, False)
    """
    return bool(pa.types.is_struct(type_) or pa.types.is_list(type_))


def arrow_type(sql: str) -> pa.DataType:
    """The Arrow type of a SQL type's name.

    >>> arrow_type("decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    >>> arrow_type("ARRAY<STRUCT<lat: DOUBLE, lon DOUBLE>>")
    ListType(list<item: struct<lat: double, lon: double>>)
    """
    plain = _plain_type(sql)
    return _Reading(sql).whole() if plain is None else plain


def _plain_type(sql: str) -> pa.DataType | None:
    name = sql.strip().upper()
    name = _ALIASES.get(name, name)
    if name in TYPES:
        return TYPES[name]
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1] or 10), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    return None


class _Reading:
    """A type of several parts, read from the left."""

    def __init__(self, sql: str) -> None:
        self._sql = sql.strip()
        self._parts: list[tuple[str, bool]] = []
        at = 0
        while at < len(self._sql):
            match = _PART.match(self._sql, at)
            if match is None:
                self._refuse()
            quoted = match["quoted"]
            text = quoted[1:-1].replace("``", "`") if quoted else (match["word"] or match["mark"]).strip()
            self._parts.append((text, quoted is not None))
            at = match.end()
        self._next = 0

    def whole(self) -> pa.DataType:
        type_ = self._type(0)
        if self._next < len(self._parts):
            self._refuse()
        return type_

    def _type(self, level: int) -> pa.DataType:
        name, quoted = self._take()
        if quoted:
            self._refuse()
        if name.upper() not in ("ARRAY", "STRUCT"):
            plain = _plain_type(name)
            if plain is None:
                self._refuse(name)
            return plain
        if level == _MOST_LEVELS:
            raise DataError("TYPE_NOT_SUPPORTED", f"a type is nested more than {_MOST_LEVELS} deep")
        self._expect("<")
        type_ = pa.list_(self._type(level + 1)) if name.upper() == "ARRAY" else self._fields(level)
        self._expect(">")
        return type_

    def _fields(self, level: int) -> pa.DataType:
        fields: dict[str, pa.Field] = {}
        while True:
            name, quoted = self._take()
            if not quoted and not _PLAIN_NAME.fullmatch(name):
                self._refuse()
            if name.lower() in fields:
                raise DataError("COLUMN_EXISTS", f'field "{name}" is declared twice')
            self._took(":")
            fields[name.lower()] = pa.field(name, self._type(level + 1))
            if not self._took(","):
                return pa.struct(list(fields.values()))

    def _take(self) -> tuple[str, bool]:
        if self._next == len(self._parts):
            self._refuse()
        self._next += 1
        return self._parts[self._next - 1]

    def _took(self, mark: str) -> bool:
        is_next = self._next < len(self._parts) and self._parts[self._next] == (mark, False)
        self._next += is_next
        return is_next

    def _expect(self, mark: str) -> None:
        if not self._took(mark):
            self._refuse()

    def _refuse(self, part: str | None = None) -> NoReturn:
        """What cannot be read is no type."""
        wrong = part or self._sql
        raise DataError(
            "TYPE_NOT_SUPPORTED",
            f"type {wrong} cannot be the type of a stream's column",
            hint=_INSTEAD.get(
                wrong.partition("<")[0].strip().upper(),
                "use one of " + ", ".join([*TYPES, "DECIMAL(p, s)", "ARRAY<type>", "STRUCT<name: type, …>"]),
            ),
        )


def sql_type(arrow: pa.DataType) -> str:
    """The SQL name of an Arrow type a stream can hold.

    >>> sql_type(pa.int32())
    'INT'
    >>> sql_type(pa.struct([("a b", pa.list_(pa.string()))]))
    'STRUCT<`a b`: ARRAY<STRING>>'
    """
    for name, known in TYPES.items():
        if known.equals(arrow):
            return name
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMP"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision},{arrow.scale})"
    if pa.types.is_large_string(arrow):
        return "STRING"
    if is_list_like(arrow):
        return f"ARRAY<{sql_type(arrow.value_type)}>"
    if pa.types.is_struct(arrow) and arrow.num_fields:
        return f"STRUCT<{', '.join(f'{field_name(field.name)}: {sql_type(field.type)}' for field in arrow)}>"
    raise DataError("TYPE_NOT_SUPPORTED", f"Arrow type {arrow} has no SQL name here")


def is_list_like(type_: pa.DataType) -> bool:
    """Whether an Arrow type is one of those that hold arrays."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def field_name(name: str) -> str:
    """The name of a field as it stands in the name of a type."""
    return name if _PLAIN_NAME.fullmatch(name) else f"`{name.replace('`', '``')}`"


def own_type(type_: pa.DataType) -> pa.DataType:
    """The type that holds the same values here: of what comes in several forms, one; any value may be NULL.

    >>> own_type(pa.large_list(pa.field("element", pa.large_string(), nullable=False)))
    ListType(list<item: string>)
    """
    if pa.types.is_dictionary(type_):
        return own_type(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return TYPES["STRING"]
    if is_list_like(type_):
        return pa.list_(own_type(type_.value_type))
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, own_type(field.type)) for field in type_])
    return type_

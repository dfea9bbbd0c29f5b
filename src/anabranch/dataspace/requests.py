"""What a client may ask for, read from untrusted bytes: small, checked, and nothing but data.

A ticket for rows from a position on, and one for rows in a cube:

    {"dataset": "rain", "columns": ["lat", "mm"], "start": 0, "end": null, "follow": true}

    {"dataset": "floods", "range": {"keys": ["lat", "lon"], "low": [0, 35], "high": [23, 45], "limit": 1000}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from anabranch.errors import DataError

MOST_BYTES = 4 << 20
MOST_KEYS = 16
MOST_CUBES = 10_000
MOST_ROWS = 1_000_000
"""The limit of a range query; larger ones are cut to it, and go on after the last row."""
MOST_BLOCK_ROWS = 1 << 20
_LONGEST_NAME = 512


@dataclass(frozen=True)
class Scan:
    """Rows from a position on, in blocks; with `follow`, also those that come later."""

    dataset: str
    columns: list[str] | None
    start: int
    end: int | None
    follow: bool
    block_rows: int | None
    identity: str | None


@dataclass(frozen=True)
class Ranges:
    """Rows in one or several cubes."""

    dataset: str
    columns: list[str] | None
    keys: tuple[str, ...]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]
    without: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    limit: int
    after: NDArray[np.int64]
    below: int | None
    several: bool
    identity: str | None


def read_ticket(data: bytes) -> Scan | Ranges:
    """The request in a ticket."""
    fields = _object(data, "a ticket")
    common: dict[str, Any] = {
        "dataset": _text(fields.pop("dataset", None), "dataset"),
        "columns": _names(fields.pop("columns", None), "columns"),
        "identity": _optional_text(fields.pop("identity", None), "identity"),
    }
    if "range" in fields or "ranges" in fields:
        several = "ranges" in fields
        ranges = fields.pop("ranges" if several else "range")
        _nothing_else(fields)
        return _ranges(ranges, several, common)
    scan = Scan(
        start=_natural(fields.pop("start", 0), "start"),
        end=_optional_natural(fields.pop("end", None), "end"),
        follow=_flag(fields.pop("follow", False), "follow"),
        block_rows=_optional_natural(fields.pop("block_rows", None), "block_rows"),
        **common,
    )
    if scan.block_rows is not None and not 1 <= scan.block_rows <= MOST_BLOCK_ROWS:
        _refuse(f"block_rows is {scan.block_rows}, it must be from 1 to {MOST_BLOCK_ROWS}")
    if scan.columns == []:
        _refuse("columns must have at least one name")
    _nothing_else(fields)
    return scan


def _ranges(fields: Any, several: bool, common: dict[str, Any]) -> Ranges:
    if not isinstance(fields, dict):
        _refuse("a range is an object")
    fields = dict(fields)
    keys = _names(fields.pop("keys", None), "keys")
    if not keys or len(keys) > MOST_KEYS or len(set(keys)) < len(keys):
        _refuse(f"a range has from 1 to {MOST_KEYS} different keys")
    lows = _corners(fields.pop("low", None), len(keys), several, "low")
    highs = _corners(fields.pop("high", None), len(keys), several, "high")
    if len(lows) != len(highs):
        _refuse(f"there are {len(lows)} low corners for {len(highs)} high ones")
    cut = fields.pop("without", None)
    without = None
    if cut is not None:
        if not isinstance(cut, dict) or set(cut) != {"low", "high"}:
            _refuse("without is an object with low and high")
        without = (
            _corners(cut["low"], len(keys), several, "low of without"),
            _corners(cut["high"], len(keys), several, "high of without"),
        )
        if len(without[0]) != len(lows) or len(without[1]) != len(lows):
            _refuse("without has as many corners as there are ranges")
    limit = _natural(fields.pop("limit", 1000), "limit")
    if limit < 1:
        _refuse("limit is 0, it must be at least 1")
    after = fields.pop("after", None)
    afters = [-1] * len(lows) if after is None else after if several else [after]
    if not isinstance(afters, list) or len(afters) != len(lows):
        _refuse("after is a row number for each range")
    below = _optional_natural(fields.pop("below", None), "below")
    _nothing_else(fields)
    numbers = np.array([-1 if row == -1 else _natural(row, "after") for row in afters], np.int64)
    return Ranges(
        keys=tuple(keys),
        lows=lows,
        highs=highs,
        without=without,
        limit=min(limit, MOST_ROWS),
        after=numbers,
        below=below,
        several=several,
        **common,
    )


def read_action(data: bytes) -> tuple[str, dict[str, Any]]:
    """The data set an action is about, and the action's other arguments."""
    fields = _object(data, "the body of an action")
    return _text(fields.pop("dataset", None), "dataset"), fields


def time_argument(fields: dict[str, Any], *, needed: bool = False) -> str | None:
    value = fields.pop("time", None)
    return _text(value, "time") if needed or value is not None else None


def whole(fields: dict[str, Any], name: str) -> int:
    """An argument that is a whole number of 64 bits."""
    value = fields.pop(name, None)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        _refuse(f"{name} must be a whole number")
    return value


def nothing_else(fields: dict[str, Any]) -> None:
    _nothing_else(fields)


def refuse_empty(what: str) -> NoReturn:
    """An error for a request that has nothing in it: the gate has taken out what was too large."""
    raise DataError(
        "REQUEST_TOO_LARGE",
        f"{what} is empty, or had more than {MOST_BYTES} bytes or was compressed",
        hint="ask in several parts, without compression",
    )


def _object(data: bytes, what: str) -> dict[str, Any]:
    if not data:
        refuse_empty(what)
    if len(data) > MOST_BYTES:
        raise DataError(
            "REQUEST_TOO_LARGE", f"{what} has {len(data)} bytes, {MOST_BYTES} are allowed", hint="ask in several parts"
        )
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        _refuse(f"{what} is not JSON")
    if not isinstance(fields, dict):
        _refuse(f"{what} is not an object")
    return fields


def _corners(value: Any, dimensions: int, several: bool, what: str) -> NDArray[np.float64]:
    rows = value if several else [value]
    if not isinstance(rows, list) or not 1 <= len(rows) <= MOST_CUBES:
        _refuse(f"{what} must have from 1 to {MOST_CUBES} corners")
    try:
        corners = np.array(rows)
    except ValueError:  # some are longer than others
        corners = np.empty(0)
    if corners.shape != (len(rows), dimensions):
        _refuse(f"{what} must have a number for each of the {dimensions} keys")
    if corners.dtype.kind not in "iuf" or not np.isfinite(corners).all():
        _refuse(f"{what} must be of finite numbers")
    return corners.astype(np.float64)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= _LONGEST_NAME:
        _refuse(f"{what} must be a name of 1 to {_LONGEST_NAME} characters")
    return value


def _optional_text(value: Any, what: str) -> str | None:
    return None if value is None else _text(value, what)


def _names(value: Any, what: str) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > 4096 or not all(isinstance(name, str) for name in value):
        _refuse(f"{what} must be a list of names")
    if len(set(value)) < len(value):
        _refuse(f"{what} has a name twice")
    return value


def _natural(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        _refuse(f"{what} must be a whole number from 0")
    return value


def _optional_natural(value: Any, what: str) -> int | None:
    return None if value is None else _natural(value, what)


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{what} must be true or false")
    return value


def _nothing_else(fields: dict[str, Any]) -> None:
    if fields:
        _refuse(f'"{next(iter(fields))[:80]}" is not known')


def _refuse(message: str) -> NoReturn:
    raise DataError("REQUEST_NOT_UNDERSTOOD", message, hint="docs/dataspace.md says what a request looks like")

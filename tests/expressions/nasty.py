"""A table of values that tend to be treated differently by different engines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from anabranch.schema import TIME_TYPE

NAN, INF = float("nan"), float("inf")
DAY = 86_400_000_000

_STRUCT = pa.struct([("x", pa.int32()), ("y z", pa.string()), ("in", pa.struct([("q", pa.list_(pa.float64()))]))])

COLUMNS: dict[str, tuple[pa.DataType, list[object]]] = {
    "b": (pa.bool_(), [True, False, None]),
    "b2": (pa.bool_(), [None, None, True, True, False]),
    "i8": (pa.int8(), [0, 1, -1, 127, -128, None, 100]),
    "i16": (pa.int16(), [0, 2, -1, 32767, -32768, None]),
    "i": (pa.int32(), [0, 1, -1, 2**31 - 1, -(2**31), None, 1000, 7, -7, 16777217]),
    "i2": (pa.int32(), [2, 0, -1, 3, -(2**31), -3, None]),
    "l": (pa.int64(), [0, -1, 2**63 - 1, -(2**63), None, 2**53 + 1, 5, -5, 16777217]),
    "l2": (pa.int64(), [-1, 2, 0, None, -1, 3]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, NAN, INF, -INF, None, 0.1, 3.4e38, -2.5, 16777217.0]),
    "d": (
        pa.float64(),
        [
            *(0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, NAN, INF, -INF, None, 0.1, 1e300, -1e300, 5e-324),
            *(0.49999999999999994, 4503599627370497.5, 9.223372036854775e18, 9.3e18, -9.3e18, 2147483647.5),
            *(-2147483649.0, 1000.0),
        ],
    ),
    "d2": (pa.float64(), [NAN, 0.0, 2.0, -3.0, None, INF, -0.0, 0.7]),
    "s": (
        pa.string(),
        [
            *("", "a", "10.1.2.3", None, "  a b\t ", "é😀x", "A", "ab\ncd", "10x"),
            *("ß", "%_", "xax", "\\", "aXbX", "ﬀ", "日本語"),
        ],
    ),
    "s2": (pa.string(), ["a", "", None, "é", "10.1.2.3", "z"]),
    "ts": (
        TIME_TYPE,
        [
            *(0, -1, 1, 1_500_000, -1_500_000, None, 3 * DAY, 4 * DAY, 1_577_836_800_000_000),
            *(-62_135_596_800_000_000, 253_402_300_799_999_999, 951_782_399_999_999, -11_644_473_600_000_001),
            788_922_246_610_079_975,
        ],
    ),
    "ts2": (TIME_TYPE, [1_577_836_800_000_000, 0, None, -1]),
    "dt": (pa.date32(), [0, -1, None, 18262, -719162, 2932896, 11016, -134774]),
    "n": (pa.decimal128(10, 2), [Decimal("0.00"), Decimal("1.50"), None, Decimal("-99999999.99"), Decimal("1000.00")]),
    "m": (
        pa.decimal128(30, 10),
        [Decimal("1.0123456789"), None, Decimal("-0.0000000001"), Decimal("12345678901234567890.5"), Decimal("1000")],
    ),
    "r": (pa.decimal128(12, 3), [Decimal("1.500"), Decimal("-7.125"), None, Decimal("999999999.999"), Decimal("0")]),
    "w": (
        pa.decimal128(38, 2),
        [
            Decimal("1.50"),
            Decimal("-7.13"),
            None,
            Decimal("1000000000.00"),
            Decimal("12345678901234567890123456789.1"),
        ],
    ),
    "raw": (pa.binary(), [b"", b"\xff\x00", None, b"a"]),
    "raw2": (pa.binary(), [b"\x7f", None, b"a"]),
    "missing": (pa.int32(), [None]),
    "xs": (pa.list_(pa.int32()), [[1, 2], None, [], [None], [2, None, 1], [1], [0, 0, 0, 0], [2**31 - 1]]),
    "xs2": (pa.list_(pa.int32()), [[1], [1, 2], [], None, [None], [2, None]]),
    "ds": (pa.list_(pa.float64()), [[0.0, NAN], [-0.0], None, [], [None, 1.5], [INF, 0.5, None], [NAN, NAN]]),
    "ds2": (pa.list_(pa.float64()), [[-0.0, NAN], [0.0], [NAN], None, [1.5, None]]),
    "ws": (pa.list_(pa.string()), [["a", ""], None, [], [None, "é"], ["10.1.2.3"], ["a", None, "a"]]),
    "st": (
        _STRUCT,
        [
            {"x": 1, "y z": "a"},
            None,
            {"x": None, "y z": None},
            {"x": 2, "y z": "é", "in": {"q": [NAN]}},
            {"in": {}},
            {"x": 1, "y z": "a", "in": {"q": [-0.0, None]}},
        ],
    ),
    "st2": (_STRUCT, [{"x": 1, "y z": "a", "in": {"q": [0.0, None]}}, {"x": 1, "y z": "a"}, {}, None]),
    "sts": (pa.list_(pa.struct([("x", pa.int32())])), [[{"x": 1}, None], None, [], [{"x": None}, {"x": 7}]]),
    "xss": (pa.list_(pa.list_(pa.int32())), [[[1], None, []], None, [[None, 2]], []]),
}
ROWS = 97
"""A prime, and the columns have different lengths, so that every value meets every other sooner or later."""


def _repeated(type: pa.DataType, values: list[object], step: int) -> pa.Array:
    chosen = [values[(row // step + row) % len(values)] for row in range(ROWS)]
    if type.equals(pa.date32()):
        return pa.array(chosen, pa.int32()).cast(type)
    if type.equals(TIME_TYPE):
        return pa.array(chosen, pa.int64()).cast(type)
    return pa.array(chosen, type)


def table() -> pa.Table:
    """The table, in chunks of different sizes, some of them slices."""
    steps = {name: 3 + index for index, name in enumerate(COLUMNS)}
    whole = pa.table({name: _repeated(type, values, steps[name]) for name, (type, values) in COLUMNS.items()})
    return pa.concat_tables([whole.slice(0, 1), whole.slice(1, 0), whole.slice(1, 40), whole.slice(41)])


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)

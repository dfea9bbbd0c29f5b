"""Window joins by sorting and searching in NumPy: what every contender's answer is compared with, beside DuckDB's.

It knows nothing of batches or time that passes: all rows are there at once, in order of (key, time), so the partners
of a row are a run of that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from benchmarks.window_join.data import START, Answer, Ints, answer_of


def joined(tables: Sequence[pa.Table], windows: Mapping[tuple[int, int], int], key: str = "k") -> list[Ints]:
    """Row numbers of each stream, one place per result.

    `windows` has milliseconds for each bound pair (i, j), i < j, and must bind each stream to one before it.
    """
    rows: list[Ints] = [np.arange(tables[0].num_rows)]
    times = [table.column("ts").cast(pa.int64()).to_numpy() // 1000 - START for table in tables]
    keys = [table.column(key).to_numpy() for table in tables]
    for j in range(1, len(tables)):
        bound = [(i, window) for (i, to), window in windows.items() if to == j]
        first, window = bound[0]
        # Keys are further apart than times and a window together, so no window reaches into the next key.
        wide = int(max(times[first].max(), times[j].max())) + 2 * window + 1
        order = np.argsort(keys[j] * wide + times[j], kind="stable")
        places = (keys[j] * wide + times[j])[order]
        at = (keys[first] * wide + times[first])[rows[first]]
        low, high = np.searchsorted(places, at - window, "left"), np.searchsorted(places, at + window, "right")
        found = np.repeat(np.arange(len(at)), high - low)
        partner = order[np.arange(len(found)) - np.repeat(np.cumsum(high - low) - high, high - low)]
        keep = np.ones(len(found), np.bool_)
        for i, window in bound[1:]:
            keep &= np.abs(times[j][partner] - times[i][rows[i][found]]) <= window
        rows = [*(each[found[keep]] for each in rows), partner[keep]]
    return rows


def equal_keys(tables: Sequence[pa.Table], windows: Mapping[tuple[int, int], int]) -> Answer:
    """The answer of the join on equal keys."""
    return _answer(tables, joined(tables, windows))


def near_values(tables: Sequence[pa.Table], window: int, width: float) -> Answer:
    """The answer of the join on |x − y| ≤ `width`: by buckets a little wider, each with its neighbours."""
    a, b = (
        table.append_column("k", [np.floor(table.column("x").to_numpy() / (1.001 * width)).astype(int)])
        for table in tables
    )
    x, y = (table.column("x").to_numpy() for table in tables)
    total = np.zeros(2, np.int64)
    for step in (-1, 0, 1):
        moved = b.set_column(b.column_names.index("k"), "k", [b.column("k").to_numpy() + step + 1])
        plain = a.set_column(a.column_names.index("k"), "k", [a.column("k").to_numpy() + 1])
        left, right = joined([plain, moved], {(0, 1): window})
        near = np.abs(x[left] - y[right]) <= width
        total += _answer(tables, [left[near], right[near]])
    return Answer(*map(int, total))


def _answer(tables: Sequence[pa.Table], rows: Sequence[Ints]) -> Answer:
    return answer_of([table.column("v").to_numpy()[each] for table, each in zip(tables, rows, strict=True)])

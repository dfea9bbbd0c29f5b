"""Questions of five attributes none of which is selective: each looked up by one of them, all as bits, and as chosen.

    python -m benchmarks.many_queries.attributes [questions] [rows]

Rows have eight columns; each question asks of five of them for a third to a half of their values. What each way finds
is compared with the others, and of some rows with the definition.
"""

from __future__ import annotations

import sys
import time
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from anabranch.kernels import questions
from anabranch.kernels.questions import Intervals, Matches, QuestionIndex
from benchmarks.harness import check, say

Codes = list[NDArray[np.int64]]
COLUMNS = {
    "few values": (4, 5, 6, 7, 8, 9, 10, 10),
    "few combinations": (2, 2, 3, 3, 4, 4, 2, 2),
    "many values": (4, 5, 6, 7, 20_000, 20_000, 20_000, 20_000),
}
ASKED, REPEATS, LOOKED_AT = 5, 3, 20
WAYS = {"looked up": 1e9, "as bits": -1e9, "as chosen": questions._LINE}
"""What a line of bits is said to cost."""


def asked_about(count: int, values: tuple[int, ...]) -> Intervals:
    """Ranges, and of columns with few values half the time some values that are not beside each other."""
    chance = np.random.default_rng(5)
    rows = []
    for question in range(count):
        for column in chance.choice(len(values), ASKED, replace=False).tolist():
            most = values[column]
            wanted = max(1, round(chance.uniform(0.3, 0.5) * most))
            if most < 100 and chance.random() < 0.5:
                some = np.sort(chance.choice(most, wanted, replace=False)).tolist()
                rows += [(question, column, value, value) for value in some]
            else:
                low = int(chance.integers(0, most - wanted + 1))
                rows.append((question, column, low, low + wanted - 1))
    return Intervals(*np.array(rows, np.int64).T)


def wanted_by(asked: Intervals, codes: Codes, row: int, count: int) -> NDArray[np.int64]:
    """The questions that want a row, by looking at each interval of each."""
    value = np.array([column[row] for column in codes])[asked.column]
    inside = (asked.low <= value) & (value <= asked.high)
    return np.flatnonzero(np.bincount(asked.question[inside], minlength=count) == ASKED)


def measure(count: int, rows: int, values: tuple[int, ...]) -> dict[str, float]:
    """Rows a second of processor time, each way."""
    chance = np.random.default_rng(6)
    codes = [chance.integers(0, most, rows) for most in values]
    asked = asked_about(count, values)
    found: dict[str, Matches] = {}
    speeds = {}
    for way, line in WAYS.items():
        with patch.object(questions, "_LINE", line):
            index = QuestionIndex(count, asked, codes)
            best = 0.0
            for _ in range(REPEATS):
                began = time.process_time()
                found[way] = index.match(codes)
                best = max(best, rows / (time.process_time() - began))
        speeds[way] = best
    first = found["looked up"]
    for way, matches in found.items():
        same = np.array_equal(matches.question, first.question) and np.array_equal(matches.row, first.row)
        check(same, f"{way} finds something else")
    for row in range(0, rows, rows // LOOKED_AT):
        mine = np.sort(first.question[first.row == row])
        check(np.array_equal(mine, wanted_by(asked, codes, row, count)), f"row {row}: other questions want it")
    return speeds


def main() -> None:
    given = [int(number) for number in sys.argv[1:]]
    count, rows = [*given, *(10_000, 100_000)[len(given) :]]
    for name, values in COLUMNS.items():
        speeds = measure(count, rows, values)
        told = ", ".join(f"{way} {speed:,.0f}" for way, speed in speeds.items())
        say(f"{count:,} questions, {name}: {told} rows/s")


if __name__ == "__main__":
    main()

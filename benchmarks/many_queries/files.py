"""Rows and questions as other engines read them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, parquet

from benchmarks.many_queries.conditions import Epl
from benchmarks.many_queries.questions import Question
from benchmarks.many_queries.rows import EVENTS, Fed, events, rows

CUT = 100_000
"""Rows are made so many at a time, here as in a backlog: what is in them depends on it."""
FILES = 2
"""Of Parquet for each second, one for each core."""


def cuts(first: int, count: int) -> list[tuple[int, int]]:
    """Where the parts of `count` rows begin, and how many rows they have."""
    return [(at, min(CUT, first + count - at)) for at in range(first, first + count, CUT)]


def write_rows(folder: Path, first: int, count: int, per_second: int) -> Fed:
    """Rows of both streams: lines with the time in milliseconds, and Parquet by the second."""
    made = [[make(at, part, per_second) for at, part in cuts(first, count)] for make in (rows, events)]
    for name, tables, each_second in zip("se", made, (per_second, per_second // EVENTS), strict=True):
        table = pa.concat_tables(tables)
        milliseconds = table.column("at").cast(pa.int64()).to_numpy() // 1000
        lines = table.set_column(table.column_names.index("at"), "at", pa.array(milliseconds))
        plain = csv.WriteOptions(include_header=False, quoting_style="none")
        csv.write_csv(lines, folder / f"{name}.csv", plain)
        (folder / name).mkdir()
        for number in range(FILES * (table.num_rows // each_second)):
            second, part = divmod(number, FILES)
            low, high = (second * each_second + each_second * end // FILES for end in (part, part + 1))
            path = folder / name / f"{second:04d}-{part}.parquet"
            parquet.write_table(table.slice(low, high - low), path, compression="none")
    return Fed.of(*made)


def write_questions(folder: Path, name: str, questions: Sequence[Question]) -> None:
    """A file for each language, a line for each question."""
    languages = {
        "spark": [question.spark() for question in questions],
        "flink": [question.flink() for question in questions],
        "epl": [_line(question.epl()) for question in questions],
    }
    for language, lines in languages.items():
        (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _line(epl: Epl) -> str:
    """The text with its parameters named p1, p2, …, and each constant with a letter for its type, tabs between."""
    numbers = itertools.count(1)
    text = re.sub(r"\?:", lambda _: f"?:p{next(numbers)}", epl.text)
    types = re.findall(r"\?::(\w)", epl.text)
    constants = [f"{type}{constant}" for type, constant in zip(types, epl.constants, strict=True)]
    return "\t".join([text, *constants])

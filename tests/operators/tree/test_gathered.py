"""Rows known by places against tables from which all is taken at once."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa

from anabranch.operators.tree.gathered import Gathered
from tests.sampling import SEED

SCHEMA = pa.schema([("i", pa.int64()), ("s", pa.string())])


def some(draw: random.Random) -> pa.Table:
    count = draw.randrange(6)
    numbers = [draw.choice([None, *range(5)]) for _ in range(count)]
    return pa.table({"i": numbers, "s": [None if n is None else f"text {n}" for n in numbers]}, SCHEMA)


def places(draw: random.Random, count: int) -> np.ndarray:
    return np.array([draw.randrange(count) for _ in range(draw.randrange(8) if count else 0)], np.int64)


def step(draw: random.Random, rows: Gathered, table: pa.Table) -> tuple[Gathered, pa.Table]:
    if draw.random() < 0.3 and len(rows):
        rows.column("s")  # what was looked at is known
    match draw.choice(["take", "filter", "together", "columns", "beside"]):
        case "take":
            at = places(draw, len(rows))
            return rows.take(at), table.take(pa.array(at))
        case "filter":
            kept = np.array([draw.random() < 0.7 for _ in range(len(rows))], np.bool_)
            return rows.filter(kept), table.filter(pa.array(kept))
        case "together":
            more = some(draw)
            other = Gathered.of(more)
            if draw.random() < 0.5:
                at = places(draw, more.num_rows)
                other, more = other.take(at), more.take(pa.array(at))
            parts = [(rows, table), (other, more)]
            draw.shuffle(parts)
            return Gathered.together([part for part, _ in parts]), pa.concat_tables([each for _, each in parts])
        case "columns":
            values = pa.array([f"new {n}" for n in range(len(rows))], pa.string())
            wanted = [table.column("i"), values] if draw.random() < 0.5 else [table.column("i"), table.column("s")]
            chosen = [0, values if wanted[1] is values else 1]
            return rows.with_columns(SCHEMA, chosen), pa.Table.from_arrays(wanted, schema=SCHEMA)
        case _:
            other = Gathered.of(table).take(np.arange(len(rows)))
            four = rows.beside(other, pa.schema([*SCHEMA, ("i2", pa.int64()), ("s2", pa.string())]))
            return four.with_columns(SCHEMA, [2, 1]), table


def test_whatever_is_done_with_rows_they_are_those_of_a_table() -> None:
    for seed in range(60):
        draw = random.Random(f"{SEED} {seed}")
        table = some(draw)
        rows = Gathered.of(table)
        for _ in range(8):
            rows, table = step(draw, rows, table)
            assert len(rows) == table.num_rows
            at = places(draw, len(rows))
            name = draw.choice(SCHEMA.names)
            assert rows.taken(name, at).to_pylist() == table.column(name).take(pa.array(at)).to_pylist()
            if draw.random() < 0.5:
                assert rows.table().equals(table)
        assert rows.table(["s"]).equals(table.select(["s"]))


def test_rows_without_columns_are_still_so_many() -> None:
    rows = Gathered.of(pa.table({"a": [1, 2, 3]}).select([]))
    assert len(rows.take(np.array([0, 2]))) == 2
    assert rows.filter(np.array([True, False, False])).table().num_rows == 1

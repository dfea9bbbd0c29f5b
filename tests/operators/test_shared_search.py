"""What joins have in common: found by what they are, and rows that nobody wants are left out."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators.columns import bind
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.together import meeting
from anabranch.operators.together.wanted import wanted_by
from anabranch.operators.windows.aggregate import WindowAggregate
from tests.sampling import SEED

SCHEMA = pa.schema([("c", pa.int32()), ("x", pa.float64()), ("t", pa.string())])
ATOMS = (
    "c = {}", "c < {}", "c IN ({}, 3)", "c IS NULL", "x >= {}", "x < {}", "t = 'a'", "t LIKE 'b%'", "t IS NOT NULL",
)  # fmt: skip


def a_table(chance: random.Random, rows: int = 60) -> pa.Table:
    columns = [
        [chance.choice([None, *range(6)]) for _ in range(rows)],
        [chance.choice([None, 0.0, -0.0, 1.0, 2.5, float("nan")]) for _ in range(rows)],
        [chance.choice([None, "", "a", "b", "ba", "c"]) for _ in range(rows)],
    ]
    return pa.Table.from_arrays([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def a_condition(chance: random.Random, least: int = 0) -> frozenset[Atom]:
    written = chance.sample(ATOMS, chance.randrange(least, 3))
    return frozenset(atoms_of(" AND ".join(sql.format(chance.randrange(5)) for sql in written) or None, SCHEMA))


def rows_of(condition: frozenset[Atom], table: pa.Table) -> set[int]:
    """The rows that a condition wants, atom by atom."""
    wanted = set(range(table.num_rows))
    for atom in condition:
        bound = wanted_by(frozenset([frozenset([atom])]), None, SCHEMA)
        assert bound is not None
        wanted &= {row for row, kept in enumerate(bound.evaluate(table).to_pylist()) if kept}
    return wanted


@pytest.mark.parametrize("round_", range(40))
def test_rows_that_anybody_wants_pass(round_: int) -> None:
    chance = random.Random(f"{SEED} {round_}")
    table = a_table(chance)
    conditions = frozenset(a_condition(chance) for _ in range(chance.randrange(1, 6)))
    where = chance.choice([None, bind("c + 1 > 2", SCHEMA)])
    bound = wanted_by(conditions, where, SCHEMA)
    every = set(range(table.num_rows))
    passed = every if bound is None else {row for row, kept in enumerate(bound.evaluate(table).to_pylist()) if kept}
    allowed = every if where is None else {n for n, kept in enumerate(where.evaluate(table).to_pylist()) if kept}
    wanted = set().union(*(rows_of(condition, table) for condition in conditions))
    assert wanted & allowed <= passed <= allowed
    if all(len(condition) == 1 for condition in conditions) or len(conditions) == 1:
        assert passed == wanted & allowed


@pytest.mark.parametrize("sql", [sql.format(2) for sql in ATOMS])
def test_one_atom_wants_what_it_says(sql: str) -> None:
    table = a_table(random.Random(sql))
    bound = wanted_by(frozenset([frozenset(atoms_of(sql, SCHEMA))]), None, SCHEMA)
    assert bound is not None
    expected = [bool(value) for value in bind(sql, SCHEMA).evaluate(table).to_pylist()]
    assert bound.evaluate(table).to_pylist() == expected


def test_other_conditions_have_another_name_and_the_same_ones_the_same() -> None:
    one, two = (frozenset(atoms_of(f"c = {number}", SCHEMA)) for number in (1, 2))
    names = [wanted_by(frozenset(some), None, SCHEMA) for some in ([one], [two], [one, two], [two, one])]
    assert len({bound.sql for bound in names if bound is not None}) == 3


@pytest.mark.parametrize("round_", range(30))
def test_rows_that_somebody_wants_together_have_equal_parts(round_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meeting, "_LEAST_PARTS", 1)
    chance = random.Random(f"{SEED} parts {round_}")
    tables = [a_table(chance) for _ in range(3)]
    members = [[a_condition(chance, least=1) for _ in tables] for _ in range(chance.randrange(2, 6))]
    parts = meeting.parts_of(members, ["s0", "s1", "s2"], [SCHEMA] * 3)
    numbers = {
        source: part.evaluate(table.rename_columns([f"s{source}.{name}" for name in SCHEMA.names])).to_pylist()
        for source, part in parts.items()
        for table in [tables[source]]
    }
    for member in members:
        wanted = {source: rows_of(member[source], tables[source]) for source in numbers}
        if all(wanted.values()):
            assert len({numbers[source][row] for source, rows in wanted.items() for row in rows}) <= 1


def test_constants_that_go_together_are_told_apart() -> None:
    members = [[frozenset(atoms_of(f"c = {n}", SCHEMA)), frozenset(atoms_of(f"c = {n + 1}", SCHEMA))] for n in range(5)]
    parts = meeting.parts_of(members, ["s0", "s1"], [SCHEMA] * 2)
    first, second = (
        parts[source].evaluate(pa.table({f"s{source}.c": pa.array(range(6), pa.int32())})).to_pylist()
        for source in range(2)
    )
    assert first[:5] == second[1:]
    assert len(set(first[:5])) == 5
    independent = [[a, b] for a, _ in members for _, b in members]
    assert meeting.parts_of(independent, ["s0", "s1"], [SCHEMA] * 2) == {}


def a_join(sources: tuple[tuple[str, str, str | None], ...], *conditions: str, **more: object) -> WindowJoin:
    first, second = (alias for alias, *_ in sources)
    columns = (("one", f"`{first}.x`"), ("other", f"`{second}.x` + 1"), ("_time", "_time"))
    return WindowJoin(sources, "time", ((0, 1, -5, 5),), conditions, columns, "_time", **more)  # type: ignore[arg-type]


def test_a_join_is_the_same_however_it_is_written() -> None:
    one = a_join((("A", "a", "c = 1 AND x > 2"), ("B", "b", None)), "`A.k` = `B.k`", "`A.x` > `B.x`")
    other = a_join((("p", "a", "2 < x AND (1 = c)"), ("A", "b", None)), "`A.x` < `p.x`", "`A.k` = `p.k`")
    assert one.canonical() == other.canonical()
    assert one.canonical() == one.canonical().canonical()
    turned = a_join((("B", "b", None), ("A", "a", "c = 1 AND x > 2")), "`A.k` = `B.k`", "`A.x` > `B.x`").canonical()
    assert turned != one.canonical()  # results of the same time come in another order
    assert turned.conditions == one.canonical().conditions
    assert a_join((("A", "a", None), ("B", "b", None)), "`A.k` = `B.x`").canonical() != one.canonical()
    self_join = a_join((("A", "a", None), ("B", "a", None)), "`A.x` > `B.x`")
    assert self_join.canonical() != replace(self_join, conditions=("`A.x` < `B.x`",)).canonical()


def test_names_of_sources_that_leave_columns_open_stay_as_they_are() -> None:
    join = a_join((("a", "a", None), ("a.b", "b", None)), "`a.k` = `a.b.k`")
    assert join.canonical().aliases() == ("a", "a.b")


def test_aggregates_are_the_same_whatever_their_columns_are_called() -> None:
    join = a_join((("A", "a", None), ("B", "b", None)), "`A.k` = `B.k`")

    def summed(inner: WindowJoin, alias: str, name: str) -> WindowJoinAggregate:
        keys = ((f"{alias}.k", f"`{alias}.k`"),)
        aggregates = ((f"sum({alias}.x)", "sum", f"`{alias}.x`"),)
        columns = (("k", f"`{alias}.k`"), (name, f"`sum({alias}.x)` * 2"), ("_time", "window_end"))
        return WindowJoinAggregate(inner, 60, keys, aggregates, columns, "_time", having=f"`sum({alias}.x)` > 1")

    renamed = replace(
        join, sources=(("p", "a", None), ("q", "b", None)), columns=(("_time", "_time"),), conditions=("`q.k` = `p.k`",)
    )
    one, other = summed(replace(join, columns=renamed.columns), "A", "s"), summed(renamed, "p", "total")
    assert one.canonical() == other.canonical()
    assert one.canonical() != summed(replace(join, columns=renamed.columns), "B", "s").canonical()


def test_windows_are_the_same_whatever_their_columns_are_called() -> None:
    one = WindowAggregate(
        "s", "time", 10, 10, (), (("n", "count", None),), (("n", "n"), ("_time", "_time")), "_time", "a = 1 AND b > a"
    )
    other = replace(one, columns=(("how_many", "n"), ("at", "_time")), time="at", filter="(a < b) AND 1 = a")
    assert one.canonical() == other.canonical()
    assert one.canonical() != replace(one, filter="a = 1 AND b >= a").canonical()

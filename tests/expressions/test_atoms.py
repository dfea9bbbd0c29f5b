"""Conditions cut into atoms want the rows for which Spark calls them TRUE."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.expressions import compile
from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators.together.coding import Coding, Numbers, Texts
from tests.expressions import nasty
from tests.sampling import examples

TABLE = nasty.table().combine_chunks()
CONSTANTS = {
    "b": ["TRUE", "FALSE", "NULL"],
    "i8": ["0", "-1", "127", "-128", "100", "NULL"],
    "i": ["0", "1", "-1", "2147483647", "-2147483648", "7L", "1000.0", "NULL"],
    "l": ["0", "-1", "9223372036854775807", "5", "16777217", "NULL"],
    "d": ["0", "-0.0D", "0.5", "1e300", "2.5D", "1000", "NULL"],
    "f": ["0", "1.5", "-2.5D", "NULL"],
    "s": ["''", "'a'", "'A'", "'10x'", "'é😀x'", "'日本語'", "NULL"],
    "ts": ["TIMESTAMP '1970-01-01 00:00:00'", "TIMESTAMP '2020-01-01 00:00:00'", "NULL"],
    "dt": ["DATE '1970-01-01'", "DATE '2020-01-01'", "NULL"],
}


@st.composite
def conditions(draw: st.DrawFn, column: str, depth: int = 2) -> str:
    """A condition on one column."""
    constant = st.sampled_from(CONSTANTS[column])
    if depth and draw(st.booleans()):
        parts = [draw(conditions(column, depth - 1)) for _ in range(draw(st.integers(1, 3)))]
        joined = draw(st.sampled_from([" AND ", " OR "])).join(f"({part})" for part in parts)
        return draw(st.sampled_from(["", "NOT "])) + f"({joined})"
    kinds = [
        "compare",
        "flipped",
        "between",
        "in",
        "null",
        *(["like"] if column == "s" else []),
        *(["itself"] * (column == "b")),
    ]
    kind, no = draw(st.sampled_from(kinds)), draw(st.sampled_from(["", "NOT "]))
    sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    match kind:
        case "compare":
            return f"{column} {sign} {draw(constant)}"
        case "flipped":
            return f"{draw(constant)} {sign} {column}"
        case "between":
            return f"{column} {no}BETWEEN {draw(constant)} AND {draw(constant)}"
        case "in":
            return f"{column} {no}IN ({', '.join(draw(st.lists(constant, min_size=1, max_size=4)))})"
        case "like":
            return f"s {no}LIKE '{draw(st.sampled_from(['', 'a', '10', '日']))}%'"
        case "null":
            return f"{column} IS {no}NULL"
    return no + column


def wanted_by(atom: Atom) -> list[bool]:
    """Which rows of the table an atom wants."""
    if atom.computed:
        return true_rows(atom.of)
    column = TABLE.column(atom.of)
    coding: Coding = (Texts if pa.types.is_string(column.type) else Numbers)([atom])
    codes, inside = coding.codes(column), np.zeros(TABLE.num_rows, np.bool_)
    for low, high in coding.spans(atom):
        inside |= (low <= codes) & (codes <= high)
    return [bool(there) for there in inside]


def true_rows(condition: str) -> list[bool]:
    values = compile(condition, TABLE.schema).evaluate(TABLE)
    return [value is True for value in values.to_pylist()]


@pytest.mark.parametrize("column", sorted(CONSTANTS))
@examples(400)
@given(data=st.data())
def test_what_is_said_of_one_column_is_looked_up_and_wants_what_is_true(column: str, data: st.DataObject) -> None:
    condition = data.draw(conditions(column))
    atoms = atoms_of(condition, TABLE.schema)
    assert not any(atom.computed for atom in atoms), condition
    wanted = np.all([wanted_by(atom) for atom in atoms], axis=0)
    assert wanted.tolist() == true_rows(condition), condition


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("i = 1 OR i = 2", "i IN (2, 1)"),
        ("i = 1 OR (i = 2 OR i IS NULL)", "i IS NULL OR i BETWEEN 1 AND 2"),
        ("NOT i <> 5", "i = 5"),
        ("i NOT BETWEEN 3 AND 7", "i < 3 OR 7 < i"),
        ("NOT (i < 3 OR i > 7)", "i BETWEEN 3 AND 7"),
        ("i NOT IN (1, NULL)", "i = NULL"),
        ("i IN (1, NULL)", "i = 1"),
        ("s NOT LIKE 'a%'", "s < 'a' OR s >= 'b'"),
        ("NOT (i = 1 AND i IS NOT NULL)", "i <> 1 OR i IS NULL"),
    ],
)
def test_what_means_the_same_is_the_same_atom(one: str, other: str) -> None:
    assert list(atoms_of(one, TABLE.schema)) == list(atoms_of(other, TABLE.schema))


def test_of_several_columns_or_is_computed_and_and_is_looked_up() -> None:
    (whole,) = atoms_of("i = 1 OR l = 2", TABLE.schema)
    assert whole.computed
    assert [atom.of for atom in atoms_of("(i = 1 OR i = 2) AND l = 2", TABLE.schema)] == ["i", "l"]


def test_a_chain_of_many_ors_is_one_atom() -> None:
    (atom,) = atoms_of(" OR ".join(f"i = {2 * n}" for n in range(300)), TABLE.schema)
    assert len(atom.ranges) == 300

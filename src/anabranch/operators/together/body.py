"""What the list of members says of an operator, so that nobody has to read its conditions again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators.base import Operator


def said_of(
    operator: Operator, schema_of: Callable[[str], pa.Schema], begins: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Plain data for JSON: its atoms, and what it has in common with others (`roster.Entry` reads it).

    `begins`: the first row of each stream, of one that is made here and not moved.
    """

    def atoms(condition: str | None, stream: str) -> dict[Atom, str]:
        return atoms_of(condition, schema_of(stream)) if condition is not None else {}

    said: dict[str, Any] = {"atoms": list(atoms(*operator.condition()).items())}
    canonical = operator.canonical()
    if canonical != operator:
        said["canonical"] = canonical.to_json()
    by_source = canonical.conditions_by_source()
    if by_source:
        said["atoms_by_source"] = [list(atoms(*part)) for part in by_source]
    shared = None if begins is None else operator.shared(schema_of)
    if shared is not None:
        parts = [atom for sql in shared.conditions for atom in atoms_of(sql, shared.answers)]
        said["shared"] = {
            "operator": shared.operator.to_json(),
            "begins": dict(begins or {}),
            "first": list(shared.first),
            "atoms": list(dict.fromkeys(parts)),
            "columns": [list(column) for column in shared.columns],
        }
    return said

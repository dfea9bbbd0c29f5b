"""What the list of members says of an operator, so that nobody has to read its conditions again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from anabranch.expressions.atoms import Atom, atoms_of
from anabranch.operators.base import Operator


def said_of(operator: Operator, schema_of: Callable[[str], pa.Schema]) -> dict[str, Any]:
    """Plain data for JSON: its atoms, and what it has in common with others (`roster.Entry` reads it)."""

    def atoms(condition: str | None, stream: str) -> dict[Atom, str]:
        return atoms_of(condition, schema_of(stream)) if condition is not None else {}

    said: dict[str, Any] = {"atoms": list(atoms(*operator.condition()).items())}
    canonical = operator.canonical()
    if canonical != operator:
        said["canonical"] = canonical.to_json()
    by_source = canonical.conditions_by_source()
    if by_source:
        said["atoms_by_source"] = [list(atoms(*part)) for part in by_source]
    return said

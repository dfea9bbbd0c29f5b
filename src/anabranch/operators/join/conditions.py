"""What a condition of a join is good for: an equality, a band, a comparison, or only a test.

All conditions are tested on candidates as they are written, with Spark's meaning; what is found
here only says how candidates can be found faster, and may find too many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anabranch.operators.columns import Bound

KeyKind = Literal["integers", "floats", "numbers", "times", "values"]
"""As what keys are compared: `floats` are FLOAT, `numbers` are DOUBLE."""


@dataclass(frozen=True)
class SourceExpression:
    """An expression over the columns of one source."""

    source: int
    value: Bound


@dataclass(frozen=True)
class Equality:
    """Two sides that must be equal, and as what they are compared."""

    sides: tuple[SourceExpression, SourceExpression]
    kind: KeyKind
    test: int | None
    """The test it stands for; None if it follows from other equalities."""


@dataclass(frozen=True)
class Band:
    """sides[0] must lie between sides[1] − below and sides[1] + above."""

    sides: tuple[SourceExpression, SourceExpression]
    below: float
    above: float


@dataclass(frozen=True)
class Comparison:
    """sides[0] must not be above sides[1]."""

    sides: tuple[SourceExpression, SourceExpression]


@dataclass(frozen=True)
class Test:
    """A condition as it is written, and the sources it needs."""

    value: Bound
    sources: frozenset[int]


@dataclass(frozen=True)
class Conditions:
    """All conditions of a join."""

    tests: tuple[Test, ...]
    equalities: tuple[Equality, ...]
    bands: tuple[Band, ...]
    comparisons: tuple[Comparison, ...]

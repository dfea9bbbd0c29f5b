"""A window join bound to the columns of its streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from anabranch.operators.columns import Bound, bind
from anabranch.operators.join.conditions import Band, Comparison, Conditions, Equality, SourceExpression
from anabranch.operators.join.rows import named
from anabranch.operators.join.windows import Window, latest
from anabranch.schema import TIME_TYPE

TIME = "_time"
COMPLETENESS = "_completeness"


@dataclass(frozen=True)
class JoinProgram:
    """Everything about a join that does not depend on a batch."""

    aliases: tuple[str, ...]
    streams: tuple[str, ...]
    filters: tuple[Bound | None, ...]
    rows: int | None
    """How many rows the window holds; None: it is one of time."""
    most: list[list[int]]
    """most[i][j]: how much later than i's row j's may be."""
    schema: pa.Schema
    """All columns of all sources, named `alias.column`, and the time of the result."""
    source_of: Mapping[str, int]
    conditions: Conditions

    @property
    def count(self) -> int:
        return len(self.aliases)

    def finders(self, source: int, placed: Sequence[int]) -> tuple[list[Equality], list[Band], list[Comparison]]:
        """What binds a source to those that are placed."""

        def binds(sides: tuple[SourceExpression, SourceExpression]) -> bool:
            first, second = sides[0].source, sides[1].source
            return (first == source and second in placed) or (second == source and first in placed)

        conditions = self.conditions
        return (
            _one_each([equality for equality in conditions.equalities if binds(equality.sides)], source, placed),
            [band for band in conditions.bands if binds(band.sides)],
            [comparison for comparison in conditions.comparisons if binds(comparison.sides)],
        )

    def shared_key(self) -> tuple[SourceExpression, ...] | None:
        """A side of every source that all must have equal, by which the work can be shared out."""
        every_side = [side for equality in self.conditions.equalities for side in equality.sides]
        for first in {side.value.sql: side for side in every_side}.values():
            if first.source != 0:
                continue
            sides = {0: first}
            for equality in self.conditions.equalities:
                same_type = equality.sides[0].value.type == equality.sides[1].value.type
                for side, opposite in (equality.sides, equality.sides[::-1]):
                    if side.source == 0 and side.value.sql == first.value.sql and same_type:
                        sides.setdefault(opposite.source, opposite)
            if len(sides) == self.count:
                return tuple(sides[i] for i in range(self.count))
        return None


def _one_each(equalities: list[Equality], source: int, placed: Sequence[int]) -> list[Equality]:
    """For each of the source's own values one equality, with the source that was placed first."""
    best: dict[str, tuple[int, Equality]] = {}
    for equality in equalities:
        own, other = equality.sides if equality.sides[0].source == source else equality.sides[::-1]
        rank = placed.index(other.source)
        if own.value.sql not in best or rank < best[own.value.sql][0]:
            best[own.value.sql] = (rank, equality)
    return [equality for _, equality in best.values()]


def bind_join(
    sources: Sequence[tuple[str, str, str | None]],
    unit: str,
    windows: Sequence[Window],
    conditions: Sequence[str],
    schemas: Sequence[pa.Schema],
) -> JoinProgram:
    """`schemas` are those of the sources' streams."""
    from anabranch.operators.join.analysis import analyse

    aliases = tuple(alias for alias, _, _ in sources)
    parts = [named(alias, schema) for alias, schema in zip(aliases, schemas, strict=True)]
    fields = [field for part in parts for field in part]
    source_of = {field.name: i for i, part in enumerate(parts) for field in part}
    schema = pa.schema([*fields, pa.field(TIME, TIME_TYPE)])
    filters = tuple(
        None if where is None else bind(where, own) for (_, _, where), own in zip(sources, schemas, strict=True)
    )
    return JoinProgram(
        aliases=aliases,
        streams=tuple(stream for _, stream, _ in sources),
        filters=filters,
        rows=max(high for *_, high in windows) if unit == "rows" else None,
        most=latest(len(sources), windows if unit == "time" else []),
        schema=schema,
        source_of=source_of,
        conditions=analyse(conditions, schema, source_of),
    )

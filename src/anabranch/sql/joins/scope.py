"""Names in a join: which column of which source each one is.

Sources stand side by side as one row whose columns are called `alias.column`; over that row a join
is planned like a query of one stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from anabranch.errors import SqlError, did_you_mean
from anabranch.operators.join.program import COMPLETENESS
from anabranch.schema import ARRIVAL_COLUMN, TIME_TYPE, StreamSchema
from anabranch.sql.standing.columns import Scope, column
from anabranch.sql.standing.sources import Lookup, look_up, stream_name
from anabranch.sql.tree import Select

MOST_SOURCES = 16
"""The streams one query can join."""


@dataclass(frozen=True)
class JoinSource:
    """A stream that a join reads, under the name it has there."""

    alias: str
    stream: str
    schema: StreamSchema

    def full(self, name: str) -> str:
        """The name of one of its columns in the joined row."""
        return f"{self.alias}.{name}"

    def find(self, name: str) -> str | None:
        """The stream's own spelling of a column's name."""
        return next((known for known in self.schema.names if known.lower() == name.lower()), None)


@dataclass(frozen=True)
class JoinScope(Scope):
    """The sources of a join; `visible` of them, from the first on, can be named.

    `results` are the bare names of what a result has of itself, such as its `_time`.
    """

    sources: tuple[JoinSource, ...] = ()
    visible: int = 0
    results: tuple[str, ...] = ()

    @staticmethod
    def of(select: Select, sources: tuple[JoinSource, ...]) -> JoinScope:
        fields = [pa.field(source.full(own.name), own.type) for source in sources for own in source.schema.arrow]
        schema = StreamSchema(pa.schema(fields), ARRIVAL_COLUMN)
        return JoinScope(select, sources[0].stream, sources[0].alias, schema, sources, len(sources))

    def up_to(self, count: int) -> JoinScope:
        """What the ON of a JOIN sees: the sources up to it."""
        return replace(self, visible=count)

    def with_results(self) -> JoinScope:
        """What the select list sees: the time of the result, too, and with shedding how complete it is."""
        own = [pa.field(ARRIVAL_COLUMN, TIME_TYPE)]
        if self.select.shedding is not None:
            own.append(pa.field(COMPLETENESS, pa.float64()))
        schema = StreamSchema(pa.schema([*self.schema.arrow, *own]), ARRIVAL_COLUMN)
        return replace(self, schema=schema, results=tuple(result.name for result in own))

    @property
    def is_join(self) -> bool:
        return True

    @cached_property
    def owners(self) -> Mapping[str, tuple[JoinSource, str]]:
        """The source and its own name for each column of the joined row."""
        return {source.full(name): (source, name) for source in self.sources for name in source.schema.names}

    def own(self, node: exp.Expr) -> exp.Expr:
        """An expression over one source alone, in the stream's own names."""

        def replaced(inner: exp.Expr) -> exp.Expr:
            return column(self.owners[inner.name][1]) if isinstance(inner, exp.Column) else inner

        return node.copy().transform(replaced)

    def owners_of(self, node: exp.Expr) -> set[JoinSource]:
        """The sources whose columns an expression over the joined row has."""
        return {self.owners[named.name][0] for named in node.find_all(exp.Column)}

    def find(self, name: str) -> str | None:
        """The column a bare name means, where one source alone has it."""
        sources = self._having(name)
        return sources[0].full(sources[0].find(name) or name) if len(sources) == 1 else None

    def has(self, source: str | None, name: str) -> bool:
        if source is None:
            return bool(self._having(name))
        known = self.source(source)
        return known is not None and known.find(name) is not None

    def name_of(self, node: exp.Column) -> str | None:
        """The column of the joined row that a reference means, or None."""
        if node.args.get("db") is not None:
            raise self._not_a_column(node, f"columns are written name or {self.sources[0].alias}.name")
        if node.table:
            return self._qualified(node)
        if node.name.lower() in self.results:
            return node.name.lower()
        sources = self._having(node.name)
        if len(sources) > 1 or (sources and node.name.lower() == ARRIVAL_COLUMN):
            raise self._ambiguous(node, sources)
        return self.find(node.name)

    def spelled(self, node: exp.Column) -> str:
        if not node.table and node.name.lower() in self.results:
            return node.name.lower()
        sources = [self.source(node.table)] if node.table else self._having(node.name)
        return next((own for source in sources if source and (own := source.find(node.name))), node.name)

    def not_found(self, node: exp.Column, others: list[str]) -> SqlError:
        shown = self.sources[: self.visible]
        known = dict.fromkeys([*(name for source in shown for name in source.schema.names), *others])
        return self.select.error(
            "COLUMN_NOT_FOUND",
            f'column "{node.name}" is not in {listed([source.alias for source in shown])}',
            node,
            hint=did_you_mean(node.name, known),
        )

    def hidden_by_window(self, name: str, node: exp.Expr) -> SqlError:
        return self.select.error(
            "COLUMN_AMBIGUOUS",
            f'"{name}" is a column of a stream, and an end of the period',
            node,
            hint=f"give it another name in a CREATE STREAM … AS SELECT {name} AS …",
        )

    def source(self, name: str) -> JoinSource | None:
        """The source of this name that can be named here."""
        return next((source for source in self.sources[: self.visible] if source.alias.lower() == name.lower()), None)

    def _having(self, name: str) -> list[JoinSource]:
        return [source for source in self.sources[: self.visible] if source.find(name) is not None]

    def _qualified(self, node: exp.Column) -> str | None:
        source = self.source(node.table)
        if source is None:
            known = [source.alias for source in self.sources[: self.visible]]
            raise self._not_a_column(node, did_you_mean(node.table, known, f"there are: {', '.join(known)}"))
        if isinstance(node.this, exp.Star):
            return None
        name = source.find(node.name)
        if name is None:
            raise self.select.error(
                "COLUMN_NOT_FOUND",
                f'column "{node.name}" is not in "{source.alias}"',
                node,
                hint=did_you_mean(node.name, source.schema.names),
            )
        return source.full(name)

    def _ambiguous(self, node: exp.Column, sources: list[JoinSource]) -> SqlError:
        return self.select.error(
            "COLUMN_AMBIGUOUS",
            f'column "{node.name}" may be that of {listed([source.alias for source in sources], "or")}',
            node,
            hint="write " + " or ".join(f"{source.alias}.{node.name}" for source in sources),
        )

    def _not_a_column(self, node: exp.Column, hint: str | None) -> SqlError:
        said = ".".join(part.name for part in node.parts)
        return self.select.error("COLUMN_NOT_FOUND", f'"{said}" is not a column of this join', node, hint=hint)


def sources_of(select: Select, tables: Sequence[exp.Table], lookup: Lookup) -> tuple[JoinSource, ...]:
    """The streams of FROM, each under a name of its own."""
    if len(tables) > MOST_SOURCES:
        raise select.error(
            "TOO_MANY_STREAMS",
            f"a query joins at most {MOST_SOURCES} streams, this one {len(tables)}",
            tables[MOST_SOURCES],
            hint="join some of them in a CREATE STREAM … AS SELECT … first",
        )
    sources: list[JoinSource] = []
    for table in tables:
        schema = look_up(select, table, lookup)
        alias = table.alias or table.name
        if any(source.alias.lower() == alias.lower() for source in sources):
            raise select.error(
                "SOURCE_EXISTS",
                f'two streams of FROM are called "{alias}"',
                table,
                hint=f"give one of them another name: {stream_name(table)} AS …",
            )
        sources.append(JoinSource(alias, stream_name(table), schema))
    names = [source.full(name).lower() for source in sources for name in source.schema.names]
    if len(set(names)) < len(names):
        raise select.error(
            "COLUMN_AMBIGUOUS", "columns of two streams have one name", tables[0], hint="use aliases without dots"
        )
    return tuple(sources)


def listed(names: list[str], last: str = "and") -> str:
    """Names as a sentence has them.

    >>> listed(["A", "B", "C"])
    'A, B and C'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {last} {names[-1]}"


def star_columns(scope: JoinScope, item: exp.Expr, star: exp.Star) -> list[tuple[str, exp.Column]]:
    """What `*` or `A.*` stands for: names of the answer and columns of the joined row.

    A name that several sources have, or that is kept for the answer's time, gets its source's before it.
    """
    if star.args.get("replace") or star.args.get("rename"):
        raise scope.select.error("NOT_IN_THE_LANGUAGE", "* can only be followed by EXCEPT", item)
    chosen = scope.sources[: scope.visible]
    if isinstance(item, exp.Column):
        scope.name_of(item)
        chosen = tuple(source for source in chosen if source.alias.lower() == item.table.lower())
    left_out = set[str]()
    for left_out_column in star.args.get("except_") or ():
        full_names = {source.full(own) for source in chosen if (own := source.find(left_out_column.name)) is not None}
        if not full_names:
            raise scope.not_found(left_out_column, [])
        left_out |= full_names
    often = [name.lower() for source in chosen for name in source.schema.names]
    columns: list[tuple[str, exp.Column]] = []
    for source in chosen:
        for name in source.schema.names:
            clashes = often.count(name.lower()) > 1 or name.lower() == ARRIVAL_COLUMN
            if source.full(name) not in left_out:
                columns.append((f"{source.alias}_{name}" if clashes else name, column(source.full(name))))
    return columns

"""Names in a query: which column of the tree each one is, here or in a query around it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from anabranch.errors import SqlError, did_you_mean
from anabranch.sql.joins.scope import listed
from anabranch.sql.tree import Select


@dataclass(frozen=True)
class Field:
    """A column as a query can name it: its name, the column of the tree, and the source it is of.

    `bare`: it can be named without its source, and is in `*`. Of the columns that USING joins, one is.
    """

    name: str
    column: str
    source: str | None = None
    bare: bool = True


@dataclass(frozen=True)
class Relation:
    """A node and which of its columns can be named."""

    node: int
    fields: tuple[Field, ...]

    def at(self, node: int) -> Relation:
        """The same columns, in another node."""
        return replace(self, node=node)


@dataclass(frozen=True)
class Scope:
    """What can be named in a SELECT: the columns of its FROM, then those of the query around it."""

    select: Select
    fields: tuple[Field, ...]
    outer: Scope | None = None

    @property
    def sources(self) -> list[str]:
        return list(dict.fromkeys(field.source for field in self.fields if field.source is not None))

    def here(self, node: exp.Column) -> Field | None:
        """The column of FROM that a name means; None if it may be one of a query around."""
        if node.args.get("db") is not None:
            said = ".".join(part.name for part in node.parts)
            raise self.select.error(
                "COLUMN_NOT_FOUND",
                f'"{said}" is not a column',
                node,
                hint="columns are written name or source.name",
            )
        if isinstance(node.this, exp.Star):
            raise self.select.error("SYNTAX_ERROR", "* stands only by itself in the select list", node)
        name, source = node.name.lower(), node.table.lower()
        of_source = [field for field in self.fields if source and (field.source or "").lower() == source]
        found = [f for f in (of_source if source else self.fields) if f.name.lower() == name and (source or f.bare)]
        if source and of_source and not found:
            raise self.select.error(
                "COLUMN_NOT_FOUND",
                f'column "{node.name}" is not in "{node.table}"',
                node,
                hint=did_you_mean(node.name, {field.name for field in of_source}),
            )
        if len(found) > 1:
            raise self._ambiguous(node, found)
        return found[0] if found else None

    def has(self, source: str | None, name: str) -> bool:
        """Whether a source, or if None any, has a column, here or around."""
        here = any(
            field.name.lower() == name.lower()
            and (field.bare if source is None else (field.source or "").lower() == source.lower())
            for field in self.fields
        )
        return here or (self.outer is not None and self.outer.has(source, name))

    def around(self, node: exp.Column) -> Field | None:
        """The column of a query around that a name means."""
        if self.outer is None:
            return None
        return self.outer.here(node) or self.outer.around(node)

    def not_found(self, node: exp.Column, others: Iterable[str] = ()) -> SqlError:
        known: list[str] = list(others)
        sources: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            known += [field.name for field in scope.fields if field.bare]
            sources += scope.sources
            scope = scope.outer
        if node.table:
            return self.select.error(
                "COLUMN_NOT_FOUND",
                f'"{node.table}.{node.name}" is not a column: FROM has no "{node.table}"',
                node,
                hint=did_you_mean(node.table, sources),
            )
        where = listed(list(dict.fromkeys(sources)), "or") if sources else "FROM"
        return self.select.error(
            "COLUMN_NOT_FOUND",
            f'column "{node.name}" is not in {where}',
            node,
            hint=did_you_mean(node.name, set(known)),
        )

    def _ambiguous(self, node: exp.Column, found: Sequence[Field]) -> SqlError:
        sources = list(dict.fromkeys(field.source or "" for field in found))
        if len(sources) == 1:
            of = f' of "{sources[0]}"' if sources[0] else ""
            return self.select.error(
                "COLUMN_AMBIGUOUS",
                f'column "{node.name}"{of} is there {len(found)} times',
                node,
                hint="give one of them another name with AS",
            )
        named = [source or "the columns before" for source in sources]
        return self.select.error(
            "COLUMN_AMBIGUOUS",
            f'column "{node.name}" may be that of {listed(named, "or")}',
            node,
            hint="write " + " or ".join(f"{source}.{node.name}" for source in sources if source),
        )

"""What a subquery has to do with the query right around it: equalities of both, and other conditions on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from anabranch.operators.tree.nodes import Aggregate, Expire, Latest
from anabranch.sql.standing.columns import column
from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import Place, names_of, picked
from anabranch.sql.trees.joining import Condition, Item, Joined, sides_of
from anabranch.sql.trees.scope import Relation, Scope

_STRICT = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Like, exp.Paren, exp.Column, exp.Literal,
           exp.Identifier, exp.Add, exp.Sub, exp.Mul, exp.Neg, exp.Interval, exp.Var)  # fmt: skip
"""What is NULL where any part of it is."""


@dataclass
class Correlation:
    """`pairs`: (column of the subquery, value of the query around) that are equal; `mixed`: other conditions."""

    context: Context
    outer: Scope | None
    pairs: list[tuple[str, exp.Expr]] = field(default_factory=list)
    mixed: list[exp.Expr] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """The columns that are equal to something of the query around."""
        return list(dict.fromkeys(name for name, _ in self.pairs))

    def taken(self, node: int, conditions: Sequence[Condition]) -> int:
        """Takes note of conditions that are about the query around, too; the node with what they compare."""
        own = frozenset(self.context.schema(node).names)
        for condition in conditions:
            value = self._checked(condition, own)
            sides = sides_of(value, own, names_of(value) - own)
            if sides is None:
                self.mixed.append(value)
                continue
            node, (name,) = self.context.extended(node, [("key", sides[0], condition.written)], Place("WHERE"))
            self.pairs.append((name, sides[1]))
        return node

    def is_equality(self, condition: Condition, own: frozenset[str]) -> bool:
        value = condition.value
        return value is not None and sides_of(value, own, names_of(value) - own) is not None

    def with_values(
        self, item: Item, own: frozenset[str], conditions: Sequence[Condition], place: Place
    ) -> tuple[Item, list[Condition], list[Condition]]:
        """The subquery joined with all values that the query around may compare with, where these are of one source.

        So it is computed for each of them, and equal to the query around in these. NULL is no value of them, as
        nothing that is looked at here is true of it.
        """
        asked = [c for c in conditions if not self.is_equality(c, own) and not c.attached and c.value is not None]
        needed = names_of(*(c.value for c in asked if c.value is not None)) - own
        base = self._first_with(needed)
        if base is None or not all(_is_never_true_of_null(c.value) for c in asked if c.value is not None):
            return item, [], list(conditions)
        drafts, names = self.context.drafts, sorted(needed)
        shape = picked(self.context.schema(base), names)
        node = drafts.add(Aggregate(self.context.only(base, names, place), tuple(names)), shape, place)
        renamed = {name: drafts.fresh(name) for name in names}
        node = self.context.named(node, [(new, column(old)) for old, new in renamed.items()], place)
        self.pairs += [(new, column(old)) for old, new in renamed.items()]
        known = [replace(c, value=_over(c.value, renamed)) for c in asked if c.value is not None]
        joined = Joined(item, Relation(node, ()), "inner", (), place)
        return joined, known, [c for c in conditions if c not in asked]

    def _first_with(self, names: frozenset[str]) -> int | None:
        """The first node that has the columns, without rows that have expired or were replaced."""
        drafts = self.context.drafts
        first = next((n for n, schema in enumerate(drafts.schemas) if names <= set(schema.names)), None)
        nodes = enumerate(drafts.nodes)
        fewer = (n for n, node in nodes if isinstance(node, Expire | Latest) and node.input == first)
        return next(fewer, first)

    def _checked(self, condition: Condition, own: frozenset[str]) -> exp.Expr:
        """What must be true, if it is about the query right around and has no subquery of its own."""
        around = frozenset(named.column for named in self.outer.fields) if self.outer is not None else frozenset()
        value = condition.value
        if condition.attached or value is None or not names_of(value) - own <= around:
            raise self.context.refuse(
                "a subquery can only be about the query right around it",
                condition.written,
                "join with it in FROM, or bring the columns along in the query between",
            )
        return value

    def refuse_mixed(self, why: str, hint: str) -> None:
        """For what is computed for each value that is compared, where there are others than equalities."""
        if self.mixed:
            raise self.context.refuse(why, self.mixed[0], hint)


def _is_never_true_of_null(value: exp.Expr) -> bool:
    return all(isinstance(node, _STRICT) for node in value.walk())


def _over(value: exp.Expr, renamed: Mapping[str, str]) -> exp.Expr:
    """An expression over columns with other names."""
    return value.copy().transform(
        lambda node: column(renamed[node.name]) if isinstance(node, exp.Column) and node.name in renamed else node
    )

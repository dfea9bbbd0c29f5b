"""What a subquery has to do with the query right around it: equalities of both, and other conditions on both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.sql.trees.context import Context
from anabranch.sql.trees.draft import Place, names_of
from anabranch.sql.trees.joining import Condition, sides_of
from anabranch.sql.trees.scope import Scope


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

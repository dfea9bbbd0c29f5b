"""Flow: the steps of a whole tree, wired as its nodes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from anabranch.operators.tree.accounts import Account
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Node, Part, Source
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Step
from anabranch.operators.tree.steps.expire import ExpireStep


class Flow:
    """Changes of sources in, changes of what the last node answers out; remembers nothing itself.

    `schemas`: of each stream the columns that it has, or more. A `Part` is given like a stream of the name `part n`,
    where n is the number of its node. Rows that go have a weight of -1 already: who reads the log of a table's changes
    makes weights of what it says.
    """

    def __init__(self, nodes: Sequence[Node], schemas: Mapping[str, pa.Schema]) -> None:
        self._nodes = tuple(nodes)
        self.accounts: dict[int, Account] = {}
        """What each step has done, by the number of its node."""
        self._steps: list[Step | None] = []
        known: list[tuple[pa.Schema, bool]] = []
        for number, node in enumerate(nodes):
            if isinstance(node, Source | Part):
                read = schemas[_stream(number, node)]
                schema = pa.schema([(name, read.field(column).type) for name, column in node.columns])
                known.append((schema, not isinstance(node, Source) or node.form != "changes"))
                self._steps.append(None)
            else:
                step = step_of(node, [known[i][0] for i in node.reads], [known[i][1] for i in node.reads])
                known.append((step.schema, step.only_comes))
                self._steps.append(step)
        self._schemas = [schema for schema, _ in known]
        self.schema, self.only_comes = known[-1]
        self._last_read = {i: number for number, node in enumerate(nodes) for i in node.reads}

    def take(self, changes: Mapping[str, Changes], reached: int) -> Changes:
        """The change of the answer; streams that are not named have none."""
        answered: dict[int, Changes] = {}
        for number, (node, step) in enumerate(zip(self._nodes, self._steps, strict=True)):
            if isinstance(node, Source | Part):
                given = changes.get(_stream(number, node))
                answered[number] = self._read(number, node, given)
            else:
                assert step is not None
                answered[number] = step.take([answered[i] for i in node.reads], reached)
                self.accounts[number] = self.accounts.get(number, Account()).after(answered[number], step)
                for i in set(node.reads):
                    if self._last_read[i] == number:
                        del answered[i]
        return answered[len(self._nodes) - 1].consolidated()

    def _read(self, number: int, node: Source | Part, given: Changes | None) -> Changes:
        schema = self._schemas[number]
        if given is None:
            return Changes.none(schema)
        read = given.gathered
        places = [read.schema.get_field_index(column) for _, column in node.columns]
        return given.with_rows(read.with_columns(schema, places))

    def kept(self) -> dict[str, Arrangement]:
        """All that its steps remember, by the number of their node and the name they give it."""
        return {
            f"{number}.{name}": arrangement
            for number, step in enumerate(self._steps)
            if step is not None
            for name, arrangement in step.kept().items()
        }

    def due(self, reached: int) -> int | None:
        """The time, later than `reached`, at which the next rows go if none come before; None if there are none."""
        steps = [step for step in self._steps if isinstance(step, ExpireStep)]
        return min((time for step in steps if (time := step.due(reached)) is not None), default=None)

    def keep_rows(self) -> list[int]:
        """The nodes that remember rows of what they read."""
        return [number for number, step in enumerate(self._steps) if step is not None and step.keeps_rows]

    def why_thrown(self, number: int) -> str:
        """Why a step throws rows, if it does."""
        step = self._steps[number]
        return "" if step is None else step.why_thrown

    def why(self) -> dict[int, str]:
        """How each node goes on, by its number; sources and parts are just read."""
        return {number: step.why() for number, step in enumerate(self._steps) if step is not None}


def part_name(number: int) -> str:
    """What a part is called among streams."""
    return f"part {number}"


def _stream(number: int, node: Source | Part) -> str:
    return node.stream if isinstance(node, Source) else part_name(number)

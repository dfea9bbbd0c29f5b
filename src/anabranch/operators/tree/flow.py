"""Flow: the steps of a whole tree, wired as its nodes say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import pyarrow as pa

from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Aggregate, Node, Part, Rows, Source
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Forgetting, Step


class Flow:
    """Changes of sources in, changes of what the last node answers out; remembers nothing itself.

    `schemas`: of each stream the columns that it has, or more. A `Part` is given like a stream of the name `part n`,
    where n is the number of its node. Rows that go have a weight of -1 already: who reads the log of a table's changes
    makes weights of what it says.
    """

    def __init__(self, nodes: Sequence[Node], schemas: Mapping[str, pa.Schema]) -> None:
        self._nodes = tuple(nodes)
        self._dropped = 0
        self._forgetting: list[Forgetting] = []
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
                if isinstance(node, Aggregate) and node.keep is not None:
                    self._forgetting.append(cast(Forgetting, step))
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
                if isinstance(node, Rows) and isinstance(self._nodes[node.input], Source):
                    self._dropped += len(answered[node.input]) - len(answered[number])
                for i in set(node.reads):
                    if self._last_read[i] == number:
                        del answered[i]
        return answered[len(self._nodes) - 1].consolidated()

    @property
    def thrown(self) -> int:
        """How many rows of streams and tables WHERE has dropped, and how many groups were forgotten."""
        return self._dropped + sum(step.forgotten for step in self._forgetting)

    def _read(self, number: int, node: Source | Part, given: Changes | None) -> Changes:
        schema = self._schemas[number]
        if given is None:
            return Changes.none(schema)
        return given.with_rows(
            pa.Table.from_arrays([given.rows.column(column) for _, column in node.columns], schema=schema)
        )

    def kept(self) -> dict[str, Arrangement]:
        """All that its steps remember, by the number of their node and the name they give it."""
        return {
            f"{number}.{name}": arrangement
            for number, step in enumerate(self._steps)
            if step is not None
            for name, arrangement in step.kept().items()
        }

    def why(self) -> dict[int, str]:
        """How each node goes on, by its number; sources and parts are just read."""
        return {number: step.why() for number, step in enumerate(self._steps) if step is not None}


def part_name(number: int) -> str:
    """What a part is called among streams."""
    return f"part {number}"


def _stream(number: int, node: Source | Part) -> str:
    return node.stream if isinstance(node, Source) else part_name(number)

"""What steps answer and remember depends on what came, and not on how it was cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Aggregate, Call, Expire, Join, Node, SetOperation
from anabranch.operators.tree.steps import step_of
from tests.operators.tree.rows import Bag, Source, bag, settled
from tests.sampling import SEED

LEFT = pa.schema([("a", pa.int32()), ("b", pa.float64()), ("t", pa.timestamp("us", tz="UTC"))])
RIGHT = pa.schema([("c", pa.int32()), ("d", pa.float64())])
CALLS = tuple(
    Call(f"c{n}", function, tuple(columns.split()), distinct)
    for n, (function, columns, distinct) in enumerate(
        [
            ("sum", "b", False),
            ("variance", "b", False),
            ("avg", "a", False),
            ("min", "b", False),
            ("max_by", "a b", False),
            ("median", "b", False),
            ("mode", "a", False),
            ("count", "b", True),
        ]
    )
)
NODES: list[Node] = [
    Join(0, 1, "inner", (("a", "c"),)),
    Join(0, 1, "full", (("a", "c"),), "b < d"),
    Join(0, 1, "anti", (("a", "c"),)),
    Join(0, 1, "not_in", (("b", "d"),)),
    Join(0, 1, "not_in", (("a", "c"), ("b", "d"))),
    Aggregate(0, ("a",), CALLS),
    Aggregate(0, (), CALLS),
    Aggregate(0, ("a", "t")),
    Expire(0, "t", 4),
    SetOperation(0, 1, "except", True),
]


@pytest.mark.parametrize("node", NODES, ids=lambda node: f"{node.kind} {getattr(node, 'join', '')}")
def test_one_call_or_many(node: Node) -> None:
    schemas = [LEFT.remove(2) if isinstance(node, SetOperation) else LEFT, RIGHT][: len(node.reads)]
    for seed in range(1):
        draw = random.Random(f"{SEED} {seed}")
        some = [Source(schema, draw).some(60) for schema in schemas]
        at_once = _played(node, schemas, [some])
        one_by_one = _played(node, schemas, [[part.take(np.array([i])) for part in some] for i in range(60)])
        assert at_once == one_by_one


def _played(node: Node, schemas: Sequence[pa.Schema], calls: Sequence[Sequence[Changes]]) -> tuple[Bag, dict[str, Bag]]:
    step = step_of(node, schemas, [False] * len(schemas))
    answered: Bag = Bag()
    for inputs in calls:
        answered.update(bag(step.take(inputs, 6)))
    return settled(answered), {name: bag(held.all()) for name, held in step.kept().items()}

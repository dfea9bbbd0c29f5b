"""What the nodes of a tree do with changes, one file for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import pyarrow as pa

from anabranch.operators.tree.nodes import Node
from anabranch.operators.tree.steps.base import Step

STEPS = {
    "rows": "rows.RowsStep",
    "join": "join.JoinStep",
    "aggregate": "aggregate.AggregateStep",
    "union": "union.UnionStep",
    "set_operation": "set_operation.SetOperationStep",
    "top": "top.TopStep",
    "ranked": "ranked.RankedStep",
    "expire": "expire.ExpireStep",
    "latest": "latest.LatestStep",
    "unnest": "unnest.UnnestStep",
}
"""For each kind of node its file here and its class there, which is loaded when a tree has one."""


def step_of(node: Node, schemas: Sequence[pa.Schema], only_come: Sequence[bool]) -> Step:
    """A node at work: the schemas of what it reads, and for each whether its rows only ever come."""
    file, _, name = STEPS[node.kind].partition(".")
    step: Step = getattr(import_module(f"{__name__}.{file}"), name)(node, schemas, only_come)
    return step

"""A step played: changes at random in pieces at random, and what it remembers written down and brought back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from anabranch.log.storage import Storage
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.nodes import Node
from anabranch.operators.tree.run_files import read_run, write_run
from anabranch.operators.tree.steps import step_of
from anabranch.operators.tree.steps.base import Step
from tests.operators.tree.rows import Bag, Source, bag, cut, settled

Answer = Callable[[Sequence[Bag], int], Bag]


def brought_back(step: Step, again: Callable[[], Step], folder: Path | None) -> Step:
    """Another step that remembers what this one does."""
    other = again()
    ours, theirs = step.kept(), other.kept()
    assert list(ours) == list(theirs)
    for name, held in ours.items():
        runs = list(held.runs())
        if folder is not None:
            storage = Storage(str(folder))
            runs = [read_run(storage, write_run(storage, run)) for run in runs]
        theirs[name].take_runs(runs)
    return other


def play(
    node: Node,
    schemas: Sequence[pa.Schema],
    wanted: Answer,
    seed: object,
    folder: Path,
    *,
    only_come: Sequence[bool] = (),
    calls: int = 8,
    most: int = 12,
    source: Callable[[pa.Schema, random.Random, bool], Source] = lambda schema, draw, only: Source(
        schema, draw, only_come=only
    ),
) -> Step:
    """Play a step, and look at its whole answer after each call."""
    draw = random.Random(str(seed))
    only = list(only_come) or [False] * len(schemas)

    def make() -> Step:
        return step_of(node, schemas, only)

    step = make()
    sources = [source(schema, draw, alone) for schema, alone in zip(schemas, only, strict=True)]
    there: list[Bag] = [Counter() for _ in schemas]
    answered: Bag = Counter()
    reached = -20
    for _ in range(calls):
        pieces = [cut(each.some(draw.randrange(most)), draw) for each in sources]
        for number in range(max(map(len, pieces))):
            inputs = [
                some[number] if number < len(some) else Changes.none(schema)
                for some, schema in zip(pieces, schemas, strict=True)
            ]
            reached += draw.randrange(4)
            for known, changes in zip(there, inputs, strict=True):
                known.update(bag(changes))
            change = step.take(inputs, reached)
            assert change.rows.schema.equals(step.schema), (change.rows.schema, step.schema)
            assert change.rows.num_rows == len(change.weights)
            change.rows.validate(full=True)
            if step.only_comes:
                assert all(weight > 0 for weight in bag(change).values())
            answered.update(bag(change))
            answered = settled(answered)
            there = [settled(known) for known in there]
            expected = settled(wanted(there, reached))
            assert answered == expected, (answered - expected, expected - answered)
            if draw.random() < 0.3:
                step = brought_back(step, make, folder if draw.random() < 0.2 else None)
    return step

"""Whatever tree there is, and however changes are cut: all it has answered, added up, is what SQL says of all rows.

`python -m tests.operators.tree.test_random_trees 2000 [seed] [kind …]` tries as many as you like.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from unittest import mock

import numpy as np
import pytest

from anabranch.kernels.digests import Digests, digests
from anabranch.kernels.values import Column
from anabranch.operators.tree import runs
from anabranch.operators.tree.flow import Flow
from anabranch.operators.tree.steps import top
from tests.operators.tree.oracle_tree import Bag, answer, bag_of
from tests.operators.tree.random_trees import FEED, KINDS, SCHEMAS, SECOND, START, FeedRows, RandomTree, Stream
from tests.sampling import ALL, QUICK, SEED

TREES = 600 if ALL else 10 if QUICK else 60
_GROUPS = 6


@pytest.mark.parametrize("group", range(_GROUPS))
def test_a_tree_answers_what_sql_says_after_every_batch(group: int) -> None:
    for number in range(TREES // _GROUPS):
        try_one(f"{SEED}-{group}-{number}")


def try_one(seed: str, kinds: Sequence[str] = KINDS) -> None:
    chance = random.Random(seed)
    tree = RandomTree(chance, kinds)
    nodes = tree.grown()
    streams = {
        name: FeedRows(chance) if name == FEED else Stream(chance, SCHEMAS[name], form == "rows")
        for name, form in tree.forms.items()
    }
    told = f"seed {seed}\n" + "\n".join(f"{number}: {node}" for number, node in enumerate(nodes))
    with few_to_spare(chance), hashes_that_collide(chance):
        play(chance, tree, streams, told)


def play(chance: random.Random, tree: RandomTree, streams: Mapping[str, Stream | FeedRows], told: str) -> None:
    nodes = tree.nodes
    flow, other = Flow(nodes, SCHEMAS), Flow(nodes, SCHEMAS)
    assert flow.schema == tree.schemas[-1], told
    total: Bag = Counter()
    reached = int(START.timestamp()) * SECOND
    for batch in range(chance.randint(1, 6)):
        most, least = (20, 8) if batch == 0 else (chance.choice((0, 1, 3, 12, 30)), 0)
        taken = {name: stream.change(most, least) for name, stream in streams.items()}
        reached += chance.choice((0, 0, 1, 2)) * SECOND
        change = flow.take(taken, reached)
        assert change.rows.schema == flow.schema, told
        differences = bag_of(change.rows, change.weights.tolist())
        if flow.only_comes:
            assert all(weight > 0 for weight in differences.values()), f"batch {batch} takes away\n{told}"
        for row, weight in differences.items():
            total[row] += weight
            if not total[row]:
                del total[row]
        if chance.random() < 0.3:
            # Another goes on from what this one kept.
            ours, theirs = flow.kept(), other.kept()
            assert list(ours) == list(theirs), told
            for name, held in ours.items():
                theirs[name].take_runs(held.runs())
            flow, other = other, flow
        wanted = answer(nodes, SCHEMAS, {name: stream.bag() for name, stream in streams.items()}, reached)
        missing = {row: count - total[row] for row, count in wanted.items() if total[row] != count}
        extra = {row: count for row, count in total.items() if count and row not in wanted}
        assert (missing, extra) == ({}, {}), f"batch {batch}: missing {missing}, extra {extra}\n{told}"


@contextlib.contextmanager
def few_to_spare(chance: random.Random) -> Iterator[None]:
    """What Top keeps at hand is used up soon, and too much soon."""
    with (
        mock.patch.object(top, "SPARE", chance.choice((0, 1, 3))),
        mock.patch.object(top, "SPARE_OF_ALL", chance.choice((0, 2, 5))),
    ):
        yield


@contextlib.contextmanager
def hashes_that_collide(chance: random.Random) -> Iterator[None]:
    """In some trees there are but a few."""
    few = chance.choice((0, 0, 0, 0, 1, 4))

    def fewer(columns: Sequence[Column], length: int) -> Digests:
        return Digests(*(each % np.uint64(few) * np.uint64(1 << 62) for each in digests(columns, length)))

    with mock.patch.object(runs, "digests", fewer) if few else contextlib.nullcontext():
        yield


if __name__ == "__main__":
    count, first, *kinds = [*sys.argv[1:], *("2000", "0")[len(sys.argv) - 1 :]]
    failed = 0
    for at in range(int(first), int(first) + int(count)):
        try:
            try_one(f"by hand {at}", kinds or KINDS)
        except Exception as problem:
            failed += 1
            print(f"--- {at}: {type(problem).__name__} {problem}"[:3000])
            if failed == 5:
                break
    print(f"{count} trees from {first} on, {failed} failed")

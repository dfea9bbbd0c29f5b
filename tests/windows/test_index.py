"""Every index equals counting with dictionaries."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.windows.index import INDICES, SetIndex, make_index
from anabranch.windows.index.tree import TreeIndex
from tests.sampling import examples

EXACT = [name for name in INDICES if name != "G"]

GROUPS = 3


class Naive:
    """The same by counting, with the nodes as the index gave them."""

    def __init__(self) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        self.node: dict[tuple[int, int], int] = {}

    def tuples(self, group: int) -> list[int]:
        return sorted(c for (g, c), n in self.counts.items() if g == group for _ in range(n))

    def histogram(self, group: int) -> dict[int, int]:
        return {c: n for (g, c), n in sorted(self.counts.items()) if g == group and n}

    def top(self, group: int, k: int) -> list[tuple[int, int]]:
        return sorted(self.histogram(group).items(), key=lambda item: (-item[1], item[0]))[:k]


def check(index: SetIndex, naive: Naive, ask: bool = True) -> None:
    every = np.arange(GROUPS, dtype=np.int32)
    tuples = [naive.tuples(g) for g in range(GROUPS)]
    assert index.total(every).tolist() == [len(t) for t in tuples]
    assert index.distinct(every).tolist() == [len(set(t)) for t in tuples]
    assert index.zeros == sum(n == 0 for n in naive.counts.values())
    assert index.live == len(naive.counts)
    assert index.codes().tolist() == sorted({c for _, c in naive.counts})
    for (group, code), node in naive.node.items():
        assert index.find(np.array([code]), np.array([group], np.int32)).tolist() == [node]
        assert index.count(np.array([node], np.int32)).tolist() == [naive.counts[group, code]]
    if not ask:
        return
    for group in range(GROUPS):
        codes, counts = index.histogram(group)
        assert dict(zip(codes.tolist(), counts.tolist(), strict=True)) == naive.histogram(group)
        assert codes.tolist() == sorted(codes.tolist())
        for k in (0, 1, 3, 100):
            codes, counts = index.top(group, k)
            assert list(zip(codes.tolist(), counts.tolist(), strict=True)) == naive.top(group, k)
    full = [g for g in range(GROUPS) if tuples[g]]
    asked = np.array([g for g in full for _ in tuples[g]], np.int32)
    ranks = np.array([r for g in full for r in range(len(tuples[g]))], np.int64)
    assert index.select(asked[::-1], ranks[::-1]).tolist() == [c for g in full for c in tuples[g]][::-1]
    codes, counts = index.mode(np.array(full, np.int32))
    assert list(zip(codes.tolist(), counts.tolist(), strict=True)) == [naive.top(g, 1)[0] for g in full]


def check_tree(tree: TreeIndex) -> None:
    """It is a search tree, balanced, with right heights."""

    def height(node: int) -> int:
        if node == 0:
            return 0
        left, right = (int(c) for c in tree._child[2 * node : 2 * node + 2])
        assert left == 0 or tree._key[left] < tree._key[node]
        assert right == 0 or tree._key[right] > tree._key[node]
        heights = height(left), height(right)
        assert abs(heights[0] - heights[1]) <= 1
        assert tree._height[node] == max(heights) + 1
        return max(heights) + 1

    for root in tree._root.tolist():
        height(root)


def steps(seed: int, length: int, spread: int) -> Iterator[tuple[str, int]]:
    dice = random.Random(seed)
    for _ in range(length):
        yield dice.choices(["add", "subtract", "purge", "rekey", "ask"], [6, 5, 1, 1, 2])[0], dice.randrange(spread)


@pytest.mark.parametrize("name", EXACT)
@examples(60)
@given(
    seed=st.integers(0, 2**32),
    length=st.integers(1, 25),
    spread=st.sampled_from([3, 20, 200]),
    size=st.sampled_from([1, 7, 60]),
)
def test_an_index_equals_counting(name: str, seed: int, length: int, spread: int, size: int) -> None:
    dice = random.Random(seed)
    index, naive = make_index(name), Naive()
    index.reserve_groups(GROUPS)
    added: list[tuple[int, int]] = []
    for step, _ in steps(seed, length, spread):
        if step == "add":
            batch = [(dice.randrange(GROUPS), dice.randrange(-spread, spread)) for _ in range(size)]
            nodes = index.locate(np.array([c for _, c in batch]), np.array([g for g, _ in batch], np.int32))
            for value, node in zip(batch, nodes.tolist(), strict=True):
                assert naive.node.setdefault(value, node) == node
                naive.counts.setdefault(value, 0)
            if dice.random() < 0.3:
                check(index, naive, ask=False)
            if dice.random() < 0.5:
                counts = [dice.randrange(4) for _ in batch]
                index.add(nodes, np.array(counts))
            else:
                counts = [1] * len(batch)
                index.add(nodes)
            for value, n in zip(batch, counts, strict=True):
                naive.counts[value] += n
                added += [value] * n
        elif step == "subtract":
            dice.shuffle(added)
            gone = added[: dice.choice([1, size, len(added)])]
            del added[: len(gone)]
            if dice.random() < 0.5:
                index.subtract(np.array([naive.node[v] for v in gone], np.int32))
            else:
                often = Counter(gone)
                index.subtract(np.array([naive.node[v] for v in often], np.int32), np.array(list(often.values())))
            for value in gone:
                naive.counts[value] -= 1
        elif step == "purge":
            assert index.purge() == sum(n == 0 for n in naive.counts.values())
            naive.counts = {value: n for value, n in naive.counts.items() if n}
            naive.node = {value: naive.node[value] for value in naive.counts}
        elif step == "rekey":
            old = sorted({c for _, c in naive.counts})
            new = sorted(dice.sample(range(-spread, 3 * spread), len(old)))
            index.rekey(np.array(old, np.int64), np.array(new, np.int64))
            now = dict(zip(old, new, strict=True))
            naive.counts = {(g, now[c]): n for (g, c), n in naive.counts.items()}
            naive.node = {(g, now[c]): n for (g, c), n in naive.node.items()}
            added = [(g, now[c]) for g, c in added]
        else:
            check(index, naive)
        if isinstance(index, TreeIndex):
            check_tree(index)
    check(index, naive)


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("order", ["ascending", "descending", "inside out"])
def test_many_values_in_a_bad_order(name: str, order: str) -> None:
    codes = np.arange(3000)
    if order == "descending":
        codes = codes[::-1]
    elif order == "inside out":
        codes = np.stack([codes[1500:], codes[:1500][::-1]], 1).ravel()
    index = make_index(name)
    index.add(index.locate(codes))
    assert index.histogram()[0].tolist() == list(range(3000))
    assert index.select(np.zeros(3, np.int32), np.array([0, 1500, 2999])).tolist() == [0, 1500, 2999]
    if isinstance(index, TreeIndex):
        check_tree(index)
        assert index._height.max() <= 1.45 * np.log2(3000) + 1


@pytest.mark.parametrize("name", EXACT)
def test_the_ends_of_the_codes(name: str) -> None:
    codes = np.array([2**63 - 1, -(2**63), 0, -1, -(2**63)])
    index = make_index(name)
    nodes = index.locate(codes)
    index.add(nodes)
    assert index.locate(codes).tolist() == index.find(codes).tolist() == nodes.tolist()
    assert index.histogram()[0].tolist() == [-(2**63), -1, 0, 2**63 - 1]
    assert index.mode(np.zeros(1, np.int32))[0].tolist() == [-(2**63)]
    assert index.find(np.array([1, -2])).tolist() == [-1, -1]


@pytest.mark.parametrize("name", EXACT)
def test_room_of_purged_nodes_is_used_again(name: str) -> None:
    index = make_index(name)
    sizes = []
    for first in range(0, 100_000, 1000):
        nodes = index.locate(np.arange(first, first + 1000))
        index.add(nodes)
        index.subtract(nodes)
        assert index.purge() == 1000
        sizes.append(index.nbytes)
    assert sizes[-1] == sizes[0]


@pytest.mark.parametrize("name", EXACT)
def test_an_empty_index(name: str) -> None:
    index = make_index(name)
    assert index.purge() == index.zeros == index.live == 0
    assert index.locate(np.empty(0, np.int64)).tolist() == []
    assert [a.tolist() for a in index.histogram()] == [[], []]
    assert [a.tolist() for a in index.top(0, 3)] == [[], []]
    assert index.find(np.array([0, 1])).tolist() == [-1, -1]


def test_sums_stay_right_when_few_nodes_change_between_questions() -> None:
    dice = np.random.default_rng(1)
    tree = make_index("T")
    held = dice.integers(0, 5000, 20_000)
    nodes = tree.locate(held)
    tree.add(nodes)
    for round_ in range(50):
        some = dice.integers(0, 6000, 40)
        tree.add(tree.locate(some))
        held = np.append(held, some)
        gone = held[:40]
        tree.subtract(tree.find(gone))
        held = held[40:]
        ranks = np.arange(0, len(held), 997)
        assert tree.select(np.zeros(len(ranks), np.int32), ranks).tolist() == np.sort(held)[ranks].tolist()
        values, counts = np.unique(held, return_counts=True)
        assert tree.mode(np.zeros(1, np.int32))[0].tolist() == [values[counts.argmax()]]
        if round_ % 20 == 19:
            tree.purge()


def test_unknown_index_names_the_ones_there_are() -> None:
    with pytest.raises(ValueError, match=r"'X'.*T"):
        make_index("X")

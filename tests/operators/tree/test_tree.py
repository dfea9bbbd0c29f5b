"""The operator Tree: what its answers add up to, however it is cut, repeated, killed and robbed of files."""

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import QueryError
from anabranch.operators import operator_from_json
from anabranch.operators.base import Inputs, Offset, Offsets, Operator
from anabranch.operators.live import exchange
from anabranch.operators.tree import remembered
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.checkpoints import Checkpoint, Checkpoints
from anabranch.operators.tree.nodes import Aggregate, Call, Expire, Join, Node, Part, Rows, Source, nodes_to_text
from anabranch.operators.tree.operator import Tree
from anabranch.operators.windows.aggregate import WindowAggregate
from anabranch.operators.windows.last_rows import LastRows
from anabranch.operators.windows.sessions import SessionAggregate
from anabranch.schema import StreamSchema
from anabranch.testing import MemoryLog, OperatorHarness
from anabranch.testing.harness import same
from tests.sampling import sampled

SALES = StreamSchema.of({"item": "STRING", "n": "INT", "ts": "TIMESTAMP"}, time="ts")
PRICES = StreamSchema.of({"_change": "STRING", "item": "STRING", "price": "INT", "at": "TIMESTAMP"}, time="at")
COUNT, TOTAL = Call("c", "count"), Call("t", "sum", ("v",))
SOURCES = (
    Source("sales", (("item", "item"), ("n", "n"), ("ts", "ts"))),
    Source("prices", (("item2", "item"), ("price", "price")), "changes"),
)
TAKINGS = (
    *SOURCES,
    Join(0, 1, "left", (("item", "item2"),)),
    Rows(2, (("item", "item"), ("v", "n * price"))),
    Aggregate(3, ("item",), (COUNT, TOTAL)),
)
RECENT = (SOURCES[0], Expire(0, "ts", 20_000_000), Rows(1, (("item", "item"),), "n > 1"))


def tree(nodes: Any, columns: tuple[str, ...], key: tuple[str, ...]) -> Tree:
    return Tree(nodes_to_text(nodes), columns, key)


VISITS = SessionAggregate(
    "sales", 5_000_000, (("item", "item"),), (("c", "count", None),), (("item", "item"), ("c", "c")), "_time"
)
LAST = LastRows("sales", 2, (("item", "item"),), (("s", "sum", "n"),), (("item", "item"), ("s", "s")), "_time")


def summed(part: Operator, column: str) -> tuple[Node, ...]:
    """For each item how many answers a part has given, and their sum."""
    total = Call("t", "sum", (column,))
    return (
        Part(part.to_json(), (("item", "item"), (column, column))),
        Aggregate(0, ("item",), (COUNT, total)),
    )


TREES = {
    "visits": tree(summed(VISITS, "c"), ("item", "visits", "sold"), ("item",)),
    "last": tree(summed(LAST, "s"), ("item", "rows", "sum"), ("item",)),
    "takings": tree(TAKINGS, ("item", "sold", "total"), ("item",)),
    "recent": tree(RECENT, ("item",), ()),
    "all": tree((*SOURCES, Join(0, 1, "full", (("item", "item2"),))), ("a", "n", "ts", "b", "price"), ()),
}


class Shop:
    """What happens, and what the answers are by definition."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.sales: list[tuple[str | None, int, int]] = []
        self.prices: dict[str, int] = {}
        self.now = 0

    def sell(self) -> dict[str, list[Any]]:
        rows = []
        for _ in range(self.chance.randint(0, 5)):
            self.now += self.chance.randint(0, 3)
            rows.append((self.chance.choice(["a", "b", "c", None]), self.chance.randint(0, 4), self.now))
        self.sales += rows
        times = pa.array([second * 1_000_000 for _, _, second in rows], pa.timestamp("us", "UTC"))
        return {"item": [i for i, _, _ in rows], "n": [n for _, n, _ in rows], "ts": times}

    def price(self) -> dict[str, list[Any]]:
        rows = []
        for _ in range(self.chance.randint(0, 3)):
            item = self.chance.choice("abc")
            known = self.prices.get(item)
            if known is not None:
                self.prices.pop(item)
                if self.chance.random() < 0.5:
                    rows.append(("delete", item, known))
                    continue
                rows.append(("update_before", item, known))
            self.prices[item] = self.chance.randint(1, 9)
            rows.append(("insert" if known is None else "update_after", item, self.prices[item]))
        at = pa.array([self.now * 1_000_000] * len(rows), pa.timestamp("us", "UTC"))
        names = ("_change", "item", "price")
        return {**{name: [row[i] for row in rows] for i, name in enumerate(names)}, "at": at}

    def answer(self, name: str, reached: int) -> collections.Counter[tuple[Any, ...]]:
        if name in ("visits", "last"):
            return self.of_parts(name, reached)
        if name == "recent":
            return collections.Counter(
                (i,) for i, n, s in self.sales if n > 1 and (reached - s * 1_000_000) <= 20_000_000
            )
        if name == "all":
            sold = {i for i, _, _ in self.sales}
            pairs = [(i, n, s, i if i in self.prices else None, self.prices.get(i or "")) for i, n, s in self.sales]
            return collections.Counter(
                [*pairs, *((None, None, None, i, p) for i, p in self.prices.items() if i not in sold)]
            )
        groups: dict[str | None, list[int | None]] = collections.defaultdict(list)
        for item, n, _ in self.sales:
            groups[item].append(n * self.prices[item] if item in self.prices else None)
        return collections.Counter(
            (item, len(values), sum(v for v in values if v is not None) if any(v is not None for v in values) else None)
            for item, values in groups.items()
        )

    def of_parts(self, name: str, reached: int) -> collections.Counter[tuple[Any, ...]]:
        """What the parts have answered, added up for each item."""
        found: dict[str | None, list[int]] = collections.defaultdict(list)
        for item in {item for item, _, _ in self.sales}:
            rows = [(second, n) for sold, n, second in self.sales if sold == item]
            if name == "last":
                found[item] = [n + (rows[i - 1][1] if i else 0) for i, (_, n) in enumerate(rows)]
                continue
            cuts = [i for i, (second, _) in enumerate(rows) if i == 0 or second - rows[i - 1][0] > 5]
            for first, after in itertools.pairwise([*cuts, len(rows)]):
                if (rows[after - 1][0] + 5) * 1_000_000 < reached:
                    found[item].append(after - first)
        return collections.Counter((item, len(many), sum(many)) for item, many in found.items() if many)


def folded(answers: pa.Table, operator: Tree) -> collections.Counter[tuple[Any, ...]]:
    """What the answers add up to; each change must fit what was there."""
    rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    versions = answers.column("_version").to_pylist()
    assert versions == sorted(versions)
    for row in answers.to_pylist():
        key = tuple(row[name] for name in operator.answer_key)
        seconds = {k: v.timestamp() if k == "ts" and v is not None else v for k, v in row.items()}
        values = tuple(seconds[name] for name in operator.columns)
        if row["_change"] in ("delete", "update_before"):
            assert rows.pop(key) == values
        else:
            assert key not in rows
            rows[key] = values
    return collections.Counter(rows.values())


@pytest.mark.parametrize("seed", sampled(list(range(40)), 6, "tree"))
@pytest.mark.parametrize("name", list(TREES))
def test_answers_add_up_to_the_definition(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", seed % 3 * 7)
    monkeypatch.setattr(remembered, "_ROWS_AT_ONCE", 1 + seed % 5)
    shop, operator = Shop(seed), TREES[name]
    assert operator_from_json(operator.to_json()) == operator
    streams = {"sales": SALES, "prices": PRICES}
    harness = OperatorHarness(operator, {stream: streams[stream] for stream in operator.inputs})
    for _ in range(14):
        harness.push("sales", shop.sell())
        if "prices" in operator.inputs:
            harness.push("prices", shop.price())
        harness.step(rows=shop.chance.choice([None, 1, 3]))
        for action in (harness.replay, harness.restart, harness.forget):
            if shop.chance.random() < 0.3:
                action()
        harness.run(rows=shop.chance.choice([None, 2]))
        reached = operator.reached(harness.offsets)
        assert folded(harness.answers(), operator) == shop.answer(name, reached)
        if shop.chance.random() < 0.3:
            harness.restart()
        harness.due()


@pytest.mark.parametrize("name", ["takings", "visits", "last"])
def test_what_is_lost_is_computed_again_from_all_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In several pieces, where that says the same as in one."""
    monkeypatch.setattr(remembered, "_ROWS_AT_ONCE", 3)
    shop, operator = Shop(8), TREES[name]
    streams = {"sales": SALES, "prices": PRICES}
    logs = {stream: MemoryLog(streams[stream]) for stream in operator.inputs}
    harness = OperatorHarness(operator, {stream: streams[stream] for stream in operator.inputs})
    for _ in range(8):
        for stream, rows in (("sales", shop.sell()), ("prices", shop.price())):
            if stream in logs:
                harness.push(stream, rows)
                logs[stream].append(rows)
        start = harness.offsets
        answer = harness.step()
        ours = exchange({})
        inputs = Inputs(logs)
        tasks = operator.plan(start, harness.offsets, inputs, 1)
        batches = [batch for task in tasks for batch in operator.run(task, inputs)]
        assert same(pa.Table.from_batches(batches, operator.schema(inputs)), answer)
        exchange(ours)


def test_all_rows_that_any_part_still_reads_are_held() -> None:
    windows = [
        WindowAggregate("sales", "time", size, size, (), (("c", "count", None),), (("c", "c"),), "_time")
        for size in (60_000_000, 10_000_000)
    ]
    parts = [Part(window.to_json(), ((f"c{i}", "c"),)) for i, window in enumerate(windows)]
    at = {"sales": Offset(100, 95_000_000)}
    for some in (parts, parts[::-1]):
        operator = tree((SOURCES[0], *some, Join(1, 2, "inner", ())), ("a", "b"), ())
        needed = operator.needs(at)["sales"]
        assert needed.row == 100
        assert needed.time == min(window.needs(at)["sales"].time or 0 for window in windows)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_damaged_is_never_fewer_rows(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness gives rows away that were taken in: only a checkpoint says what they were."""
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", 5)
    shop, operator, chance = Shop(seed), TREES["takings"], random.Random(seed)
    harness = OperatorHarness(operator, {"sales": SALES, "prices": PRICES})

    def go_on() -> None:
        for _ in range(50):
            harness.push("sales", shop.sell())
            harness.push("prices", shop.price())
            harness.run()
            (harness.lose_files if chance.random() < 0.5 else harness.flip_bits)(chance)
            assert folded(harness.answers(), operator) == shop.answer("takings", 0)

    with pytest.raises(QueryError, match="STATE_LOST"):
        go_on()


@pytest.mark.parametrize(("took", "written"), [(0.05, 12), (0.5, 3)])
def test_checkpoints_that_take_long_are_written_less_often(
    took: float, written: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Micro-batches of a second."""
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", 1)
    now = 0.0
    times: list[float] = []

    def write(checkpoints: Checkpoints, at: Offsets, kept: Mapping[str, Arrangement]) -> None:
        nonlocal now
        times.append(now)
        real(checkpoints, at, kept)
        now += took

    real = Checkpoints.write
    monkeypatch.setattr(Checkpoints, "write", write)
    monkeypatch.setattr("anabranch.operators.tree.remembered.monotonic", lambda: now)
    operator = tree((SOURCES[0], Aggregate(0, ("item",), (COUNT,))), ("item", "sold"), ("item",))
    harness = OperatorHarness(operator, {"sales": SALES})
    for batch in range(12):
        now = max(now, float(batch))
        sold = pa.array([batch * 1_000_000] * 5, pa.timestamp("us", "UTC"))
        harness.push("sales", {"item": ["a"] * 5, "n": [1] * 5, "ts": sold})
        harness.run()
    assert len(times) == written
    assert all(later - earlier >= (10 * took if took > 0.1 else 0) for earlier, later in itertools.pairwise(times))


def test_a_checkpoint_of_a_later_time_is_not_where_a_micro_batch_begins() -> None:
    """Time alone has moved, and rows have gone with it."""
    checkpoint = Checkpoint({"sales": Offset(5, 100)}, {})
    assert checkpoint.fits({"sales": Offset(6, 100)})
    assert not checkpoint.fits({"sales": Offset(5, 99)})
    assert not checkpoint.fits({"sales": Offset(4, 100)})

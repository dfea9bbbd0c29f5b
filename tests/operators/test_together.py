"""Every operator that may be a member of a host answers there what it answers by itself."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from anabranch.log.slices import slices_of
from anabranch.operators.base import Operator
from anabranch.operators.join.aggregate import WindowJoinAggregate
from anabranch.operators.join.operator import WindowJoin
from anabranch.operators.together import changes, roster
from anabranch.operators.together.body import said_of
from anabranch.operators.together.together import Together
from anabranch.testing.harness import OperatorHarness, same
from tests.operators.test_contract import EXAMPLES, SCHEMA, in_one_batch, rows
from tests.sampling import sampled

MEMBERS: dict[str, Operator] = {
    f"{kind}-{name}": operator
    for kind, operators in EXAMPLES.items()
    for name, operator in operators.items()
    if not (operator.asked_once or operator.reduction())
}


CONDITIONS = ("ok", "v = 1", "v > 0 AND k <> 'a'", "v IS NULL", None)


def alike() -> dict[str, Operator]:
    """Joins that differ in conditions on the rows of each source, and in how sources are called."""
    found: dict[str, Operator] = {}
    for name, operator in MEMBERS.items():
        inner = operator.join if isinstance(operator, WindowJoinAggregate) else operator
        if not isinstance(inner, WindowJoin) or inner.memory is not None:
            continue
        for first, second in itertools.product(CONDITIONS, CONDITIONS[:3]):
            wheres = (first, second, *(where for *_, where in inner.sources[2:]))
            sources = tuple(
                (alias, stream, where) for (alias, stream, _), where in zip(inner.sources, wheres, strict=True)
            )
            join = replace(inner, sources=sources)
            other = replace(operator, join=join) if isinstance(operator, WindowJoinAggregate) else join
            found[f"{name}-{first}-{second}"] = other
    return found


def added(name: str, operator: Operator) -> dict[str, Any]:
    said = said_of(operator, lambda _: SCHEMA.arrow, {"in": 0})
    body = {"query": {"id": name}, "plan": {"operator": operator.to_json()}, **said}
    return {"_time": 0, "change": changes.ADDED, "member": None, "name": name, "body": json.dumps(body)}


def host_of(members: dict[str, Operator]) -> OperatorHarness:
    """A host whose members are there before any row."""
    harness = OperatorHarness(Together("members", ("in",)), {"members": roster.SCHEMA, "in": SCHEMA})
    harness.push("members", pa.Table.from_pylist([added(*each) for each in members.items()], roster.SCHEMA.arrow))
    harness.step()
    return harness


def answers_of(host: OperatorHarness, members: dict[str, Operator]) -> dict[str, pa.Table]:
    """What each member has answered, in the order of the log."""
    found: dict[int, list[pa.Table]] = defaultdict(list)
    for member, table in slices_of(host.answers()):
        found[member].append(table)
    return {name: pa.concat_tables(found[place]) for place, name in enumerate(members) if place in found}


@pytest.mark.slow
@pytest.mark.parametrize("which", ["twice", "alike"])
@pytest.mark.parametrize("size", sampled([31, None], 1, "families"))
def test_what_is_computed_once_for_many_is_what_each_computes_alone(which: str, size: int | None) -> None:
    if which == "twice":
        some = sampled(MEMBERS, 12, "twice")
        members = {f"{name}-{turn}": MEMBERS[name] for turn in range(2) for name in some}
    else:
        members = dict(sampled(alike().items(), 40, "alike"))
    assert len(members) >= 24
    data = rows(120)
    host = host_of(members)
    host.push("in", data)
    host.advance("in", 1_000_000)
    if size is None:
        host.step()
        host.replay()
    else:
        host.run(rows=size)
    answers = answers_of(host, members)
    assert "failed" not in host.work.reports
    for name, operator in members.items():
        wanted = in_one_batch(operator, data)
        assert same(answers[name], wanted) if wanted.num_rows else name not in answers, name


@pytest.mark.slow
@pytest.mark.parametrize("size", sampled([11, None], 1, "together"))
def test_each_answers_as_if_it_were_alone(size: int | None) -> None:
    data = rows(120)
    host = host_of(MEMBERS)
    host.push("in", data)
    host.advance("in", 1_000_000)
    if size is None:
        host.step()
        host.replay()
    else:
        host.run(rows=size)
    answers = answers_of(host, MEMBERS)
    assert "failed" not in host.work.reports
    assert len(MEMBERS) > 30
    for name, operator in MEMBERS.items():
        wanted = in_one_batch(operator, data)
        if wanted.num_rows:
            assert same(answers[name], wanted), name
        else:
            assert name not in answers

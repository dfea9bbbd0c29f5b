"""Every operator that may be a member of a host answers there what it answers by itself."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from anabranch.expressions.atoms import atoms_of
from anabranch.log.slices import slices_of
from anabranch.operators.base import Operator
from anabranch.operators.together import changes, roster
from anabranch.operators.together.together import Together
from anabranch.testing.harness import OperatorHarness, same
from tests.operators.test_contract import EXAMPLES, SCHEMA, in_one_batch, rows
from tests.sampling import sampled

MEMBERS: dict[str, Operator] = {
    f"{kind}-{name}": operator
    for kind, operators in EXAMPLES.items()
    for name, operator in operators.items()
    if not (operator.scratch_is_state or operator.reads_history or operator.asked_once or operator.reduction())
}


def added(name: str, operator: Operator) -> dict[str, Any]:
    condition, _ = operator.condition()
    atoms = atoms_of(condition, SCHEMA.arrow)
    body = {"plan": {"operator": operator.to_json()}, "atoms": list(atoms.items())}
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
    assert host.reported("failed") is None
    assert len(MEMBERS) > 30
    for name, operator in MEMBERS.items():
        wanted = in_one_batch(operator, data)
        if wanted.num_rows:
            assert same(answers[name], wanted), name
        else:
            assert name not in answers

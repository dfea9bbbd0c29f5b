"""Members are sorted out once for each version of their list, and as the list says."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from anabranch.operators.offset import Cohort
from anabranch.operators.pace import ALL
from anabranch.operators.select import SelectRows
from anabranch.operators.together import changes, parted, roster
from anabranch.operators.together.parted import Members
from anabranch.operators.together.roster import Roster
from anabranch.testing.memory_log import MemoryLog

STREAM = pa.schema([("k", pa.int64())])


def said(change: str, number: int, body: str = "") -> dict[str, Any]:
    return {"_time": 0, "change": change, "member": number, "name": f"q{number}", "body": body}


def added(number: int) -> dict[str, Any]:
    operator = SelectRows("s", (("k", "k"),), "k", f"k = {number}")
    body = {"plan": {"operator": operator.to_json()}, "atoms": [[["k", [[number, number + 1]], False, False], ""]]}
    return said(changes.ADDED, number, json.dumps(body))


@pytest.fixture
def listing() -> MemoryLog:
    log = MemoryLog(roster.SCHEMA)
    rows = [*(added(number) for number in range(4)), said(changes.DROPPED, 1)]
    log.append(pa.Table.from_pylist(rows, roster.SCHEMA.arrow))
    return log


def names(parts: list[parted.Part]) -> list[list[str]]:
    return [[entry.name for entry in part[ALL]] for part in parts]


def test_members_of_cohorts_stand_apart_and_those_that_are_gone_nowhere(listing: MemoryLog) -> None:
    known = Roster().follow(listing, 5)
    cohort = Cohort(2, 3, {"s": (0, 0)})
    assert names(parted.parted("l", known, 4, 4, [])) == [["q0", "q1", "q2", "q3"]]
    assert names(parted.parted("l", known, 4, 5, [])) == [["q0", "q2", "q3"]]
    assert names(parted.parted("l", known, 5, 5, [cohort])) == [["q0", "q3"], ["q2"]]
    assert names(parted.parted("l", known, 2, 2, [])) == [["q0", "q1"]]


def test_they_are_sorted_out_once_for_a_version(listing: MemoryLog) -> None:
    known = Roster().follow(listing, 5)
    once = parted.parted("l", known, 5, 5, [])
    assert parted.parted("l", known, 5, 5, []) is once
    for version in range(1, 5):
        parted.parted("l", known, version, version, [])
    again = parted.parted("l", known, 5, 5, [])
    assert again is not once  # only the last few are kept
    assert names(again) == names(once)


def test_the_same_selections_are_made_ready_once_for_all_versions_and_forgotten_with_them(listing: MemoryLog) -> None:
    known = Roster().follow(listing, 5)
    entries = [known.entries[0], known.entries[2]]
    one, other = (Members("l", entries) for _ in range(2))
    assert one.together(STREAM) is other.together(STREAM)
    assert one.together(STREAM) is not Members("elsewhere", entries).together(STREAM)
    assert one.together(STREAM) is not Members("l", entries[:1]).together(STREAM)
    kept = len(parted._selections)
    del one, other
    assert len(parted._selections) == kept - 1

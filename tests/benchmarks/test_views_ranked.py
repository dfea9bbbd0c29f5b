"""The figures of window functions and of the first of an order: with few rows their answers are looked at, too."""

from __future__ import annotations

import pytest

from anabranch.operators.tree.nodes import Call, Node, Ranked, Top
from benchmarks.views import ranked

BY_X = (("x", False, True),)


@pytest.mark.parametrize("gone_first", [False, True])
@pytest.mark.parametrize(
    "node", [Ranked(0, ("g",), BY_X, (Call("it", "row_number"),)), Top(0, (), BY_X, 10), Top(0, ("g",), BY_X, 3)]
)
def test_answers(
    node: Node, gone_first: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ranked, "ROWS", 2000)
    monkeypatch.setattr(ranked, "ROUNDS", 3)
    ranked.timed("it", node, 30, 400, gone_first)
    assert " changes/s" in capsys.readouterr().out

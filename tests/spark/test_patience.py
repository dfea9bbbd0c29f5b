"""An idle query looks ever less often, up to a limit, and at once again when rows came."""

from __future__ import annotations

import time

import pytest

from anabranch.spark import source


def test_looks_get_rare_while_nothing_comes_and_frequent_when_something_does(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    patience = source._Patience()
    seen = []
    for idle in (0.0, 0.4, 1.0, 2.5, 60.0):
        now[0] = 100.0 + idle
        seen.append((round(patience.pause(), 4), round(patience.round(0.04), 4)))
    assert seen == [(0.004, 0.04), (0.004, 0.04), (0.01, 0.1), (0.025, 0.2), (0.025, 0.2)]
    assert patience.round(0.0) == 0, "who is told not to wait does not"
    patience.moved()
    assert (patience.pause(), patience.round(0.04)) == (0.004, 0.04)

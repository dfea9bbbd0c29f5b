"""The figures of steps: with few rows their answers are looked at, too."""

from __future__ import annotations

import pytest

from benchmarks.views import steps


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BATCH", "GROUPS", "KEPT"):
        monkeypatch.setattr(steps, name, 60)


@pytest.mark.parametrize(("function", "column"), [("sum", "x"), ("sum", "d"), ("min", "x")])
def test_grouped(function: str, column: str) -> None:
    assert " changes/s" in str(steps.grouped("it", function, column, 3))


def test_joined() -> None:
    assert len(steps.joined("it", 3).seconds) == 3

"""Damage is an error that has a name, or makes no difference; never another answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import chaos_damage
from tests.sampling import SEED


@pytest.mark.chaos
@pytest.mark.parametrize("kind", sorted(chaos_damage.HARM))
def test_damage_never_changes_what_is_read(kind: str, tmp_path: Path) -> None:
    counted = chaos_damage.run(kind, rounds=8, seed=SEED, place=tmp_path)
    assert counted.total() >= 8
    assert counted.keys() - {"right"}, "nothing was hit that matters"

"""Archives lose nothing and hold nothing twice, however often archiver, compactor and vacuumer are killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import archive_chaos
from tests.sampling import ROUNDS, SEED


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_archives_survive_kill_minus_9_of_who_writes_compacts_and_vacuums_them(tmp_path: Path) -> None:
    counted = archive_chaos.run(rounds=ROUNDS, seed=SEED, place=tmp_path)
    assert counted["rows"] > 0
    assert counted["logged"] < counted["rows"]
    assert counted["versions"] > 2 * ROUNDS

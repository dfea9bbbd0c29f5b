"""Nothing acknowledged is lost and nothing comes twice, however often the system is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import chaos, chaos_engine, chaos_members, chaos_views
from tests.sampling import ROUNDS, SEED, sampled


@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_rows_and_answers_survive_kill_minus_9_of_the_whole_system(tmp_path: Path) -> None:
    counted = chaos.run(rounds=ROUNDS, seed=SEED, place=tmp_path)
    assert counted["rows"] > 0
    assert counted["load"] > 0
    assert counted["again"] > 0


@pytest.mark.long  # `tests/spark/test_engine_lost.py` and `test_together.py` lose a planner and a JVM
@pytest.mark.spark
@pytest.mark.chaos
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", sampled(chaos_engine.WHATS, 1, "chaos"))
def test_rows_and_answers_survive_kill_minus_9_of_one_part(tmp_path: Path, what: str) -> None:
    counted = chaos_engine.run(rounds=ROUNDS, seed=SEED, place=tmp_path, what=what)
    assert counted["events"] >= ROUNDS
    assert counted["load"] > 0
    assert counted["again"] > 0


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_answers_of_members_that_come_and_go_survive_kill_minus_9(tmp_path: Path) -> None:
    counted = chaos_members.run(rounds=ROUNDS, seed=SEED, place=tmp_path)
    assert counted["queries"] > 100
    assert counted["answers"] > 1000


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_views_survive_kill_minus_9(tmp_path: Path) -> None:
    counted = chaos_views.run(rounds=ROUNDS - 1, seed=SEED, place=tmp_path)
    assert counted["rows"] > 100
    assert counted["changes"] > 1000
    assert counted["let_go"] > 100

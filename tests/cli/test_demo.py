"""The demo from beginning to end, as `make demo` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import anabranch


@pytest.mark.spark
@pytest.mark.slow
def test_demo_ends_by_itself_with_checked_answers_and_leaves_nothing(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(anabranch.__file__).parents[1]), "TMPDIR": str(tmp_path)}
    environment.pop("ANABRANCH_DB", None)
    done = subprocess.run(
        [sys.executable, "-m", "anabranch.cli", "demo", "--seconds", "5", "--rate", "2000", "--json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["rows"] > 2 * 2_000 * 4
    assert {check["query"]: check["equal"] for check in summary["checked"]} == {
        "load": True,
        "talkers": True,
        "big": True,
        "share": True,
    }
    answers = {query["query"]: query["answers"] for query in summary["queries"]}
    assert answers["big"] > 0
    assert answers["share"] >= 4
    assert summary["latency_p50"] > 0
    assert not list(tmp_path.glob("anabranch-demo-*"))

"""The setting `window_memory_bytes` holds for whoever asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch.testing.sparkless import SparklessDatabase
from anabranch.windows.basic.spill import SpillFile

SELECT = "SELECT mode(v) AS most FROM s WINDOW = INTERVAL 40 SECONDS SLIDE INTERVAL 1 SECOND"


@pytest.mark.parametrize("limit", [1, None])
def test_a_select_asked_once_and_a_frame_keep_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    spilled: list[Any] = []
    write = SpillFile.write

    def noted(file: SpillFile, *entries: Any) -> Any:
        spilled.append(entries)
        return write(file, *entries)

    monkeypatch.setattr(SpillFile, "write", noted)
    settings = {} if limit is None else {"window_memory_bytes": limit}
    asked: list[Any] = []
    with SparklessDatabase(tmp_path / "db", settings=settings) as db:
        db.sql("CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("s", [{"v": n % 7, "ts": f"2026-01-01 00:00:{n:02d}"} for n in range(60)])
        assert db.sql(SELECT).table().num_rows > 50
        assert bool(spilled) == (limit is not None)
        monkeypatch.setattr(db.engine(), "stream", lambda options, rest: asked.append(options), raising=False)
        db.dataframe(SELECT)
        assert asked[0].window_memory_bytes == db.settings["window_memory_bytes"]

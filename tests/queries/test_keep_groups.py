"""Views of the groups with the newest rows, in a database that is closed, opened again and damaged. Without Spark."""

from __future__ import annotations

import datetime as dt
import random
from collections import OrderedDict
from pathlib import Path

import pytest

from anabranch.operators.live import forget_all
from anabranch.operators.tree import remembered
from anabranch.tables import keeping
from anabranch.testing.sparkless import SparklessDatabase, Unkindness

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MOST = 7
UNKIND = {"kind": Unkindness(), "repeated": Unkindness(replay=True), "faulty": Unkindness(faults=True)}


@pytest.mark.slow
@pytest.mark.parametrize("unkindness", UNKIND)
def test_a_view_is_what_a_dict_says_whatever_happens(
    unkindness: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "_LEAST_BETWEEN", 30)  # checkpoints come often
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 40)
    chance = random.Random(unkindness)
    settings = {"segment_bytes": 2000, "segment_parts": 2, "batch_rows": 9}
    groups: OrderedDict[int, list[int]] = OrderedDict()
    rows = forgotten = 0

    def opened() -> SparklessDatabase:
        return SparklessDatabase(tmp_path / "db", settings=settings, unkindness=UNKIND[unkindness])

    db = opened()
    db.sql(
        "CREATE STREAM s (k INT, v INT, ts TIMESTAMP) TIMESTAMP BY ts;"
        f"CREATE MATERIALIZED VIEW newest AS SELECT k, count(*) AS n, min(v) AS v FROM s GROUP BY k KEEP GROUPS {MOST}"
    )
    for _ in range(25):
        keys = [chance.choice([chance.randrange(5), chance.randrange(20)]) for _ in range(chance.randrange(40))]
        made: list[dict[str, object]] = []
        for k in keys:
            v = chance.randrange(9)
            made.append({"k": k, "v": v, "ts": BEGIN + dt.timedelta(seconds=rows + len(made))})
            groups.setdefault(k, []).append(v)
            groups.move_to_end(k)
            if len(groups) > MOST:
                groups.popitem(last=False)
                forgotten += 1
        rows += len(made)
        if made:
            db.append("s", made)
        if chance.random() < 0.5:
            db.catch_up()
            wanted = [{"k": k, "n": len(group), "v": min(group)} for k, group in sorted(groups.items())]
            assert db.view("newest").table().to_pylist() == wanted
        if chance.random() < 0.3:
            db.close()
            forget_all()
            db = opened()
    db.catch_up()
    if unkindness == "kind":
        stats = db.get_query("newest.changes").stats()
        thrown = stats["throw"]
        assert thrown["rows"] == rows + forgotten  # rows are in the totals of their group
        (why,) = (step["throw"]["why"] for step in stats["steps"].values() if step["throw"]["rows"])
        assert why == f"they are in the totals of their group, or their group is not among the {MOST} newest"
    assert forgotten > 50
    db.close()

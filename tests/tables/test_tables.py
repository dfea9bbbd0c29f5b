"""Tables against a dict: any statements, by several writers, with snapshots and openings at any moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import AnabranchError
from anabranch.log.segment import Segment
from anabranch.tables import keeping
from anabranch.testing.clock import ManualClock
from anabranch.testing.sparkless import SparklessDatabase
from tests.sampling import ROUNDS, sampled

Model = dict[tuple[int, str], tuple[Any, ...]]
DECLARED = "CREATE TABLE t (a INT, b STRING, n INT, d DOUBLE, PRIMARY KEY (a, b))"


def rows_of(db: SparklessDatabase) -> Model:
    return {(r["a"], r["b"]): (r["n"], r["d"]) for r in db.table("t").to_pylist()}


class Naive:
    """What a table is: a row for each key, changed by all of a statement or none of it."""

    def __init__(self, chance: random.Random) -> None:
        self.rows: Model = {}
        self.chance = chance

    def some_rows(self) -> list[dict[str, Any]]:
        chance = self.chance
        return [
            {
                "a": chance.randint(0, 4),
                "b": chance.choice("xyz"),
                "n": chance.choice([None, 1, 2]),
                "d": chance.random(),
            }
            for _ in range(chance.randint(1, 4))
        ]

    def statement(self, db: SparklessDatabase) -> None:
        """One statement, done to both; what one refuses the other does."""
        kind = self.chance.choice(["insert", "upsert", "update", "move", "delete", "keys", "merge"])
        after, call = getattr(self, f"_{kind}")(db)
        try:
            call()
            done = True
        except AnabranchError as problem:
            if problem.name not in ("KEY_EXISTS", "KEY_TWICE"):
                raise
            done = False
        assert done == (after is not None), (kind, after)
        if after is not None:
            self.rows = after

    def _distinct(self, rows: list[dict[str, Any]]) -> Model | None:
        given = {(r["a"], r["b"]): (r["n"], r["d"]) for r in rows}
        return given if len(given) == len(rows) else None

    def _insert(self, db: SparklessDatabase) -> Any:
        rows = self.some_rows()
        given = self._distinct(rows)
        fine = given is not None and not given.keys() & self.rows.keys()
        return ({**self.rows, **given} if fine and given is not None else None), lambda: db.append("t", rows)

    def _upsert(self, db: SparklessDatabase) -> Any:
        rows = self.some_rows()
        given = self._distinct(rows)
        return (None if given is None else {**self.rows, **given}), lambda: db.upsert("t", rows)

    def _update(self, db: SparklessDatabase) -> Any:
        a = self.chance.randint(0, 4)
        after = {k: ((v[0] or 0) + 1, v[1]) if k[0] >= a else v for k, v in self.rows.items()}
        return after, lambda: db.sql(f"UPDATE t SET n = coalesce(n, 0) + 1 WHERE a >= {a}")

    def _move(self, db: SparklessDatabase) -> Any:
        b = self.chance.choice("xyz")
        moved = [((k[0] + 1, k[1]) if k[1] == b else k, v) for k, v in self.rows.items()]
        if self.chance.random() < 0.5:  # all to one key: refused where there are several
            moved = [((9, k[1]) if k[1] == b else k, v) for k, v in self.rows.items()]
            return self._or_none(moved), lambda: db.sql(f"UPDATE t SET a = 9 WHERE b = '{b}'")
        return self._or_none(moved), lambda: db.sql(f"UPDATE t SET a = a + 1 WHERE b = '{b}'")

    def _or_none(self, rows: list[Any]) -> Model | None:
        return dict(rows) if len(dict(rows)) == len(rows) else None

    def _delete(self, db: SparklessDatabase) -> Any:
        a = self.chance.randint(0, 5)
        return {k: v for k, v in self.rows.items() if k[0] != a}, lambda: db.sql(f"DELETE FROM t WHERE a = {a}")

    def _keys(self, db: SparklessDatabase) -> Any:
        keys = list({(self.chance.randint(0, 4), self.chance.choice("xyz")) for _ in range(3)})
        after = {k: v for k, v in self.rows.items() if k not in keys}
        return after, lambda: db.delete("t", [{"a": a, "b": b} for a, b in keys])

    def _merge(self, db: SparklessDatabase) -> Any:
        """Rows of the table with another first part of the key meet it: deleted, changed or inserted."""
        step = self.chance.randint(0, 2)
        after = dict(self.rows)
        for (a, b), (n, d) in self.rows.items():
            key = (a + step, b)
            if key in self.rows and b == "x":
                after.pop(key)
            elif key in self.rows:
                after[key] = (n, self.rows[key][1])
            elif d is not None and d < 0.5:
                after[key] = (n, None)
        return after, lambda: db.sql(
            f"""MERGE INTO t USING (SELECT a + {step} AS k, b, n, d FROM t) AS s ON t.b = s.b AND s.k = t.a
                WHEN MATCHED AND s.b = 'x' THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n
                WHEN NOT MATCHED AND s.d < 0.5 THEN INSERT (a, b, n) VALUES (s.k, s.b, s.n)"""
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled(list(range(40)), 2, "tables"))
def test_any_statements_by_two_writers(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 10**9 if seed % 3 else 7)
    chance = random.Random(seed)
    clock = ManualClock("2026-01-01 00:00:00")

    def opened() -> SparklessDatabase:
        return SparklessDatabase(tmp_path / "db", settings={"segment_parts": 5}, clock=clock)

    first, second = opened(), opened()
    first.sql(DECLARED + (" RETAIN INTERVAL 10 SECONDS" if seed % 2 else ""))
    naive = Naive(chance)
    for _ in range(40):
        clock.advance(chance.randint(0, 2))
        naive.statement(chance.choice([first, second]))
        assert rows_of(chance.choice([first, second])) == naive.rows
        if chance.random() < 0.1:
            first.table_writer("t").snapshot()
        if chance.random() < 0.1:
            second.close()
            second = opened()
    whole = first.table("t")
    assert whole.equals(second.table("t"))
    assert whole.equals(opened().table("t"))
    assert whole.column("a").to_pylist() == sorted(whole.column("a").to_pylist())
    if not seed % 2:
        assert replayed(first) == naive.rows
    assert first.check().fine
    first.close()
    second.close()


def replayed(db: SparklessDatabase) -> Model:
    """The rows that follow from the changes, one by one; each must fit what was there."""
    rows: Model = {}
    reader = db.reader("t.changes")
    version = 0
    for change in reader.read(0, reader.end().row).to_pylist():
        key, values = (change["a"], change["b"]), (change["n"], change["d"])
        assert change["_version"] in (version, version + 1)
        version = change["_version"]
        if change["_change"] in ("delete", "update_before"):
            assert rows.pop(key) == values
        else:
            assert key not in rows
            rows[key] = values
    return rows


def test_changes_that_change_nothing_are_none(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(DECLARED)
        db.append("t", [{"a": 1, "b": "x", "n": 1, "d": None}])
        assert db.sql("UPDATE t SET n = 1").message == "1 row updated"
        assert db.upsert("t", [{"a": 1, "b": "x", "n": 1, "d": None}]) == 1
        assert db.delete("t", [{"a": 2, "b": "x"}]) == 0
        assert db.reader("t.changes").end().row == 1


def filled(path: Path, rows: int = 5) -> SparklessDatabase:
    db = SparklessDatabase(path)
    db.sql(DECLARED)
    for a in range(rows):
        db.append("t", [{"a": a, "b": "x", "n": a, "d": None}])
    return db


@pytest.mark.slow  # rows that are missing are looked for a while
def test_a_segment_cut_off_is_missed_and_never_a_smaller_table(tmp_path: Path) -> None:
    filled(tmp_path / "db").close()
    segments = sorted((tmp_path / "db/streams/t=2Echanges/segments").glob("seg-*"))
    segments[2].write_bytes(segments[2].read_bytes()[:-7])
    with SparklessDatabase(tmp_path / "db") as db:
        with pytest.raises(AnabranchError, match="ROWS_ARE_MISSING"):
            db.table("t")
        assert not db.check().fine


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["lost", "cut", "flipped"])
def test_a_snapshot_that_is_lost_is_done_without_or_missed(damage: str, tmp_path: Path) -> None:
    db = filled(tmp_path / "db")
    before = rows_of(db)
    db.table_writer("t").snapshot()
    db.close()
    place = tmp_path / "db/streams/t=2Echanges"
    (snapshot,) = (place / "snapshots").glob("snap-*")
    whole = snapshot.read_bytes()
    match damage:
        case "lost":
            snapshot.unlink()
        case "cut":
            snapshot.write_bytes(whole[:-9])
        case _:
            snapshot.write_bytes(whole[:100] + bytes([whole[100] ^ 1]) + whole[101:])
    with SparklessDatabase(tmp_path / "db") as db:
        assert rows_of(db) == before  # the log has it all
        assert damage == "lost" or not db.check().fine
    for segment in (place / "segments").glob("seg-*"):  # as RETAIN would, which relied on the snapshot
        known = Segment.named(segment.name)
        assert known is not None
        if known.first < 3:
            segment.unlink()
    from anabranch.log import Storage, lost

    lost.keep_from(Storage(str(place)), 3)
    with SparklessDatabase(tmp_path / "db") as db, pytest.raises(AnabranchError, match="TABLE_IS_DAMAGED"):
        db.table("t")


@pytest.mark.slow
@pytest.mark.parametrize("round", range(ROUNDS // 2))
def test_a_process_that_is_killed_leaves_all_of_a_statement_or_nothing(round: int, tmp_path: Path) -> None:
    """A child adds 50 rows at a time and says so; what it has said is there, and no part of a statement."""
    with SparklessDatabase(tmp_path / "db") as db:
        db.sql(DECLARED)
    program = textwrap.dedent(
        """
        import sys
        from anabranch.tables import keeping
        from anabranch.testing.sparkless import SparklessDatabase
        keeping._LEAST_TAIL = 300
        db = SparklessDatabase(sys.argv[1])
        for a in range(10_000):
            db.append("t", [{"a": a, "b": str(i), "n": i, "d": None} for i in range(50)])
            if a > 2:
                db.sql(f"DELETE FROM t WHERE a = {a - 3}")
            print(a, flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    stop, said = random.Random(round).randint(4, 12), -1
    for line in child.stdout:
        said = int(line)
        if said >= stop:
            break
    os.kill(child.pid, signal.SIGKILL)
    said = max([said, *(int(line) for line in child.stdout.read().split("\n")[:-1] if line)])
    child.wait()
    with SparklessDatabase(tmp_path / "db") as db:
        found = [a for a, _ in rows_of(db)]
        groups = {a: found.count(a) for a in set(found)}
        assert set(groups.values()) == {50}
        assert max(groups) in (said, said + 1)
        assert min(groups) in (max(groups) - 2, max(groups) - 3)
        db.append("t", [{"a": -1, "b": "still", "n": 1, "d": None}])


@pytest.mark.slow
def test_changes_are_let_go_of_and_a_row_from_before_meets_the_oldest_state_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "_LEAST_TAIL", 4)
    clock = ManualClock("2026-01-01 00:00:00")
    with SparklessDatabase(tmp_path / "db", settings={"segment_parts": 2}, clock=clock) as db:
        db.sql("CREATE TABLE t (k INT PRIMARY KEY, v INT) RETAIN INTERVAL 10 SECONDS")
        db.sql("CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts")
        db.append("t", [{"k": 1, "v": 0}])
        for v in range(1, 60):
            clock.advance(1)
            db.sql(f"UPDATE t SET v = {v}")
        reader = db.reader("t.changes")
        assert 60 < reader.first_row() < reader.end().row - 10
        assert len(list((tmp_path / "db/streams/t=2Echanges/snapshots").iterdir())) < 12
        second = SparklessDatabase(tmp_path / "db", clock=clock)
        assert second.table("t").to_pylist() == [{"k": 1, "v": 59}]
        second.close()
        db.append("s", [{"k": 1, "ts": f"2026-01-01 00:00:{s:02}"} for s in (1, 55, 58)])
        db.sql("CREATE CONTINUOUS QUERY q AS SELECT v FROM s JOIN t FOR SYSTEM_TIME AS OF s.ts ON s.k = t.k")
        clock.advance(1)
        db.catch_up()
        oldest, *others = db.get_query("q").table().column("v").to_pylist()
        assert others == [55, 58]
        assert 20 < oldest < 55
        for v in range(60, 90):  # what the query may still ask for stays
            clock.advance(1)
            db.sql(f"UPDATE t SET v = {v}")
        db.append("s", [{"k": 1, "ts": "2026-01-01 00:00:58"}])
        clock.advance(1)
        db.catch_up()
        assert db.get_query("q").table().column("v").to_pylist()[-1] == 58
        assert db.check().fine


def test_writers_that_start_at_once_take_turns(tmp_path: Path) -> None:
    with SparklessDatabase(tmp_path / "db") as first, SparklessDatabase(tmp_path / "db") as second:
        first.sql("CREATE TABLE c (k INT PRIMARY KEY, n INT)")
        first.append("c", [{"k": 1, "n": 0}])

        def counts(db: SparklessDatabase) -> None:
            for _ in range(10):
                db.sql("UPDATE c SET n = n + 1")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(counts, [first, second, first, second]))
        assert first.table("c").to_pylist() == second.table("c").to_pylist() == [{"k": 1, "n": 40}]
        assert first.table_writer("c").state().version == 41

"""Views under kill -9: whenever the process dies, each is in the end what its SELECT gives over what there is.

A life opens the database, goes on, and draws what it does next (change tables, append, make and drop views) from the
number of the step. What it has done for good can be read off the database: rows by their producer's batch, the step
of the tables by a row that each statement changes as well. It is killed at a random moment. Meanwhile logs let go of
their changes, and snapshots and checkpoints come often.

In the end the rows of each view are those that DuckDB computes from the rows of tables and streams; the changes that
are left in its log, added to the newest snapshot before them or to nothing, come to the same, each fits what was
there, and versions never go back: not in the log, and not for who looks at a view after each death.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from anabranch.errors import AnabranchError
from anabranch.operators.tree import remembered
from anabranch.tables import keeping
from anabranch.tables.declaration import NUMBER
from anabranch.testing.processes import kill
from anabranch.testing.sparkless import SparklessDatabase
from tests.operators.asked_of_duckdb import answered

BASE_US = 1_767_225_600_000_000
SETTINGS = {"segment_bytes": 20_000, "segment_parts": 4, "batch_rows": 300}
STEPS = 20
DECLARED = [
    "CREATE TABLE items (item INT PRIMARY KEY, kind STRING, price INT, step INT) RETAIN INTERVAL 1 MICROSECOND",
    "CREATE TABLE shops (shop INT PRIMARY KEY, city STRING, step INT)",
    "CREATE STREAM sales (n BIGINT, item INT, shop INT, x DOUBLE, at TIMESTAMP) TIMESTAMP BY at",
    "CREATE STREAM visits (shop INT, n BIGINT, at TIMESTAMP) TIMESTAMP BY at",
]
"""`n` numbers the rows of a stream; `step` says in which step a row of a table was changed last."""
VIEWS = {
    "priced": "SELECT s.n, s.item, i.price, s.x FROM sales s JOIN items i ON s.item = i.item",
    "per_kind": "SELECT i.kind, count(*) AS n, CAST(sum(i.price) AS BIGINT) AS euro, min(i.price) AS least, "
    "max(s.n) AS newest FROM sales s JOIN items i ON s.item = i.item GROUP BY i.kind",
    "cheapest": "SELECT kind, min(price) AS price, count(*) AS n FROM items GROUP BY kind",
    "dearest": "SELECT item, price FROM items ORDER BY price DESC, item LIMIT 4",
    "unsold": "SELECT item, kind FROM items i WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.item = i.item)",
    "seen": "SELECT shop FROM shops h WHERE EXISTS (SELECT 1 FROM visits v WHERE v.shop = h.shop)",
    "pairs": "SELECT a.item AS a, b.item AS b FROM items a JOIN items b ON a.price = b.price AND a.item < b.item",
    "outer_join": "SELECT h.city, s.n FROM shops h LEFT JOIN sales s ON h.shop = s.shop AND s.x > 0.8",
    "kinds": "SELECT DISTINCT kind FROM items UNION ALL SELECT city FROM shops",
    "places": "SELECT item, kind, row_number() OVER (PARTITION BY kind ORDER BY price, item) AS place FROM items",
    "all_items": "SELECT count(*) AS n, CAST(sum(price) AS BIGINT) AS euro FROM items",
    "prices": "SELECT price FROM items",
    "backwards": "SELECT reverse(i.kind) AS kind, count(*) AS n, CAST(sum(i.price) AS BIGINT) AS euro "
    "FROM sales s JOIN items i ON s.item = i.item GROUP BY reverse(i.kind)",
    "mirrored": "SELECT reverse(kind) AS kind, price FROM items",
}
"""The last ones are asked anew as a whole."""
OVER_VIEWS = {
    "of_cheapest": "SELECT count(*) AS kinds, CAST(sum(price) AS BIGINT) AS euro FROM cheapest",
    "best": "SELECT c.kind, p.n, p.euro FROM cheapest c JOIN per_kind p ON c.kind = p.kind",
    "dear_and_unsold": "SELECT d.item FROM dearest d JOIN unsold u ON d.item = u.item",
    "of_best": "SELECT max(euro) AS most FROM best",
    "of_backwards": "SELECT max(n) AS most FROM backwards",
    "of_mirrored": "SELECT reverse(kind) AS kind, count(*) AS n FROM mirrored GROUP BY reverse(kind)",
}
WINDOWED = (
    "SELECT w.shop, w.n, h.city FROM (SELECT shop, count(*) AS n FROM sales "
    "WINDOW = INTERVAL 5 SECONDS GROUP BY shop) w JOIN shops h ON w.shop = h.shop"
)
"""Windows of a stream, joined with a table; DuckDB is asked for the newest that is over."""
CHANGES = {
    "kind_changes": "SELECT kind, count(*) AS n FROM items GROUP BY kind EMIT CHANGES",
    "sale_changes": "SELECT s.n, i.kind FROM sales s JOIN items i ON s.item = i.item WHERE s.x > 0.5 "
    "EMIT CHANGES ACCEPT UNBOUNDED",
    "mirrored_changes": "SELECT reverse(kind) AS kind, count(*) AS n FROM items GROUP BY reverse(kind) EMIT CHANGES",
}


def opened(path: str) -> SparklessDatabase:
    return SparklessDatabase(path, settings=SETTINGS, evaluator=answered)


def text_of(name: str) -> str:
    return {**VIEWS, **OVER_VIEWS, "windowed": WINDOWED}[name]


def statement(name: str) -> str:
    """What makes a view; half of them let go of their changes at once."""
    retain = "RETAIN INTERVAL 1 MICROSECOND " if random.Random(name).random() < 0.5 else ""
    return f"CREATE MATERIALIZED VIEW IF NOT EXISTS {name} {retain}AS {text_of(name)} ACCEPT UNBOUNDED"


# -- what a step does --------------------------------------------------------------------------------


def sales(step: int) -> pa.Table:
    chance = random.Random(f"sales {step}")
    first, count = step * 20, 20
    return pa.table(
        {
            "n": list(range(first, first + count)),
            "item": pa.array([chance.randrange(30) for _ in range(count)], pa.int32()),
            "shop": pa.array([chance.choice([*range(6), None]) for _ in range(count)], pa.int32()),
            "x": [chance.random() for _ in range(count)],
            "at": pa.array([BASE_US + i * 50_000 for i in range(first, first + count)]).cast(pa.timestamp("us", "UTC")),
        }
    )


def visits(step: int) -> pa.Table:
    chance = random.Random(f"visits {step}")
    times = pa.array([BASE_US + step * 1_000_000] * 2).cast(pa.timestamp("us", "UTC"))
    shops = pa.array([chance.randrange(8) for _ in range(2)], pa.int32())
    return pa.table({"shop": shops, "n": [2 * step, 2 * step + 1], "at": times})


def change_tables(db: SparklessDatabase, step: int) -> None:
    """Statements that come to the same when they are repeated."""
    chance = random.Random(f"tables {step}")
    items = chance.sample(range(30), 6)
    kinds = [chance.choice(["a", "b", "c", None]) for _ in items]
    db.upsert(
        "items", {"item": items, "kind": kinds, "price": [chance.randrange(20) for _ in items], "step": [step] * 6}
    )
    db.delete("items", {"item": chance.sample(range(30), 3)})
    shop = chance.randrange(8)
    if chance.random() < 0.7:
        db.upsert("shops", {"shop": [shop], "city": [chance.choice("rst")], "step": [step]})
    else:
        db.delete("shops", {"shop": [shop]})


def made_and_dropped(step: int) -> tuple[list[str], list[str]]:
    """Which views a step makes, where they are not there, and which it drops."""
    chance = random.Random(f"views {step}")
    if step == 0:
        return [*VIEWS, *OVER_VIEWS, "windowed"], []
    dropped = chance.choice([["priced"], ["of_best"], ["dear_and_unsold", "dearest"], ["kinds"], [], [], []])
    return [], dropped


def steps(db: SparklessDatabase, first: int, say: Any) -> None:
    for step in range(first, STEPS):
        if step == 0:
            for name, select in CHANGES.items():
                if not db.catalog.has_query(name):
                    db.query(select, name=name)
        made, dropped = made_and_dropped(step)
        for name in made:
            db.sql(statement(name))
        db.append("sales", sales(step), producer="chaos", batch=step)
        db.append("visits", visits(step), producer="chaos", batch=step)
        change_tables(db, step)
        for name in dropped:
            db.sql(f"DROP VIEW IF EXISTS {name}")
        for name in reversed(dropped):  # made anew they begin with what there is
            db.sql(statement(name))
        db.catch_up()
        db._queries.look_after()  # its thread does so once a second
        if step % 7 == 3:
            some = random.Random(step).choice(["cheapest", "per_kind"])
            db.sql(f"STOP QUERY {some}.changes")
            db.sql(f"START QUERY {some}.changes")
        say(step)


def live(path: str) -> None:
    """Be the process that gets killed; the step that was begun is done again."""
    keeping._LEAST_TAIL, remembered._LEAST_BETWEEN = 60, 40
    done = Path(path).parent / "done"

    def say(step: int) -> None:
        (done.parent / "done.new").write_text(str(step + 1))
        (done.parent / "done.new").rename(done)
        print(step, flush=True)

    first = 0
    with contextlib.suppress(FileNotFoundError):
        first = int(done.read_text())
    with opened(path) as db:
        print("open", flush=True)
        steps(db, first, say)
        db.catch_up()
    print("end", flush=True)


# -- lives and deaths --------------------------------------------------------------------------------


def run(rounds: int, seed: int, place: Path) -> dict[str, int]:
    """Kill and resume, then check everything; gives what was counted."""
    path = str(place / "river")
    with opened(path) as db:
        for text in DECLARED:
            db.sql(text)
    chance = random.Random(seed)
    kills = 0
    versions: dict[str, tuple[str, int]] = {}
    for _ in range(rounds):
        kills += _one_life(path, chance.uniform(0.05, 1.5))
        _look(path, versions)
    while _one_life(path, 600):
        pass
    return {"kills": kills, **_check(path)}


def _one_life(path: str, delay: float) -> bool:
    """Whether the process was killed; else it came to the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos_views", "--live", path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    timer: threading.Timer | None = None
    ended = False
    for line in process.stdout:
        if timer is None:
            timer = threading.Timer(delay, kill, (process.pid,))
            timer.start()
        ended = ended or line.strip() == "end"
    code = process.wait()
    assert timer is not None, f"the process died by itself with {code}"
    timer.cancel()
    assert ended or code == -9, f"the process ended with {code}"
    return not ended


def _look(path: str, versions: dict[str, tuple[str, int]]) -> None:
    """What who does not run the views sees of them after a death: never less than before."""
    with opened(path) as db:
        for info in db.catalog.views():
            with contextlib.suppress(AnabranchError):  # it may be half made
                state = db.view_state(info.name)
                known = versions.get(info.name)
                assert known is None or known[0] != info.id or state.version >= known[1], f"{info.name} went back"
                versions[info.name] = (info.id, state.version)


def _check(path: str) -> dict[str, int]:
    with opened(path) as db:
        db.catch_up()
        with duckdb.connect() as duck:
            for table in ("items", "shops"):
                duck.register(table, db.table(table))
            for stream in ("sales", "visits"):
                reader = db.reader(stream)
                duck.register(stream, reader.read(0, reader.end().row))
            counted = {"rows": 0, "changes": 0, "let_go": 0}
            for name in [*VIEWS, *OVER_VIEWS, "windowed"]:
                view = db.view(name)
                assert view.query.status == "running", f"{name}: {view.query.failure}"
                rows = view.table()
                wanted = duck.sql(_definition(name)).arrow().read_all()
                assert _sorted(rows) == _sorted(wanted), f"{name} is not what its SELECT gives"
                duck.register(name, rows)
                counted["rows"] += rows.num_rows
                counted["changes"] += _check_log(db, name)
                counted["let_go"] += db.reader(f"{name}.changes").first_row()
            for name, select in CHANGES.items():
                query = db.get_query(name)
                assert query.status == "running", f"{name}: {query.failure}"
                wanted = duck.sql(select.split(" EMIT ")[0]).arrow().read_all()
                assert _sorted(query.store()) == _sorted(wanted), f"{name} does not come to what its SELECT gives"
        assert db.check().fine
    return counted


def _definition(name: str) -> str:
    if name != "windowed":
        return text_of(name)
    return (
        'SELECT w.shop, w.n, h.city FROM (SELECT shop, time_bucket(INTERVAL 5 SECONDS, "at") AS t, count(*) AS n '
        "FROM sales GROUP BY ALL) w JOIN shops h ON w.shop = h.shop "
        'WHERE w.t + INTERVAL 5 SECONDS = (SELECT time_bucket(INTERVAL 5 SECONDS, max("at")) FROM sales)'
    )


def _check_log(db: SparklessDatabase, view: str) -> int:
    """The changes that are left: each fits what was there, and together they come to the rows."""
    reader: Any = db.catalog.open_stream(f"{view}.changes")
    reader.refresh()
    begin, end = int(reader.oldest_state()), int(reader.end().row)
    key = db.catalog.view(view).key
    state = reader.state_at(begin).table.to_pylist()
    there = {tuple(row[k] for k in key): row for row in state}
    version = 0
    for change in reader.read(begin, end).to_pylist():
        at = tuple(change[k] for k in key)
        row = {name: change[name] for name in reader.table.schema.names}
        if change["_change"] in ("delete", "update_before"):
            assert there.pop(at, None) == row, f"{view}: what goes was not there, {change}"
        else:
            assert at not in there, f"{view}: what comes was there, {change}"
            there[at] = row
        assert change["_version"] >= version, f"{view}: a version goes back"
        version = change["_version"]
    rows = [{name: value for name, value in row.items() if name != NUMBER} for row in there.values()]
    assert sorted(map(str, rows)) == _sorted(db.table(view)), f"{view}: its changes come to something else"
    return end - begin


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--live", required=True)
    live(parser.parse_args().live)

"""Damage to a database at rest: bytes are flipped, files removed, in a seeded place; then it is opened and used.

Whatever was hit, what is read afterwards is right or an error that has a name: never other values, never fewer
rows, never Arrow's or Python's own complaint. `anabranch check` finds what reads stumble over, and after `--repair`
the database can be used. No Spark: the engine of the tests runs the same queries.
"""

from __future__ import annotations

import contextlib
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import anabranch as ab
from anabranch.errors import AnabranchError
from anabranch.log import check, reader, sums
from anabranch.log.storage import Storage
from anabranch.testing.sparkless import SparklessDatabase

BASE_US = 1_767_225_600_000_000
SETTINGS = {"segment_bytes": 6000, "segment_parts": 4, "batch_rows": 700}
STREAMS = {"plain": "", "skewed": "ALLOW SKEW INTERVAL 5 SECONDS", "kept": "RETAIN INTERVAL 30 SECONDS"}
QUERIES = {
    "picked": "SELECT id, x, ts FROM plain WHERE x > 500",
    "counted": "SELECT count(*) AS n, sum(x) AS total FROM plain WINDOW = INTERVAL 10 SECONDS SLIDE INTERVAL 2 SECONDS",
    "late": "SELECT count(*) AS n, max(id) AS newest FROM skewed WINDOW = INTERVAL 5 SECONDS",
    "again": "SELECT count(*) AS n FROM picked WINDOW = INTERVAL 7 SECONDS",
    "joined": "SELECT a.id, b.x FROM plain a, skewed b WINDOW = INTERVAL 1 SECOND WHERE a.id = b.id",
}
READS = {
    "picked": {"plain"},
    "counted": {"plain"},
    "late": {"skewed"},
    "again": {"plain", "picked"},
    "joined": {"plain", "skewed"},
}
ROWS = 100


def rows(batch: int, disorder: int = 0) -> pa.Table:
    source = random.Random(batch)
    ids = list(range(batch * ROWS, (batch + 1) * ROWS))
    times = [BASE_US + i * 50_000 - source.randint(0, disorder) for i in ids]
    values = [source.randrange(1000) for _ in ids]
    return pa.table({"id": ids, "x": values, "ts": pa.array(times).cast(pa.timestamp("us", "UTC"))})


def open_database(path: Path) -> SparklessDatabase:
    return SparklessDatabase(path, settings=SETTINGS)


def fill(db: SparklessDatabase, first: int, end: int) -> dict[str, AnabranchError]:
    """Append to all streams and answer; gives which refused, and why."""
    refused: dict[str, AnabranchError] = {}
    for batch in range(first, end):
        for stream in STREAMS:
            try:
                db.append(stream, rows(batch, 3_000_000 if stream == "skewed" else 0), producer="chaos", batch=batch)
            except AnabranchError as problem:
                refused[stream] = problem
        if batch % 3 == 0:
            db.catch_up()
    db.catch_up()
    return refused


def make(path: Path) -> None:
    """A database that was in use, and was left by a process that died."""
    db = open_database(path)
    for stream, clauses in STREAMS.items():
        db.sql(f"CREATE STREAM {stream} (id BIGINT, x BIGINT, ts TIMESTAMP) TIMESTAMP BY ts {clauses}")
    db.sql("CREATE ARCHIVE ON kept USING plain")
    for name, sql in QUERIES.items():
        db.query(sql, name=name)
    fill(db, 0, 9)
    db.archive("kept").append()
    fill(db, 9, 20)
    db.archive("kept").append()
    db.archives.close()
    for writer in db._writers.all():  # killed: nothing was closed
        assert writer._lock is not None
        writer._lock.release()
    for query in db.queries():
        assert query._host._sink is not None
        assert query._host._sink.writer._lock is not None
        query._host._sink.writer._lock.release()


def all_rows(db: SparklessDatabase, name: str) -> pa.Table:
    history = db.reader(name)
    return history.read(history.first_row(), history.end().row)


Results = dict[str, tuple[pa.Table | None, AnabranchError | None]]


def results(path: Path) -> Results:
    """Use the database: append, answer, and read everything; what comes out of each stream, and what is said."""
    sums._seen.clear()  # as another process
    found: Results = {}
    try:
        db = open_database(path)
    except AnabranchError as problem:
        return dict.fromkeys([*STREAMS, *QUERIES], (None, problem))
    with db:
        refused = fill(db, 20, 26)
        for name in STREAMS:
            with contextlib.suppress(AnabranchError):
                db.flush(name)
        db.catch_up()
        for name in [*STREAMS, *QUERIES]:
            try:
                query = db.get_query(name) if name in QUERIES else None
                if query is not None and query.failure is not None:
                    raise query.failure
                failed = {each: problem for each, (_, problem) in found.items() if problem is not None} | refused
                said = next((failed[each] for each in READS.get(name, {name}) if each in failed), None)
                found[name] = all_rows(db, name), said
            except AnabranchError as problem:
                found[name] = None, problem
    return found


def files(path: Path) -> list[Path]:
    """Every file that something is kept in; locks and logs hold nothing."""
    there = (each for each in sorted(path.rglob("*")) if each.is_file())
    return [each for each in there if each.name not in ("writer.lock", "spark.log")]


def flip(file: Path, source: random.Random) -> None:
    data = bytearray(file.read_bytes())
    if data:
        at = source.randrange(max(len(data) - 16, 1))
        for i in range(at, min(at + 16, len(data))):
            data[i] ^= source.randrange(1, 256)
        file.write_bytes(data)


def remove(file: Path, source: random.Random) -> None:
    if source.random() < 0.3:
        file.write_bytes(b"")
    elif source.random() < 0.2:
        file.write_bytes(file.read_bytes()[: source.randrange(max(file.stat().st_size, 1))])
    else:
        file.unlink()


HARM = {"flip bytes": flip, "remove files": remove}


def run(kind: str, rounds: int, seed: int, place: Path, say: bool = False) -> Counter[str]:
    """Damage a database in many places, each time anew; gives how often it was right, and which errors were met."""
    with little_patience():
        return _run(kind, rounds, seed, place, say)


def _run(kind: str, rounds: int, seed: int, place: Path, say: bool) -> Counter[str]:
    pristine = place / "pristine"
    make(pristine)
    shutil.copytree(pristine, place / "unharmed")
    expected = results(place / "unharmed")
    assert not [problem for _, problem in expected.values() if problem is not None], expected
    source = random.Random(f"{kind} {seed}")
    counted: Counter[str] = Counter()
    for number in range(rounds):
        path = place / "harmed"
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(pristine, path)
        # Each kind of file as often as another, though there are more of some.
        kinds: dict[str, list[Path]] = {}
        for file in files(path):
            kinds.setdefault(str(Path(*file.relative_to(path).parts[:1], file.parent.name, file.suffix)), []).append(
                file
            )
        file = source.choice(kinds[source.choice(sorted(kinds))])
        HARM[kind](file, source)
        hit = str(file.relative_to(path))
        report = ab.check(path) if (path / "anabranch.json").exists() and _opens(path) else None
        met = set()
        for name, (result, problem) in results(path).items():
            if problem is not None:
                met.add(problem.name)
            if result is not None:
                wanted = expected[name][0]
                assert wanted is not None
                if problem is not None:  # rows that were refused are not there, all others are
                    wanted = wanted.slice(0, result.num_rows)
                assert result.combine_chunks().equals(wanted.combine_chunks()), (
                    f"round {number}, {kind} {hit}: {name} is wrong"
                )
        counted.update(met or {"right"})
        if met and report is not None:
            assert not report.fine, f"round {number}, {kind} {hit}: {met} were met, and check found nothing"
        if report is not None:
            _repaired_is_usable(path, f"round {number}, {kind} {hit}")
        if say:
            print(f"{kind} {number + 1}/{rounds}: {hit}: {', '.join(sorted(met)) or 'right'}", flush=True)
    return counted


def _opens(path: Path) -> bool:
    return isinstance(Storage(str(path)).read_json("anabranch.json"), dict)


def _repaired_is_usable(path: Path, what: str) -> None:
    ab.check(path, repair=True)
    assert results(path).keys() == {*STREAMS, *QUERIES}, what


@contextlib.contextmanager
def little_patience() -> Iterator[None]:
    """Nobody writes meanwhile, so rows that are not there at once do not come."""
    before = reader._PATIENCE_SECONDS, check._PATIENCE_SECONDS
    reader._PATIENCE_SECONDS = check._PATIENCE_SECONDS = 0.05
    try:
        yield
    finally:
        reader._PATIENCE_SECONDS, check._PATIENCE_SECONDS = before

"""Archives under kill -9: append, archive, compact, read and vacuum at once, die at a seeded moment, and compare.

Each round starts a process that opens the database, appends numbered rows and says which were
acknowledged, while threads of it move rows to archives of every layout, join runs, read some of their
rows and vacuum. It is killed at a random moment, or at a random one of the steps that change what is
on disk: a file or directory that gets its name, and a commit of a table. After each death every
acknowledged row must be there exactly once, in the stream as in each archive's table; reduced reads must
give what the oracle gives, and every earlier version of every table must be readable.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 200
STEP_US = 1_000
BASE_US = 1_767_225_600_000_000
SETTINGS = {"segment_bytes": 20_000, "segment_parts": 4}
SEED = 7
ARCHIVES: dict[str, dict[str, Any]] = {
    "plain": {"layout": "plain"},
    "copies": {"layout": "on_write_replicate", "options": {"levels": "50, 90"}},
    "lazy": {"layout": "on_read_modify", "options": {"threshold": "0.3"}},
    "blocks": {"layout": "randomize_then_sort", "options": {"blocks": "10"}},
    "keys": {"layout": "randomize_then_sort", "by": "key", "options": {"blocks": "10"}},
}
RUN_ROWS = 1500
FRACTIONS = (0.05, 0.1, 0.3, 0.5, 0.9)


def packets(first: int, end: int) -> pa.Table:
    """Rows as a function of their numbers."""
    numbers = np.arange(first, end)
    return pa.table(
        {
            "id": numbers,
            "key": [f"k{n * 7919 % 13}" for n in numbers],
            "speed": numbers * 0.5,
            "ts": pa.array(BASE_US + numbers * STEP_US).cast(pa.timestamp("us", "UTC")),
        }
    )


# -- the process that dies ---------------------------------------------------------------------------


def live(path: str, first: int, seed: int, steps: int, background: bool) -> None:
    """Be the process that gets killed; it kills itself at the `steps`-th change of the disk, if there is one."""
    import anabranch as ab

    if steps:
        die_after(steps)
    settings = {**SETTINGS, "archive_age_seconds": 0.2} if background else SETTINGS
    database = ab.open(path, queries=background, settings=settings)
    for number, name in enumerate(ARCHIVES):
        threading.Thread(target=_upkeep, args=(database, name, seed + number), daemon=True).start()
    for batch in range(first, first + 1_000_000):
        database.append("packets", packets(batch * ROWS, (batch + 1) * ROWS), producer="chaos", batch=batch)
        os.write(1, f"{batch}\n".encode())
        time.sleep(0.04)


def breed() -> None:
    """Fork a victim for each line of its arguments and say its pid: a start without any imports."""
    import deltalake  # noqa: F401

    from anabranch.kernels.sampling import key_lots, lots_between

    packets(0, 1)  # pyarrow imports pandas when it first makes an array
    lots_between(0, 1, SEED), key_lots(pa.array(["a"]), SEED)
    for line in sys.stdin:
        path, first, seed, steps, background = line.rsplit(" ", 4)
        pid = os.fork()
        if pid == 0:
            try:
                live(path, int(first), int(seed), int(steps), background.strip() == "1")
            except BaseException:
                os.write(1, traceback.format_exc().encode())
            finally:
                os._exit(1)
        os.write(1, f"pid {pid}\n".encode())
        status = os.waitpid(pid, 0)[1]
        os.write(1, f"dead {os.waitstatus_to_exitcode(status)}\n".encode())


def _upkeep(database: Any, name: str, seed: int) -> None:
    """What an archive goes through, over and over."""
    source = random.Random(seed)
    threading.excepthook = lambda problem: os._exit(_told(problem.exc_value))
    while True:
        what = source.choice(["append", "append", "join", "read", "read", "vacuum"])
        archiver = database.archive("packets", name)
        if what == "append":
            archiver.append(all_rows=source.random() < 0.7)
        elif what == "join":
            archiver.join_runs(2)
        elif what == "vacuum":
            archiver.vacuum(1)
        else:
            reader = database.reader("packets").only(name)
            reader.read_sample(0, reader.end().row, ["speed"], source.choice(FRACTIONS))
            if name == "lazy" and source.random() < 0.3:  # often enough that the copy is made anew
                for _ in range(16):
                    reader.read_sample(0, reader.end().row, ["speed"], 0.95)


def _told(problem: BaseException | None) -> int:
    os.write(1, "".join(traceback.format_exception(problem)).encode())
    return 1


def die_after(steps: int) -> None:
    """Kill this process at the moment of a step, before it or after it."""
    from anabranch.archive.table import RunTable
    from anabranch.log.storage import Storage

    left = [steps]

    def dying(real: Any) -> Any:
        def step(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0 and steps % 2:
                os.kill(os.getpid(), 9)
            done = real(*arguments, **named)
            if left[0] <= 0:
                os.kill(os.getpid(), 9)
            return done

        return step

    for kind, name in ((RunTable, "commit"), (RunTable, "create"), (Storage, "delete_all"), (Storage, "write_json")):
        setattr(kind, name, dying(getattr(kind, name)))


# -- the one that looks ------------------------------------------------------------------------------


def run(rounds: int, seed: int, place: Path, say: bool = False) -> dict[str, int]:
    """Kill, look and go on; gives what was counted."""
    import anabranch as ab

    path = str(place / "river")
    with ab.open(path, queries=False) as database:
        database.sql(
            "CREATE STREAM packets (id BIGINT, key STRING, speed DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts "
            "RETAIN INTERVAL 1 SECOND"
        )
        for name, declared in ARCHIVES.items():
            options = {"run_rows": str(RUN_ROWS), "seed": str(SEED), **declared.get("options", {})}
            database.create_archive("packets", declared["layout"], name, by=declared.get("by"), options=options)
    source = random.Random(seed)
    acknowledged, counted = -1, {}
    breeder = Breeder()
    for number in range(rounds):
        steps = source.randrange(1, 45) if source.random() < 0.6 else 0
        seconds = source.uniform(0.1, 2.0)
        words = f"{path} {acknowledged + 1} {seed * 1000 + number} {steps} {int(source.random() < 0.3)}"
        acknowledged += breeder.life(words, acknowledged + 1, 10.0 if steps else seconds)
        counted = check(path, acknowledged, source, everything=number == rounds - 1)
        if say:
            how = f"at change {steps}" if steps else f"after {seconds:.1f} s"
            print(f"round {number + 1}/{rounds}: killed {how}; {counted}", flush=True)
    breeder.close()
    return counted


def _kill_after(seconds: float, pid: int) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer


class Breeder:
    """The process that forks victims, and the lines it and they say."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests.archive_chaos import breed; breed()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def life(self, words: str, first: int, seconds: float) -> int:
        """Let a victim live for a while; gives how many batches it has acknowledged."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()
        count, pid, said, timer = 0, 0, "", None
        for line in self._process.stdout:
            word = line.strip()
            if word.startswith("pid "):
                pid = int(word[4:])
                timer = _kill_after(60.0, pid)
            elif word.startswith("dead "):
                assert timer is not None
                timer.cancel()
                assert word == "dead -9", f"the process died by itself: {said}"
                assert "Traceback" not in said, said
                return count
            elif word.isdigit():
                assert int(word) == first + count
                count += 1
                if count == 1 and timer is not None:
                    timer.cancel()
                    timer = _kill_after(seconds, pid)
            else:
                said += line
        raise AssertionError(f"the breeder died: {said}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


def check(path: str, acknowledged: int, source: random.Random, everything: bool) -> dict[str, int]:
    """All rows against what they must be; with `everything` in all versions that tables ever had, else in late ones."""
    import anabranch as ab

    with ab.open(path, queries=False) as database:
        whole = database.reader("packets")
        end = whole.end().row
        assert end >= (acknowledged + 1) * ROWS, "an acknowledged row is missing"
        assert end % ROWS == 0
        assert whole.first_row() == 0, "rows left the log before they were archived"
        expected = packets(0, end).cast(whole.schema)
        assert whole.read(0, end).equals(expected), "a row is missing, came twice, or has changed"
        versions = sum(_check_archive(database, name, expected, source, everything) for name in ARCHIVES)
        return {"rows": end, "logged": end - whole.first_logged_row(), "versions": versions}


def _check_archive(database: Any, name: str, expected: pa.Table, source: random.Random, everything: bool) -> int:
    """One archive: its own view of the stream, its tables as others see them, and all their versions."""
    from anabranch.kernels.sampling import kept, key_lots, lots_between

    end = expected.num_rows
    reader = database.reader("packets").only(name)
    archive = reader.archives[0]
    assert reader.read(0, end).equals(expected), name
    numbered = expected.select(["speed"]).add_column(0, "_row", pa.array(np.arange(end)))
    for keep in FRACTIONS:
        by = source.choice([None, "key"])
        drawn = lots_between(0, end, SEED) if by is None else key_lots(expected.column("key"), SEED)
        wanted = numbered.filter(pa.array(kept(drawn, keep)))
        assert reader.read_sample(0, end, ["speed"], keep, by).equals(wanted), (name, keep, by)
    versions = 0
    for table in archive.tables().values():
        versions += _check_table(table.storage.path, table.runs, table.end or 0, expected, everything)
    return versions


def _check_table(path: str, runs: list[Any], end: int, expected: pa.Table, everything: bool) -> int:
    """No row twice and none missing, by what Delta says; and so in every version there was."""
    from deltalake import DeltaTable

    from anabranch.kernels.sampling import kept, lots_between

    newest = DeltaTable(path)
    assert sum(run.rows for run in runs) == end, path
    lots = lots_between(0, end, SEED)
    part = [np.flatnonzero(kept(lots[run.first : run.end], run.rate + 1e-9)) + run.first for run in runs]
    wanted = np.concatenate(part) if part else np.empty(0, np.int64)
    found = newest.to_pyarrow_table().sort_by("_row")
    assert np.array_equal(found.column("_row").to_numpy(), wanted), path
    assert found.column("speed").equals(expected.column("speed").take(pa.array(wanted)))
    for version in range(0 if everything else max(newest.version() - 1, 0), newest.version() + 1):
        numbers = DeltaTable(path, version=version).to_pyarrow_table(columns=["_row"]).column(0).to_numpy()
        assert len(np.unique(numbers)) == len(numbers), f"{path}: version {version} has a row twice"
        if runs and all(run.rate == 1 for run in runs):
            assert np.array_equal(np.sort(numbers), np.arange(len(numbers))), f"{path}: version {version} has a hole"
    return int(newest.version()) + 1

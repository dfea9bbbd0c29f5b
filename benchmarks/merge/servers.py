"""Two data servers in processes of their own, and a third process that merges what they send."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from pyarrow import ipc

from benchmarks.harness import Bar, Report, check, median, say
from benchmarks.merge.client import Asked, ClientJob, Took
from benchmarks.merge.data import Disorder, MergeFeed, keys_of
from benchmarks.merge.kernel import merge
from benchmarks.merge.paper import MERGED_MB_PER_SECOND, SHARES
from benchmarks.window_join.data import Answer, answer_of

ROOT = Path(__file__).parent.parent.parent
BLOCK = 1 << 16
CLIENT_SECONDS = 900
DATASET = "grid"


def store(feed: MergeFeed, root: Path, name: str) -> None:
    """Both streams of a feed as Arrow files, each in the folder of its server."""
    for i, side in enumerate("ab"):
        folder = root / side
        folder.mkdir(parents=True, exist_ok=True)
        table = feed.table(i)
        with ipc.new_file(folder / f"{name}.arrow", table.schema) as file:
            file.write_table(table, max_chunksize=BLOCK)


@contextlib.contextmanager
def servers(root: Path, within: Sequence[str] = (), host: str = "127.0.0.1") -> Iterator[list[str]]:
    """Data servers for the folders a and b, and their addresses; `within` is put before their commands."""
    started = []
    try:
        for side in "ab":
            command = [sys.executable, "-m", "anabranch.cli", "data-server", str(root / side), "--host", host, "--json"]
            if host != "127.0.0.1":
                command.append("--insecure")
            started.append(
                subprocess.Popen([*within, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT, env=_environment())
            )
        urls = []
        for process in started:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("a data server did not start")
            urls.append(str(json.loads(line)["url"]))
        yield urls
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(timeout=30)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}


def merge_elsewhere(job: ClientJob, within: Sequence[str] = ()) -> list[Took]:
    """What the third process says."""
    command = [*within, sys.executable, "-m", "benchmarks.merge.client", json.dumps(asdict(job))]
    ran = subprocess.run(
        command, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=CLIENT_SECONDS, check=False
    )
    if ran.returncode:
        raise RuntimeError(f"the merging process failed: {(ran.stderr or ran.stdout).strip().splitlines()[-1:]}")
    return [Took(**each) for each in json.loads(ran.stdout.splitlines()[-1])]


def expected(feed: MergeFeed, asked: Asked) -> Answer:
    """The answer of the same merge over all records at once."""
    tables = [feed.table(i) for i in (0, 1)]
    found = merge([keys_of(table) for table in tables], asked.window, asked.step)
    return answer_of([tables[0].column("id").to_numpy()[found.left], tables[1].column("id").to_numpy()[found.right]])


def check_answer(took: Took, wanted: Answer, what: str) -> None:
    got = Answer(took.rows, took.checksum)
    check(got == wanted, f"{what} answered {got}, not {wanted}")


def measure(rows: int, window: int, rounds: int, root: Path, report: Report) -> None:
    """Two servers and the merge of 2 % out of order over the loopback device, for long enough to be steady."""
    feed = MergeFeed(rows, Disorder.of(SHARES[0], window), cells=True)
    asked = Asked(DATASET, window, window // 5)
    store(feed, root, DATASET)
    with servers(root) as urls:
        (took,) = merge_elsewhere(ClientJob(urls, [asked], rounds))
    check_answer(took, expected(feed, asked), "the merge of two data servers")
    speed = median(took.megabytes / seconds for seconds in took.total)
    over = median(t / max(f, m) for f, m, t in zip(took.fetch, took.merge, took.total, strict=True))
    say(f"two data servers: {speed:,.0f} MB/s, {over:.2f} of the longer of fetching and merging")
    report.add("servers_merged", speed, "MB/s", bar=Bar(400, "at least"))
    report.add("servers_over_the_longer_part", over, "×", bar=Bar(1.15, "at most"))
    report.add("servers_fetch_alone", median(took.megabytes / s for s in took.fetch), "MB/s")
    report.add("servers_merge_alone", median(took.megabytes / s for s in took.merge), "MB/s")
    report.notes["paper_merged_mb_per_second"] = MERGED_MB_PER_SECOND

"""Two data servers at the far end of a long line, the merge at the near end: network namespaces and `merge_wire`.

Needs root, `ip` and TUN devices; where they are missing the figure is, with the reason. Senders need room for what
is on the way, a line's rate times its round trip: 7.8 MB, while Linux gives a connection 4 MB by default.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import Bar, Report, median, say
from benchmarks.merge.client import Asked, ClientJob
from benchmarks.merge.data import Disorder, MergeFeed
from benchmarks.merge.paper import FETCHED_MBIT, LINE_MBIT, ROUND_TRIP, SHARES
from benchmarks.merge.servers import DATASET, ROOT, check_answer, expected, merge_elsewhere, servers, store
from benchmarks.merge.wire import MTU

NEAR, FAR = "10.77.0.1", "10.77.0.2"
BUFFERS = "4096 262144 67108864"
"""Least, first and most bytes of a connection's buffers."""


@dataclass(frozen=True)
class Ends:
    """What is put before a command to run it at one end of the line."""

    near: list[str]
    far: list[str]


class NoLine(Exception):
    """The line cannot be made here."""


@contextlib.contextmanager
def line(mbit: float, round_trip: float) -> Iterator[Ends]:
    """Two namespaces with a line between them, and nothing else."""
    if os.getuid() != 0 or shutil.which("ip") is None or not os.path.exists("/dev/net/tun"):
        raise NoLine("network namespaces need root, `ip` and /dev/net/tun")
    _sweep()
    spaces = [f"bench{os.getpid()}{end}" for end in "nf"]
    devices = [f"wire{os.getpid()}{end}"[-15:] for end in "nf"]
    wire = None
    try:
        for space in spaces:
            _run("ip", "netns", "add", space)
        command = [sys.executable, "-m", "benchmarks.merge.wire", *devices, str(mbit), str(round_trip * 1000)]
        wire = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert wire.stdout is not None
        if wire.stdout.readline().strip() != "ready":
            raise NoLine("TUN devices cannot be made")
        for space, device, own, other in zip(spaces, devices, (NEAR, FAR), (FAR, NEAR), strict=True):
            _run("ip", "link", "set", device, "netns", space)
            inside = ["ip", "-n", space]
            _run(*inside, "link", "set", "lo", "up")
            _run(*inside, "link", "set", device, "mtu", str(MTU), "txqueuelen", "20000", "up")
            _run(*inside, "addr", "add", own, "peer", other, "dev", device)
            for name in ("tcp_rmem", "tcp_wmem"):
                _run("ip", "netns", "exec", space, "sh", "-c", f"echo {BUFFERS} > /proc/sys/net/ipv4/{name}")
        near, far = (["ip", "netns", "exec", space] for space in spaces)
        yield Ends(near, far)
    finally:
        if wire is not None:
            assert wire.stdin is not None
            wire.stdin.close()
            wire.wait(timeout=30)
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)


def _sweep() -> None:
    """Remove the namespaces of runs that were killed."""
    for found in Path("/var/run/netns").glob("bench*"):
        process = found.name.removeprefix("bench")[:-1]
        if process.isdigit() and not os.path.exists(f"/proc/{process}"):
            subprocess.run(["ip", "netns", "del", found.name], capture_output=True, check=False)


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise NoLine(f"{' '.join(command[:4])}: {ran.stderr.strip()}")


def measure(rows: int, window: int, rounds: int, root: Path, report: Report) -> None:
    """The merge of 2 % out of order at the other end of the line; how much of the line its records fill."""
    feed = MergeFeed(rows, Disorder.of(SHARES[0], window), cells=True)
    asked = Asked(DATASET, window, window // 5)
    store(feed, root, DATASET)
    try:
        with line(LINE_MBIT, ROUND_TRIP) as ends, servers(root, ends.far, FAR) as urls:
            (took,) = merge_elsewhere(ClientJob(urls, [asked], rounds), ends.near)
    except NoLine as problem:
        report.notes["line"] = f"missing: {problem}"
        return
    check_answer(took, expected(feed, asked), "the merge at the end of a line")
    filled = median(took.megabytes * 8 / seconds for seconds in took.total)
    say(f"line of {LINE_MBIT} Mbit/s and {ROUND_TRIP * 1000:.0f} ms: {filled:,.0f} Mbit/s merged")
    report.add("line_filled", filled / LINE_MBIT, "of the line", bar=Bar(0.9, "at least"))
    report.add("line_merged", filled, "Mbit/s")
    report.add("line_fetch_alone", median(took.megabytes * 8 / s for s in took.fetch), "Mbit/s")
    report.notes["line"] = (
        f"{took.megabytes:,.0f} MB in {median(took.total):.1f} s; the paper fetched {FETCHED_MBIT} Mbit/s"
    )

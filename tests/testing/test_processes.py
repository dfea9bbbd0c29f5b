"""Who lives under a process is found, and who was killed counts as gone."""

from __future__ import annotations

import os
import subprocess
import sys

from anabranch.testing.processes import daemons, descendants, gone, kill, planners, workers

# A process under another, as a worker is under what forks it.
TREE = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "print(1, flush=True); input()", "pyspark.daemon"])
"""


def test_a_worker_is_what_a_daemon_forked() -> None:
    daemons_of_others, workers_of_others = set(daemons()), set(workers())  # of a session that other tests share
    command = [sys.executable, "-c", TREE, "pyspark.daemon"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        assert set(daemons()) - daemons_of_others == {process.pid}
        (worker,) = set(workers()) - workers_of_others
        assert set(descendants(process.pid)) == {worker}
        assert planners(process.pid) == []
        assert not gone(worker, seconds=0)
        kill(worker)
        assert gone(worker)
        assert gone(process.pid)
    assert process.pid not in daemons()
    assert worker not in workers()
    assert not gone(os.getpid(), seconds=0)

"""The JVM beside this process: started in a session of its own, and forgotten once it is gone.

PySpark keeps its JVM, its context and its sessions in class attributes and would talk to a dead JVM
for ever; `forget` lets the next start begin from nothing.

The JVM and all it starts have a session (as `setsid` makes) of their own: Ctrl-C on a terminal, which
goes to every process of the terminal's, does not reach the processes of standing queries, and what a
dead JVM has left behind can be told from everything else and ended.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
from types import SimpleNamespace
from typing import Any

import py4j.java_gateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.context import SQLContext

# Where a connection breaks, py4j writes a stack to the root logger, which gives that a handler on stderr.
_quiet = logging.getLogger("py4j.java_gateway").debug
py4j.java_gateway.logging = SimpleNamespace(info=_quiet, exception=_quiet, getLogger=logging.getLogger)


def launch(settings: dict[str, str], log_path: str | None) -> None:
    """Start a JVM for PySpark to use, unless it has one; what it says goes to a file, not between a user's tables."""
    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    options: dict[str, Any] = {"start_new_session": True, "stdout": subprocess.DEVNULL}
    if log_path is None:
        SparkContext._gateway = launch_gateway(conf, options)
    else:
        os.makedirs(os.path.dirname(log_path), exist_ok=True)
        with open(log_path, "ab", opener=for_us_alone) as log:
            SparkContext._gateway = launch_gateway(conf, {**options, "stdout": log, "stderr": log})
    assert SparkContext._gateway is not None
    SparkContext._jvm = SparkContext._gateway.jvm


def for_us_alone(path: str, flags: int) -> int:
    """What Spark says may hold texts of queries; and nobody's link decides where it goes."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def process_of(gateway: Any) -> subprocess.Popen[bytes] | None:
    """The JVM's process; None where another process has started it."""
    # Attributes that a gateway does not have are looked for in the JVM.
    process: subprocess.Popen[bytes] | None = vars(gateway).get("proc") if gateway is not None else None
    return process


def forget() -> None:
    """Let PySpark begin anew, if its JVM is gone."""
    gateway, context = SparkContext._gateway, SparkContext._active_spark_context
    process = process_of(gateway)
    if gateway is None or process is None or process.poll() is None:
        return
    if context is not None:
        context._jsc = None  # there is nobody left to tell that it ends
        with contextlib.suppress(Exception):
            context.stop()
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None
    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    for end in (gateway.shutdown_callback_server, gateway.close):
        with contextlib.suppress(Exception):
            end()
    _end_orphans(process.pid)


def _end_orphans(jvm: int) -> None:
    """End the Python processes of a dead JVM: they must not write beside those of the next one.

    They would end by themselves, but only when they next look. Without /proc they are left to that.
    """
    if not os.path.isdir("/proc"):
        return
    for _ in range(3):  # one may be starting another
        orphans = [int(name) for name in os.listdir("/proc") if name.isdigit() and _session_of(int(name)) == jvm]
        for pid in orphans:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not orphans:
            return


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None

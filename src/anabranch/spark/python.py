"""Which Python the workers of an embedded Spark run on: this one, without what Spark puts in its way.

Spark puts archives of PySpark's sources and one of its jars at the head of the path of every Python it
starts. Each of the half dozen processes behind a standing query would compile PySpark from them and look for every
module of Python's there first, half a second each. Here PySpark is installed beside us: a short
script gives the workers the path that this process had and becomes the interpreter.

It also says what Arrow takes memory from, unless that is said already. Micro-batches take and leave the same hundreds
of megabytes again and again; mimalloc gives them back at once, and half of a view's time went into getting them anew.
"""

from __future__ import annotations

import shlex
import site
import sys
from collections.abc import MutableMapping
from pathlib import Path

import pyarrow as pa
import pyspark

from anabranch.spark.scripts import NotKept, keep

PATH_VARIABLE = "ANABRANCH_PYTHONPATH"

_SCRIPT = f"""#!/bin/sh
# Written by Anabranch. Python with the path its user gave it, not the one that Spark makes of it.
export ARROW_DEFAULT_MEMORY_POOL="${{ARROW_DEFAULT_MEMORY_POOL-@POOL@}}"
PYTHONPATH=${{{PATH_VARIABLE}-}} exec @PYTHON@ "$@"
"""


def worker_python(env: MutableMapping[str, str]) -> str:
    """The program that becomes a worker; sets in `env` what it reads.

    It is Python itself where there is no place for a script, and where PySpark is not installed but was put into the
    path of this process: workers would not find it.
    """
    if not _is_installed():
        return sys.executable
    try:
        script = keep(_script(), "bin/python", env)
    except NotKept:
        return sys.executable
    env[PATH_VARIABLE] = env.get("PYTHONPATH", "")
    return str(script)


def _script() -> str:
    pools = pa.supported_memory_backends()
    pool = next(name for name in ("jemalloc", *pools) if name in pools)
    return _SCRIPT.replace("@PYTHON@", shlex.quote(sys.executable)).replace("@POOL@", pool)


def _is_installed() -> bool:
    return str(Path(pyspark.__file__).parents[1]) in (*site.getsitepackages(), site.getusersitepackages())

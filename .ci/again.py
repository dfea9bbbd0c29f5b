"""Runs tests that have just failed once more, alone: on a busy machine a test may wait too long for a process.

More than a few that failed are no accident; they are not run again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

MOST = 3


def main() -> int:
    try:
        failed = list(json.loads(Path(".pytest_cache/v/cache/lastfailed").read_text()))
    except FileNotFoundError:
        return 1
    if not 1 <= len(failed) <= MOST:
        return 1
    # A test's group, which says what process runs it, comes behind its name.
    names = [name.rpartition("@")[0] if name.rfind("@") > name.rfind("]") else name for name in failed]
    print("FAILED AT FIRST, and run again alone:", *names, sep="\n  ", flush=True)
    return int(pytest.main(["-q", "-p", "no:cacheprovider", *names]))


if __name__ == "__main__":
    sys.exit(main())

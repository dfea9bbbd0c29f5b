"""Kernels that call kernels: compiled late, and found again on disk only if nothing they are made of has changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HELPER = "from anabranch.kernels.compiled import compiled\n\n@compiled\ndef step(x):\n    return x + {step}\n"
CALLER = """
from anabranch.kernels.compiled import compiled
from helper import step

@compiled
def twice(x):
    return near(step(x))

@compiled
def near(x):
    return step(x)
"""


def run(folder: Path, *lines: str) -> list[str]:
    program = "; ".join(["import sys", f"sys.path.insert(0, {str(folder)!r})", "from caller import twice", *lines])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_a_kernel_calls_kernels_of_its_own_file_and_of_others(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER.format(step=1))
    (tmp_path / "caller.py").write_text(CALLER)
    hits = "print(twice(5), sum(twice.kernel.machine_code.stats.cache_hits.values()))"
    assert run(tmp_path, "print('numba' in sys.modules)", hits) == ["False", "7", "0"]
    assert run(tmp_path, hits) == ["7", "1"]
    # The caller's own file is as it was, and yet its old machine code may not be used.
    (tmp_path / "helper.py").write_text(HELPER.format(step=10))
    assert run(tmp_path, hits) == ["25", "0"]


TAKES_PAIRS = """
from typing import NamedTuple
from anabranch.kernels.compiled import compiled

class {name}(NamedTuple):
    x: int
    y: int

@compiled
def twice(x):
    return x.x + x.y
"""


def test_machine_code_for_types_that_are_gone_is_not_found(tmp_path: Path) -> None:
    for name in ("Pair", "Twin"):
        (tmp_path / "caller.py").write_text(TAKES_PAIRS.format(name=name))
        assert run(tmp_path, f"from caller import {name}", f"print(twice({name}(5, 6)))") == ["11"]


def test_the_public_module_is_imported_without_numba() -> None:
    program = "import sys, anabranch.windows; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]

"""Each of Spark's Python processes imports what it runs and no more: it has 10 s to start, on a busy machine too."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys
import anabranch.spark.source
from anabranch.operators import OPERATORS, operator_from_json

operator_from_json({"kind": "select", "stream": "s", "columns": [["a", "a"]], "time": "a", "filter": None})
operators = {"anabranch.operators" + where.partition(":")[0] for where in OPERATORS.values()}
print(*sorted((operators | {"sqlglot", "numba", "deltalake", "pandas"}) & sys.modules.keys()))
"""


@pytest.mark.slow
def test_a_planner_loads_its_own_operator_only() -> None:
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["anabranch.operators.select"]

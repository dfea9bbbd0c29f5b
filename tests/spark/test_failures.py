"""What Spark says is told in our words: which of its Python processes ended."""

from __future__ import annotations

import pytest

from anabranch.spark.failures import PLANNER_DIED, WORKER_DID_NOT_START, WORKER_DIED, explain_failure

FOUND_DEAD = """An error occurred while calling o245.load.
: java.io.IOException: Stream closed
\tat java.base/java.lang.ProcessBuilder$NullOutputStream.write(ProcessBuilder.java:445)
\tat org.apache.spark.api.python.PythonWorkerFactory.$anonfun$stopWorker$2(PythonWorkerFactory.scala:527)
\tat org.apache.spark.sql.execution.python.PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:179)
"""
DIED_PLANNING = """An error occurred while calling o9.load.
: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.sql.execution.python.PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:170)
Caused by: java.io.EOFException
"""
DIED_IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times
org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:550)
Caused by: java.io.IOException: Broken pipe
"""
TOO_LATE = """org.apache.spark.SparkException: Python worker failed to connect back.
\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:252)
\tat org.apache.spark.sql.execution.python.streaming.PythonStreamingSourceRunner.init(Runner.scala:97)
Caused by: java.net.SocketTimeoutException
"""
OWN_FAULT = """An error occurred while calling o9.load.
: org.apache.spark.sql.AnalysisException: [PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):
  File "x.py", line 1, in f
ValueError: java.io.IOException is no number
\tat org.apache.spark.sql.execution.python.PythonPlannerRunner.runInPython(PythonPlannerRunner.scala:170)
"""


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (FOUND_DEAD, PLANNER_DIED),
        (DIED_PLANNING, PLANNER_DIED),
        (DIED_IN_A_TASK, WORKER_DIED),
        (TOO_LATE, WORKER_DID_NOT_START),
        (OWN_FAULT, "QUERY_FAILED"),
    ],
    ids=["found dead", "died planning", "died in a task", "too late", "an error of its own"],
)
def test_which_process_ended(said: str, name: str) -> None:
    assert explain_failure(RuntimeError(said)).name == name

"""Spark's failures in our own words: what happened, without a Java stack in a user's face.

The full text stays with the error as its cause, for `--verbose` and the log file.
"""

from __future__ import annotations

import re

from pyspark.errors import PySparkException, PythonException

from anabranch.errors import AnabranchError, QueryError, SqlError

WORKER_DID_NOT_START = "WORKER_DID_NOT_START"
"""Spark allows a Python worker 10 s to start."""
WORKER_DIED = "WORKER_DIED"
"""A Python worker ended under a task, as often as Spark tries a task."""
PLANNER_DIED = "PLANNER_DIED"
"""A Python process beside the driver ended that plans a query's micro-batches, or what is read once."""

_PLANNER = re.compile("PythonStreamingSourceRunner|PythonPlannerRunner")
_WORKER_EXITED = "Python worker exited unexpectedly"
_BROKEN = re.compile(r"java\.(io|net|nio\.channels)\.\w*(EOF|Socket|IO|Closed\w*|Close)Exception")
_OURS = re.compile(r"anabranch\.errors\.\w+: ([A-Z][A-Z_]+) (.*)")
_ABOUT_SPARK = re.compile(r"( Please, refer to '[^']*' for a fix\.)? SQLSTATE: .*$")
"""Where in Spark's own text, which is not the user's, and where to read about Spark."""
_RAISED = re.compile(r"\[USER_RAISED_EXCEPTION\] ([A-Z][A-Z_]+) (.*?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
_POSITION = re.compile(r"line (\d+), pos (\d+)")
_FAILED_TASK = re.compile(r"most recent failure: Lost task [^\n]*?: (([a-z]\w*(?:\.[\w$]+)+)[^\n]*)")
_NOT_OF_DATA = re.compile(r"Error$|Interrupted|^java\.(io|nio)\.|\.concurrent\.|^org\.apache\.spark\.(?!sql\.)")
"""Exceptions of a task that say nothing of its rows."""
_CALLING = "An error occurred while calling"
"""What py4j says of an exception that it has no class for."""
_CLASS = re.compile(r"\[([A-Z0-9_.]+)\]\s*(.*)")


def explain_failure(problem: BaseException) -> AnabranchError:
    """The error a user should see for an exception that came out of Spark."""
    text = said(problem)
    # An error of ours raised inside a worker arrives as the last line of a Python traceback.
    # One that planning put into the SQL arrives as what a user raised.
    raised = _OURS.findall(text) or _RAISED.findall(text)
    if raised:
        name, rest = raised[-1]
        message, _, hint = rest.partition(". Hint: ")
        message, _, detail = message.partition(". Detail: ")
        return QueryError(name, message, detail=detail or None, hint=hint or None)
    if "Python worker failed to connect back" in text:
        return QueryError(
            WORKER_DID_NOT_START,
            "a Python worker of Spark did not start within its 10 s",
            hint="the machine is very busy; try again",
        )
    if "Traceback (most recent call last)" not in text and _planner_is_gone(text + _stack(problem)):
        return QueryError(
            PLANNER_DIED, "the Python process that plans the query ended", hint="spark.log has what it said last"
        )
    if _WORKER_EXITED in text:
        return QueryError(
            WORKER_DIED,
            "a Python worker of Spark ended in the middle of a task",
            hint="spark.log has what it said last",
        )
    first = _CLASS.search(text)
    name, message = (first[1], _ABOUT_SPARK.sub("", first[2])) if first else ("", _first_line(text))
    message = message.replace("try_sum", "sum")  # which is what planning makes of it
    if _POSITION.search(text) or name.startswith(("UNRESOLVED", "DATATYPE_MISMATCH", "WRONG_NUM_ARGS", "PARSE")):
        return SqlError("SQL_NOT_UNDERSTOOD", message.rstrip(".") or name, detail=name or None)
    task = _FAILED_TASK.search(text)
    cause = _python_cause(text) or (task[1] if task and message.startswith(_CALLING) else None)
    return QueryError("QUERY_FAILED", cause or message or _last_cause(problem), hint="--verbose shows the whole story")


def is_of_the_data(problem: BaseException, explained: AnabranchError) -> bool:
    """Whether Spark failed over what it was to compute of the rows, so that it would again; else it is Spark itself."""
    if explained.name in (WORKER_DID_NOT_START, WORKER_DIED, PLANNER_DIED):
        return False
    if isinstance(problem, PySparkException):
        condition = problem.getCondition() or ""
        return bool(condition) and not isinstance(problem, PythonException) and "CANCEL" not in condition
    failed = _FAILED_TASK.search(said(problem))
    return failed is not None and not _NOT_OF_DATA.search(failed[2])


def said(problem: BaseException) -> str:
    """What an exception says. One of Spark's asks its JVM for that, which may be gone: then what is known here."""
    try:
        return str(problem)
    except Exception:
        return str(getattr(problem, "_desc", None) or type(problem).__name__)


def _stack(problem: BaseException | None) -> str:
    """The Java stacks of an exception and its causes, as far as they are known here."""
    stacks: list[str] = []
    while problem is not None and len(stacks) < 10:
        stacks.append(str(getattr(problem, "_stackTrace", "") or ""))
        problem = getattr(problem, "_cause", None)
    return "\n".join(stacks)


def _planner_is_gone(story: str) -> bool:
    return bool(_PLANNER.search(story)) and (_WORKER_EXITED in story or bool(_BROKEN.search(story)))


def _last_cause(problem: BaseException) -> str:
    """The innermost cause a Java stack names, for an exception without a word of its own."""
    causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error)\b.*)$", _stack(problem), re.MULTILINE)
    return causes[-1].strip() if causes else type(problem).__name__


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return "" if line == "null" or line.startswith("=== Streaming Query") else line


def _python_cause(text: str) -> str | None:
    """The last line of the last Python traceback in the text, where there is one."""
    if "Traceback (most recent call last)" not in text:
        return None
    tail = text.rsplit("Traceback (most recent call last)", 1)[1]
    for line in tail.splitlines()[1:]:
        if line and not line[0].isspace() and re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line):
            return line.strip()
    return None

"""Tools for testing streams and operators, for this project and for whoever builds on it.

A clock that is turned by hand (`ManualClock`), a source that plays a script (`ScriptedSource`), a
log in memory (`MemoryLog`), a harness that drives an operator without Spark and checks its contract
as it goes (`OperatorHarness`), and text files of statements with their expected answers, played in
several ways (`anabranch.testing.slt`).
"""

from __future__ import annotations

from anabranch.testing.clock import ManualClock
from anabranch.testing.harness import ContractBroken, OperatorHarness
from anabranch.testing.memory_log import MemoryLog
from anabranch.testing.scripted import ABORT, Abort, Pause, ScriptedSource

__all__ = ["ABORT", "Abort", "ContractBroken", "ManualClock", "MemoryLog", "OperatorHarness", "Pause", "ScriptedSource"]

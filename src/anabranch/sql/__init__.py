"""Text → statements → plans → explain."""

from anabranch.sql.archives import ArchiveQuestion, ArchiveUse
from anabranch.sql.once import OncePlan, StreamUse, plan_once
from anabranch.sql.parser import is_complete, parse
from anabranch.sql.plan import StandingPlan, plan_standing
from anabranch.sql.statements import STATEMENTS, Statement
from anabranch.sql.tree import Select, Window

__all__ = [
    "STATEMENTS",
    "ArchiveQuestion",
    "ArchiveUse",
    "OncePlan",
    "Select",
    "StandingPlan",
    "Statement",
    "StreamUse",
    "Window",
    "is_complete",
    "parse",
    "plan_once",
    "plan_standing",
]

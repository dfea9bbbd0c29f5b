"""Text → statements → plans → explain."""

from anabranch.sql.history.archives import ArchiveQuestion, ArchiveUse
from anabranch.sql.once import OncePlan, plan_once
from anabranch.sql.over_views import StreamUse
from anabranch.sql.reading.parser import is_complete, parse
from anabranch.sql.standing.plan import plan_standing
from anabranch.sql.standing.standing_plan import StandingPlan
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

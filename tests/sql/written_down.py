"""Plans that have been written down: whatever a test asks of a plan, it asks of one that was read again."""

from __future__ import annotations

import json

from anabranch.sql import StandingPlan


def read_again(plan: StandingPlan) -> StandingPlan:
    """The plan after it went through JSON, which must not have changed it."""
    again = StandingPlan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.explain_text() == plan.explain_text()
    assert again.explain_json() == plan.explain_json()
    return again

"""What operators report of their work beside rows and bytes: one row and one file for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from anabranch.operators.history import withheld
from anabranch.operators.join import completeness
from anabranch.operators.merge import counts
from anabranch.operators.together import costs, failed
from anabranch.operators.tree import accounts

Event = tuple[str, str]
"""Its name, and what it means."""


class ReportKind(NamedTuple):
    """How reports of one kind are put together and told."""

    together: Callable[[Any, Any], Any]
    """Those of two tasks of the same micro-batch."""
    after: Callable[[Any, Any], Any]
    """What a query keeps of it after one more micro-batch: of what it had kept (None at first), and what was said."""
    told: Callable[[Any], dict[str, Any]]
    """What a query's statistics say of what it has kept (None: nothing was reported yet)."""
    of_many: bool = True
    """Whether what several members of a host say comes to something, too."""
    events: Callable[[Any, Any], Iterable[Event]] = lambda before, said: ()
    """What people should know when that is said after what was kept before."""


REPORTS: dict[str, ReportKind] = {
    accounts.KIND: ReportKind(accounts.together, accounts.after, accounts.told, of_many=False),
    completeness.KIND: ReportKind(completeness.together, completeness.after, completeness.told),
    costs.KIND: ReportKind(costs.together, costs.after, costs.told),
    counts.KIND: ReportKind(counts.together, counts.after, counts.told, of_many=False, events=counts.events),
    failed.FAILED: ReportKind(failed.together, failed.after, failed.told),
    failed.FLOODED: ReportKind(failed.together, failed.after, failed.told),
    withheld.KIND: ReportKind(withheld.together, withheld.after, withheld.told, events=withheld.events),
}
"""Every kind of report there is."""

"""How a query is doing, for people and programs: what it has taken in, and its Stream, Store, Scratch and Throw."""

from __future__ import annotations

from typing import Any

from anabranch.errors import AnabranchError, StreamError
from anabranch.operators.reports import REPORTS
from anabranch.queries.member import Member
from anabranch.queries.progress import Progress

_NOTHING = {"rows": 0, "bytes": 0, "why": "nothing is known"}


def stats_of(member: Member, progress: Progress, status: str, waits_for: dict[str, Any] | None) -> dict[str, Any]:
    """Of a query in working order."""
    counts, reader, operator = progress.counts, member.reader(), member.operator
    try:
        store = member.store(progress.done())
    except StreamError:  # who asks for its rows is told which are missing
        store = reader.schema.empty_table()
    keeps = operator.keeps()
    return {
        **_counted(member.name, status, progress),
        "rows_per_second": counts.rows_per_second,
        "last_batch_ms": counts.last_batch_ms,
        "behind_rows": member.behind(member.known_ends(), progress.done()),
        "waits_for": waits_for,
        "stream": {"rows": reader.end().row, "bytes": reader.size(), "why": operator.why_stream},
        "store": {
            "rows": store.num_rows,
            "bytes": store.nbytes if store.num_rows else 0,
            "why": operator.why_store,
        },
        "scratch": {
            "rows": counts.scratch_rows,
            "bytes": counts.scratch_bytes,
            "why": keeps.what if keeps else "nothing is kept",
        },
        "throw": {"rows": counts.rows_thrown, "bytes": None, "why": operator.why_throw},
    }


def stats_of_damaged(name: str, progress: Progress, failure: AnabranchError) -> dict[str, Any]:
    """Of a query that cannot be made ready."""
    return {
        **_counted(name, "failed", progress),
        "rows_per_second": 0.0,
        "last_batch_ms": 0.0,
        "behind_rows": 0,
        "waits_for": None,
        **dict.fromkeys(("stream", "store", "scratch", "throw"), _NOTHING),
        "failure": str(failure),
    }


def _counted(name: str, status: str, progress: Progress) -> dict[str, Any]:
    counts = progress.counts
    reported = {
        key: value for kind, report in REPORTS.items() for key, value in report.told(counts.reports.get(kind)).items()
    }
    return {
        "name": name,
        "status": status,
        "rows_in": counts.rows_in,
        "bytes_in": counts.bytes_in,
        "batches": counts.batches,
        **reported,
    }

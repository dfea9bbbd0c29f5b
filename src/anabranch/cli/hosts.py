"""The members of a large host as a few lines: the host, those that are not as most are, those that answer most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Entry = Mapping[str, Any]
LARGE = 12
"""Of a host with more members than that, only these are shown:"""
_HEAVIEST = 5
_OTHERS = 5


def condensed(queries: Iterable[Entry]) -> list[Entry]:
    """Queries as they were, and of each large host a line for all its members, and some of them.

    >>> members = [{"name": f"q{i}", "status": "running", "host": "h", "stream": {"rows": i}} for i in range(20)]
    >>> members[3]["status"] = "failed"
    >>> [(line["name"], line["status"], line["stream"]["rows"]) for line in condensed(members)][:3]
    [('h: 20 queries', '19 running, 1 failed', 190), ('· q3', 'failed', 3), ('· q19', 'running', 19)]
    """
    lines: list[Entry] = []
    members: dict[str, list[Entry]] = defaultdict(list)
    for query in queries:
        if query.get("host") is None:
            lines.append(query)
        else:
            members[query["host"]].append(query)
    for host, of_host in members.items():
        lines += of_host if len(of_host) <= LARGE else _lines(host, of_host)
    return lines


def _lines(host: str, members: list[Entry]) -> list[Entry]:
    statuses = Counter(str(member.get("status", "?")) for member in members).most_common()
    status = statuses[0][0] if len(statuses) == 1 else ", ".join(f"{count:,} {name}" for name, count in statuses)
    rows = sum(_rows(member) for member in members)
    parts = {"stream": {"rows": rows}, "store": None, "scratch": None, "throw": None}
    line = {**members[0], **parts, "name": f"{host}: {len(members):,} queries", "status": status}
    others = [member for member in members if member.get("status") != statuses[0][0]][:_OTHERS]
    shown = {id(member) for member in others}
    heaviest = sorted((member for member in members if id(member) not in shown), key=_rows, reverse=True)[:_HEAVIEST]
    return [line, *({**member, "name": f"· {member['name']}"} for member in (*others, *heaviest))]


def _rows(member: Entry) -> int:
    return int((member.get("stream") or {}).get("rows") or 0)

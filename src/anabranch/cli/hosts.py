"""The members of a large host as a few lines: the host, those that are not as most are, are behind, or cost most."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Entry = Mapping[str, Any]
LARGE = 12
"""Of a host with more members than that, only these are shown:"""
_SHOWN = 5


def condensed(queries: Iterable[Entry]) -> list[Entry]:
    """Queries as they were, and of each large host a line for all its members, and some of them.

    >>> members = [{"name": f"q{i}", "status": "running", "host": "h", "share": i / 190} for i in range(20)]
    >>> members[3]["status"], members[7]["behind_rows"] = "failed", 1000
    >>> [(line["name"], line["status"]) for line in condensed(members)][:4]
    [('h: 20 queries', '19 running, 1 failed'), ('· q3', 'failed'), ('· q7', 'running'), ('· q19', 'running')]
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
    parts = {"stream": {"rows": rows}, "store": None, "scratch": None, "throw": None, "share": None}
    behind = min(map(_behind, members))
    line = {**members[0], **parts, "name": f"{host}: {len(members):,} queries", "status": status, "behind_rows": behind}
    others = [member for member in members if member.get("status") != statuses[0][0]][:_SHOWN]
    late = _some_of(members, others, key=lambda member: (_behind(member) - behind,))
    heaviest = _some_of(members, others + late, key=lambda member: (_share(member), _rows(member)))
    return [line, *({**member, "name": f"· {member['name']}"} for member in (*others, *late, *heaviest))]


def _some_of(members: list[Entry], shown: list[Entry], key: Callable[[Entry], tuple[float, ...]]) -> list[Entry]:
    """Those that have most of something, if they have any, and are not shown yet."""
    known = {id(member) for member in shown}
    left = [member for member in members if id(member) not in known and any(key(member))]
    return sorted(left, key=key, reverse=True)[:_SHOWN]


def _behind(member: Entry) -> int:
    return int(member.get("behind_rows") or 0)


def _share(member: Entry) -> float:
    return float(member.get("share") or 0)


def _rows(member: Entry) -> int:
    return int((member.get("stream") or {}).get("rows") or 0)

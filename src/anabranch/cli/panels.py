"""Streams and queries as tables: what `top` and `demo` draw, in any width from 80 columns on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from anabranch.cli.terminal import clock_time, count, size

Entry = Mapping[str, Any]
WIDE = 110
_LEFT = {"status", "what"}
_STATUS = {"running": "green", "failed": "bold red", "lost": "bold red", "stopped": "yellow", "starting": "cyan"}


def streams_table(streams: Iterable[Entry], width: int = WIDE) -> Table:
    """Rows, speed, newest time, bytes and rejects of each stream."""
    drawn = _table("Streams", width)
    _columns(drawn, "stream", "rows", "rows/s", "newest (UTC)", "bytes", "rejects")
    for stream in streams:
        rejects = int(stream.get("rejects") or 0)
        drawn.add_row(
            Text(str(stream["name"])),
            f"{stream.get('rows', 0):,}",
            _or_dash(stream.get("rows_per_second"), count),
            clock_time(stream.get("newest_us")),
            size(stream.get("bytes", 0)),
            Text(f"{rejects:,}", style="yellow" if rejects else ""),
        )
    return drawn


def queries_table(queries: Iterable[Entry], width: int = WIDE) -> Table:
    """What each query does and what it holds: Stream, Store, Scratch and Throw."""
    drawn = _table("Queries", width)
    names = ["query", "status", "in/s", "Stream", "Store", "Scratch", "Throw", "batch", "behind"]
    shares = any(query.get("share") is not None for query in queries)
    waits = any(query.get("waits_for") for query in queries)
    latency = any("latency" in query for query in queries)
    more = {"share": shares, "waits for": waits, "latency": latency}
    _columns(drawn, *names, *(name for name, wanted in more.items() if wanted))
    for query in queries:
        status = str(query.get("status", "?"))
        scratch = _part(query, "scratch")
        cells: list[Text | str] = [
            Text(str(query["name"])),
            Text(status, style=_STATUS.get(status, "")),
            _or_dash(query.get("rows_per_second"), count),
            count(_part(query, "stream")["rows"]),
            count(_part(query, "store")["rows"]),
            size(scratch["bytes"]) if width >= WIDE else count(scratch["rows"]),
            count(_part(query, "throw")["rows"]),
            _or_dash(query.get("last_batch_ms"), lambda ms: f"{ms:.0f}ms"),
            count(query.get("behind_rows") or 0),
            *([_or_dash(query.get("share"), lambda share: f"{share:.0%}")] if shares else []),
            *([Text((query.get("waits_for") or {}).get("stream", ""))] if waits else []),
        ]
        drawn.add_row(*cells, *([_or_dash(query.get("latency"), lambda s: f"{s:.2f}s")] if latency else []))
    return drawn


def rows_table(
    title: str | None, names: list[str], rows: Iterable[Iterable[str]], most: int, width: int = WIDE
) -> Table:
    """A few rows of an answer."""
    drawn = _table(title, width)
    _columns(drawn, *names)
    for number, row in enumerate(rows):
        if number == most:
            break
        drawn.add_row(*(Text(text) for text in row))
    return drawn


def _table(title: str | None, width: int) -> Table:
    return Table(
        title=None if title is None else Text(title, style="bold cyan"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        header_style="bold",
        border_style="dim",
        pad_edge=False,
        padding=(0, 1, 0, 0) if width >= WIDE else 0,
        show_edge=False,
    )


def _columns(drawn: Table, first: str, *others: str) -> None:
    drawn.add_column(first, no_wrap=True, overflow="ellipsis", min_width=13)
    for name in others:
        left = name in _LEFT
        drawn.add_column(name, justify="left" if left else "right", no_wrap=name != "what", overflow="ellipsis")


def _part(entry: Entry, name: str) -> dict[str, float]:
    part = entry.get(name) or {}
    return {"rows": part.get("rows") or 0, "bytes": part.get("bytes") or 0}


def _or_dash(value: Any, show: Any) -> str:
    return "-" if value is None else str(show(value))

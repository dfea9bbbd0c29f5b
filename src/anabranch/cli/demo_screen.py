"""The demo's picture: how far it is, streams, queries, and the answers of the moment."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from anabranch.cli.output import cell
from anabranch.cli.panels import queries_table, rows_table, streams_table
from anabranch.cli.terminal import clock_time, console, count, seconds, size
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    import pyarrow as pa

    from anabranch.cli.demo import Demo

_LOOK_EVERY = 0.5
_FIXED_LINES = 19
"""Lines of everything but the rows of the answers at the bottom."""


class Screen:
    """Draws a demo in the terminal's alternate screen, so that nothing scrolls and nothing is left behind."""

    def __init__(self, demo: Demo) -> None:
        self._demo = demo
        self._console = console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False, vertical_overflow="crop")
        self._spinner = Spinner("dots")
        self._stop = threading.Event()
        self._looker = threading.Thread(target=self._keep_looking, name="look", daemon=True)
        self._body: RenderableType = Text("")

    def __enter__(self) -> Screen:
        self._live.start()
        self._looker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._live.stop()

    def draw(self) -> None:
        """One frame: what was seen last, under a header that is always of this moment."""
        self._live.update(Group(self._header(), Text(""), self._body), refresh=True)

    def _keep_looking(self) -> None:
        """Looking takes files and locks; the picture must not stand still for them."""
        while not self._stop.wait(_LOOK_EVERY):
            with contextlib.suppress(AnabranchError):
                self._body = self._look()

    def _header(self) -> RenderableType:
        demo = self._demo
        line = Table.grid(padding=(0, 2))
        facts = [Text("anabranch demo", style="bold")]
        if demo.rows:
            facts += [Text(f"{demo.rows:,} rows"), Text(f"{count(demo.rows_per_second)} rows/s")]
        if demo.ready_at is None:
            self._spinner.update(text=Text(f"{demo.stage} … {seconds(demo.elapsed())}"))
            line.add_row(*facts, self._spinner)
        else:
            ready = Text(f"Spark ready, {seconds(demo.running_for())}", style="green")
            line.add_row(*facts, ready, Text("Ctrl-C ends", style="dim"))
        return line

    def _look(self) -> RenderableType:
        demo, width = self._demo, self._console.width
        overview = demo.overview()
        if not overview["streams"]:
            return Text("")
        rows = max(3, self._console.height - _FIXED_LINES)
        parts: list[RenderableType] = [streams_table(overview["streams"], width)]
        if overview["queries"]:
            parts += [Text(""), queries_table(overview["queries"], width)]
            answers = Table.grid(padding=(0, 4))
            answers.add_row(self._talkers(rows), self._alerts(rows))
            parts += [Text(""), answers]
        return Group(*parts)

    def _talkers(self, most: int) -> RenderableType:
        rows = self._answer("talkers", store=True)
        top = sorted(rows, key=lambda row: -row["bytes"])
        shown = ([row["saddr"], count(row["packets"]), size(row["bytes"])] for row in top)
        return rows_table("Top talkers, last 10 s", ["host", "packets", "bytes"], shown, most, self._console.width)

    def _alerts(self, most: int) -> RenderableType:
        rows = reversed(self._answer("load", most))
        shown = ([_moment(row["window_end"]), size(row["bytes"])] for row in rows)
        return rows_table("Overloads (Q1)", ["second (UTC)", "bytes"], shown, most, self._console.width)

    def _answer(self, name: str, rows: int = 0, *, store: bool = False) -> list[dict[str, Any]]:
        """Rows of a query's Store or of the end of its Stream; none while it is not there yet."""
        db, query = self._demo.db, self._demo.queries.get(name)
        if db is None or query is None:
            return []
        table: pa.Table = query.store() if store else db.tail(name, rows=rows)
        shown: list[dict[str, Any]] = table.to_pylist()
        return shown


def _moment(value: Any) -> str:
    return clock_time(int(value.timestamp() * 1e6))[:-2] if hasattr(value, "timestamp") else cell(value)

"""`anabranch top`: what a database does, seen from outside; it reads files and disturbs nobody."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from anabranch.cli.hosts import condensed
from anabranch.cli.opening import open_existing
from anabranch.cli.output import jsonable
from anabranch.cli.terminal import console, is_terminal
from anabranch.log.stream import ANSWERS

Overview = dict[str, list[dict[str, Any]]]
_SPEED_SECONDS = 4.0


def run(args: argparse.Namespace) -> int:
    """The command."""
    with open_existing(args.db) as db:
        speeds = Speeds()
        if args.once or not (args.json or is_terminal()):
            _print(speeds.added_to(db.overview(), time.monotonic()), args.json)
            return 0
        if args.json:
            while True:
                _print(speeds.added_to(db.overview(), time.monotonic()), True)
                time.sleep(args.every)
        _live(lambda: speeds.added_to(db.overview(), time.monotonic()), args.db, args.every)
    return 0


class Speeds:
    """Rows a second of each stream over the last few seconds, from looks at it: nobody has to count for us."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, dict[str, int]]] = deque()

    def added_to(self, overview: Overview, now: float) -> Overview:
        """The streams that are no query's answer or list, with `rows_per_second` where they were there before."""
        overview["streams"] = [s for s in overview["streams"] if s.get("kind") != ANSWERS and not s.get("of_host")]
        while len(self._looks) > 1 and now - self._looks[0][0] > _SPEED_SECONDS:
            self._looks.popleft()
        if self._looks:
            at, before = self._looks[0]
            for stream in overview["streams"]:
                if stream["name"] in before and now > at:
                    stream["rows_per_second"] = max(0, stream["rows"] - before[stream["name"]]) / (now - at)
        self._looks.append((now, {stream["name"]: stream["rows"] for stream in overview["streams"]}))
        return overview


def _print(overview: Overview, as_json: bool) -> None:
    if as_json:
        print(json.dumps(jsonable(overview), ensure_ascii=False), flush=True)
        return
    from anabranch.cli.panels import queries_table, streams_table

    screen = console()
    screen.print(streams_table(overview["streams"], screen.width))
    if overview["queries"]:
        screen.print()
        screen.print(queries_table(condensed(overview["queries"]), screen.width))
    sys.stdout.flush()


def _live(look: Callable[[], Overview], path: str, every: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from anabranch.cli.panels import queries_table, streams_table

    screen = console()

    def drawing() -> Group:
        overview = look()
        moment = time.strftime("%H:%M:%S")
        return Group(
            Text.assemble(("anabranch top", "bold"), f"  {path}  {moment}   ", ("Ctrl-C ends", "dim")),
            Text(""),
            streams_table(overview["streams"], screen.width),
            Text(""),
            queries_table(condensed(overview["queries"]), screen.width),
        )

    try:
        with Live(drawing(), console=screen, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every)
                live.update(drawing(), refresh=True)
    except KeyboardInterrupt:
        return

"""The interactive shell: history, completion, several lines, timing, and Ctrl-C for a statement alone."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import completion_is_selected
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer, PygmentsLexer
from prompt_toolkit.output import Output

from anabranch.cli import running
from anabranch.cli.asking import Asking
from anabranch.cli.completion import Names, SqlCompleter
from anabranch.cli.failure import report
from anabranch.cli.opening import open_or_create
from anabranch.cli.output import Mode, RowPrinter, mode_of
from anabranch.cli.sql import print_live
from anabranch.cli.statement_texts import StatementText, is_complete, split
from anabranch.cli.terminal import console, has_color, plural, seconds

if TYPE_CHECKING:
    from anabranch.database import Database

_PROMPT = "anabranch> "
_MORE = "        .. "
_LEAVE = {"\\q", "quit", "exit"}
_HELP = {"\\?", "\\h", "help", "?"}
_KEYS = (
    ("Tab", "complete a keyword, function, stream, query or column"),
    ("Up, Ctrl-R", "earlier statements"),
    ("Ctrl-C", "cancel the statement that runs, or clear what is typed"),
    ("Ctrl-D, \\q", "leave"),
)


class Shell:
    """Reads statements, runs them, prints what they give."""

    def __init__(
        self,
        path: str,
        *,
        as_json: bool = False,
        verbose: bool = False,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._path, self._verbose = path, verbose
        self._mode: Mode = mode_of(as_json)
        self._console = console()
        self._names = Names()
        self._db: Database | None = None
        self._prompt: PromptSession[str] = PromptSession(
            history=_history(),
            completer=SqlCompleter(lambda: self._names),
            auto_suggest=AutoSuggestFromHistory(),
            lexer=_lexer(),
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: _MORE,
            key_bindings=_keys(),
            complete_while_typing=True,
            input=input,
            output=output,
        )

    def run(self) -> int:
        """Until the user leaves; the exit code."""
        self._console.print(f"[bold]anabranch[/]  {self._path}   [dim]help; lists the statements, Ctrl-D leaves[/]")
        try:
            self._db = running.run(lambda: open_or_create(self._path), lambda: "opening …", lambda: None)
        except running.Cancelled:
            return 130
        try:
            while (text := self._read()) is not None:
                self._run_text(text)
        finally:
            running.run(self._db.close, lambda: "closing …", lambda: None)
        return 0

    def _read(self) -> str | None:
        """What was typed; None to leave."""
        threading.Thread(target=self._refresh_names, name="names", daemon=True).start()
        while True:
            try:
                text = self._prompt.prompt(FormattedText([("bold" if has_color() else "", _PROMPT)]))
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if text.strip().rstrip(";").strip().lower() in _LEAVE:
                return None
            return text

    def _run_text(self, text: str) -> None:
        if text.strip().rstrip(";").strip().lower() in _HELP:
            self._help()
            return
        for statement in split(text):
            started = time.monotonic()
            try:
                done = self._run_statement(statement)
            except running.Cancelled:
                self._console.print("cancelled", style="yellow")
                return
            except Exception as error:
                report(error, verbose=self._verbose, to=sys.stdout)
                return
            took = seconds(time.monotonic() - started)
            if self._mode != "json":
                self._console.print(f"{done}, {took}" if done else took, style="dim")

    def _run_statement(self, statement: StatementText) -> str:
        """Run and print; what to say about it beside the time."""
        db = self._db
        assert db is not None
        asking = Asking(db, statement)
        result = running.run(asking.answer, asking.saying, asking.cancel)
        if result.live is not None:
            return self._subscribe(result.live)
        if not result.has_rows:
            return result.message
        table = result.table()
        RowPrinter(self._mode).print(table)
        for notice in result.notices:
            self._console.print(f"notice: {notice}", style="dim", markup=False)
        return plural(table.num_rows, "row")

    def _subscribe(self, answers: Iterator[pa.RecordBatch]) -> str:
        self._console.print("answers as they come; Ctrl-C ends it", style="dim")
        try:
            print_live(answers, RowPrinter("json" if self._mode == "json" else "plain"))
        except KeyboardInterrupt:
            self._console.print()
        return "ended"

    def _help(self) -> None:
        from rich.table import Table
        from rich.text import Text

        from anabranch.sql.statements import STATEMENTS

        drawn = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for statement in STATEMENTS:
            drawn.add_row(Text(statement.syntax, style="bold"))
            drawn.add_row(Text("    " + statement.help))
        keys = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for key, what in _KEYS:
            keys.add_row(Text(key, style="bold"), Text(what))
        self._console.print(drawn)
        self._console.print()
        self._console.print(keys)

    def _refresh_names(self) -> None:
        """The catalog's names for completion; old ones are better than an error while typing."""
        if self._db is None:
            return
        with contextlib.suppress(Exception):
            self._names = names_of(self._db)


def names_of(db: Database) -> Names:
    """The streams, tables and queries of a database with their columns."""
    columns = {info.name: tuple(info.schema.names) for info in db.streams()}
    columns |= {info.name: tuple(info.schema.names) for info in db.catalog.tables()}
    return Names(columns, frozenset(query.name for query in db.queries()))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        """Enter runs a finished statement and otherwise begins a new line."""
        buffer = event.current_buffer
        text = buffer.text.strip()
        if not text or text.lower() in _LEAVE | _HELP or (is_complete(text) and buffer.document.is_cursor_at_the_end):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        """Enter on a chosen completion takes it, and only that."""
        event.current_buffer.complete_state = None

    return keys


def _history() -> History:
    """Statements of earlier sessions, in the user's state directory; for the user alone, since some hold tokens."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    directory = Path(state) / "anabranch"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        file = directory / "history"
        file.touch(0o600)
        file.chmod(0o600)
        return FileHistory(str(file))
    except OSError:
        return InMemoryHistory()


def _lexer() -> Lexer | None:
    if not has_color():
        return None
    from pygments.lexers.sql import SqlLexer

    return PygmentsLexer(SqlLexer)

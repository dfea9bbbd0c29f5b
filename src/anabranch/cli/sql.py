"""`anabranch sql`: the statements of a text one after the other, or the shell."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.cli.failure import StatementError
from anabranch.cli.opening import open_or_create
from anabranch.cli.output import RowPrinter, mode_of
from anabranch.cli.statement_texts import StatementText, split
from anabranch.cli.terminal import is_terminal
from anabranch.errors import AnabranchError, DataError

if TYPE_CHECKING:
    from anabranch.database import Database
    from anabranch.result import Result


def run(args: argparse.Namespace) -> int:
    """The command."""
    text = _text(args)
    if text is None:
        from anabranch.cli.shell import Shell

        return Shell(args.db, as_json=args.json, verbose=args.verbose).run()
    statements = split(text)
    with open_or_create(args.db) as db:
        for statement in statements:
            execute(db, statement, RowPrinter(mode_of(args.json)))
    return 0


def execute(db: Database, statement: StatementText, printer: RowPrinter) -> None:
    """Run a statement and print what it gives; SUBSCRIBE goes on until Ctrl-C."""
    result = answer(db, statement)
    if result.live is not None:
        print_live(result.live, printer)
    elif result.has_rows:
        printer.print(result.table())
        for notice in result.notices:
            print(f"notice: {notice}", file=sys.stderr)
    elif result.message and printer.mode != "json":
        print(result.message)


def answer(db: Database, statement: StatementText) -> Result:
    """What a statement gives; an error knows the statement's text and place."""
    try:
        result: Result = db.sql(statement.text)
        return result
    except AnabranchError as error:
        raise StatementError(error, statement.text, statement.line, statement.column) from error


def print_live(batches: Iterator[pa.RecordBatch], printer: RowPrinter) -> None:
    """Rows as they come, under one header."""
    for batch in batches:
        if batch.num_rows:
            printer.print_more(pa.Table.from_batches([batch]))


def _text(args: argparse.Namespace) -> str | None:
    """The statements to run; None if someone is going to type them."""
    if args.text is not None:
        return str(args.text)
    if args.file == "-" or (args.file is None and not (is_terminal(sys.stdin) and is_terminal())):
        return sys.stdin.read()
    if args.file is None:
        return None
    try:
        return Path(args.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise DataError("FILE_NOT_READABLE", f"{args.file} could not be read", detail=str(problem)) from None

"""`anabranch tail`: the last rows of a stream or of a query's answer, and those that follow."""

from __future__ import annotations

import argparse

from anabranch.cli.opening import open_existing
from anabranch.cli.output import RowPrinter, mode_of
from anabranch.cli.sql import print_live


def run(args: argparse.Namespace) -> int:
    """The command."""
    mode = mode_of(args.json)
    with open_existing(args.db) as db:
        if not args.follow:
            RowPrinter(mode).print(db.tail(args.stream, rows=args.rows))
            return 0
        printer = RowPrinter("plain" if mode == "table" else mode)
        reader = db.reader(args.stream)
        end = reader.end().row
        printer.print_more(reader.read(max(end - args.rows, reader.first_row()), end))
        print_live(db.follow(args.stream, end), printer)
    return 0

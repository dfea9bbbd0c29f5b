"""`anabranch append`: the rows of a file into a stream, with progress; Spark is not started."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.cli.opening import open_existing
from anabranch.cli.terminal import console, count, is_terminal, plural, seconds
from anabranch.errors import AnabranchError
from anabranch.log.stream import rejects_name
from anabranch.sources import open_file

if TYPE_CHECKING:
    from anabranch.database import Database


def run(args: argparse.Namespace) -> int:
    """The command."""
    with open_existing(args.db) as db:
        of_table = db.catalog.table_schema(args.stream)
        schema = of_table or db.catalog.schema(args.stream)
        rejects = 0 if of_table else _rejects(db, args.stream)
        progress = _Progress(args.stream, quiet=args.json)
        try:
            for table in in_batches(open_file(args.file, schema, args.format), args.batch):
                db.append(args.stream, table)
                progress.add(table.num_rows)
            if of_table is None:
                db.flush(args.stream)
        except AnabranchError as error:
            if progress.rows:
                before = f"{plural(progress.rows, 'row')} before it were appended"
                error.detail = f"{error.detail}; {before}" if error.detail else before
            raise
        finally:
            progress.end()
        rejected = 0 if of_table else _rejects(db, args.stream) - rejects
    if args.json:
        summary = {"stream": args.stream, "rows": progress.rows, "rejected": rejected, "seconds": progress.seconds}
        print(json.dumps(summary))
        return 0
    rate = f", {count(progress.rows / progress.seconds)} rows/s" if progress.rows else ""
    print(f"{plural(progress.rows - rejected, 'row')} appended to {args.stream} in {seconds(progress.seconds)}{rate}")
    if rejected:
        print(f"{plural(rejected, 'row')} rejected: anabranch tail {rejects_name(args.stream)} says why")
    return 0


def in_batches(tables: Iterator[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of exactly `rows` rows; the last may be shorter."""
    held: list[pa.Table] = []
    have = 0
    for table in tables:
        while table.num_rows:
            part = table.slice(0, rows - have)
            table = table.slice(part.num_rows)
            held.append(part)
            have += part.num_rows
            if have == rows:
                yield pa.concat_tables(held, promote_options="default")
                held, have = [], 0
    if held:
        yield pa.concat_tables(held, promote_options="default")


class _Progress:
    """A line on the terminal that counts; nothing in a pipe."""

    def __init__(self, stream: str, quiet: bool) -> None:
        self.rows = 0
        self._started = time.monotonic()
        self._stream = stream
        self._status = (
            None if quiet or not is_terminal(sys.stderr) else console(sys.stderr).status(f"appending to {stream} …")
        )
        if self._status is not None:
            self._status.start()

    @property
    def seconds(self) -> float:
        return max(time.monotonic() - self._started, 1e-6)

    def add(self, rows: int) -> None:
        self.rows += rows
        if self._status is not None:
            rate = count(self.rows / self.seconds)
            self._status.update(f"appending to {self._stream} … {plural(self.rows, 'row')}, {rate} rows/s")

    def end(self) -> None:
        if self._status is not None:
            self._status.stop()


def _rejects(db: Database, stream: str) -> int:
    return sum(s["rejects"] for s in db.overview()["streams"] if s["name"].lower() == stream.lower())

"""What the records of a file do, and how a difference is told."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Protocol

from anabranch.errors import AnabranchError
from anabranch.testing.slt.cells import Rows, same_cells, split
from anabranch.testing.slt.format import File, Record, SltError
from anabranch.testing.sparkless import NeedsSpark


class Plays(Protocol):
    """What a file is played against: `stage.Stage`, or one in another process."""

    def sql(self, text: str) -> Rows: ...
    def push(self, stream: str, lines: tuple[str, ...], batch: int) -> None: ...
    def flush(self, stream: str) -> None: ...
    def advance(self, stream: str, time: str) -> None: ...
    def clock(self, time: str) -> None: ...
    def answers(self, query: str) -> Rows: ...
    def store(self, query: str) -> Rows: ...
    def restart(self) -> None: ...


class Mismatch(AssertionError):
    """A record did not come out as the file says."""


def play(file: File, stage: Plays, *, single_rows: bool = False) -> None:
    """Play all records of a file; the first that comes out otherwise raises Mismatch."""
    for _ in steps(file, stage, single_rows=single_rows):
        pass


def steps(file: File, stage: Plays, *, single_rows: bool = False) -> Iterator[Record]:
    """Play a file record by record, so that several can be played side by side."""
    numbers = iter(range(1_000_000))
    for record in file.records:
        try:
            _PLAYERS[record.kind](_Run(file, stage, single_rows, lambda: next(numbers)), record)
        except (ValueError, KeyError) as problem:
            raise SltError(f"{file.path}:{record.line}: {record}: {problem!r}") from problem
        yield record


class _Run:
    def __init__(self, file: File, stage: Plays, single_rows: bool, number: Callable[[], int]) -> None:
        self.file, self.stage, self.single_rows, self.number = file, stage, single_rows, number

    def attempt(self, record: Record, action: Callable[[], object]) -> None:
        """Do what may be expected to fail."""
        wanted = record.words[-1] if "error" in record.words else None
        try:
            action()
        except NeedsSpark:
            if not _asks_once(record):
                raise
            return
        except AnabranchError as problem:
            if wanted is None:
                raise self.mismatch(record, f"failed with {problem}") from problem
            if problem.name != wanted:
                raise self.mismatch(record, f"wanted error {wanted}, got {problem}") from problem
            if record.expected is not None:
                self.compare(record, list(record.expected), _wrapped(str(problem), record.expected))
            return
        if wanted is not None:
            raise self.mismatch(record, f"wanted error {wanted}, but it went well")

    def rows(self, record: Record, get: Callable[[], Rows]) -> None:
        """Get rows and compare them with those expected."""
        try:
            got = get()
        except NeedsSpark:
            if not _asks_once(record):
                raise
            return
        except AnabranchError as problem:
            raise self.mismatch(record, f"failed with {problem}") from problem
        assert record.expected is not None
        if "contains" in record.words:
            self.contains(record, got)
            return
        got = _chosen(got, record)
        header, *wanted = [split(line) for line in record.expected]
        header = same_cells(header, ["name"] * len(header))
        for offset, row in enumerate(wanted, 1):
            if len(row) != len(header):
                raise SltError(f"{self.file.path}:{record.expected_line + offset}: {len(row)} cells, not {len(header)}")
        kinds = got.kinds if len(got.kinds) == len(header) else ["other"] * len(header)
        wanted = [same_cells(row, kinds) for row in wanted]
        cells = got.cells
        if "sorted" in record.words:
            wanted, cells = sorted(wanted), sorted(cells)
        self.compare(record, _lines(header, wanted), _lines(got.names, cells))

    def contains(self, record: Record, got: Rows) -> None:
        lines = iter([" | ".join(row) for row in got.cells])
        for wanted in record.expected or ():
            if not any(wanted.strip() in line for line in lines):
                text = "\n".join(" | ".join(row) for row in got.cells)
                raise self.mismatch(record, f"{wanted.strip()!r} is missing (in this order) in\n{text}")

    def compare(self, record: Record, wanted: list[str], got: list[str]) -> None:
        if wanted != got:
            diff = difflib.unified_diff(wanted, got, "expected", "got", n=1000, lineterm="")
            raise self.mismatch(record, "\n".join(["the answer differs:", *list(diff)[3:]]))

    def mismatch(self, record: Record, why: str) -> Mismatch:
        sql = "\n".join(f"    {line}" for line in record.body if record.kind != "push")
        return Mismatch(f"{self.file.path}:{record.line}: {record}\n{sql}\n{why}".replace("\n\n", "\n"))


def _asks_once(record: Record) -> bool:
    """True for a SELECT that only Spark can answer: without Spark it is left out."""
    return record.kind in ("statement", "query") and record.body[0].split()[0].upper() in ("SELECT", "WITH")


def _chosen(rows: Rows, record: Record) -> Rows:
    if "columns" not in record.words:
        return rows
    names = record.words[record.words.index("columns") + 1 :]
    places = [rows.names.index(name) for name in names]
    return Rows(list(names), [rows.kinds[p] for p in places], [[row[p] for p in places] for row in rows.cells])


def _lines(names: list[str], cells: list[list[str]]) -> list[str]:
    return [" | ".join(row) for row in [names, *cells]]


def _wrapped(text: str, like: tuple[str, ...]) -> list[str]:
    """An error's text broken where the expected one is, if it is the same."""
    return list(like) if " ".join(like) == text else [text]


def _statement(run: _Run, record: Record) -> None:
    run.attempt(record, lambda: run.stage.sql("\n".join(record.body)))


def _push(run: _Run, record: Record) -> None:
    header, *rows = record.body
    if run.single_rows and "error" not in record.words:
        for row in rows:
            run.attempt(record, lambda row=row: run.stage.push(record.words[0], (header, row), run.number()))  # type: ignore[misc]
    else:
        run.attempt(record, lambda: run.stage.push(record.words[0], record.body, run.number()))


def _query(run: _Run, record: Record) -> None:
    run.rows(record, lambda: run.stage.sql("\n".join(record.body)))


_PLAYERS: dict[str, Callable[[_Run, Record], None]] = {
    "statement": _statement,
    "push": _push,
    "flush": lambda run, record: run.stage.flush(record.words[0]),
    "advance": lambda run, record: run.stage.advance(record.words[0], " ".join(record.words[1:])),
    "clock": lambda run, record: run.stage.clock(" ".join(record.words)),
    "restart": lambda run, record: run.stage.restart(),
    "query": _query,
    "answers": lambda run, record: run.rows(record, lambda: run.stage.answers(record.words[0])),
    "store": lambda run, record: run.rows(record, lambda: run.stage.store(record.words[0])),
}

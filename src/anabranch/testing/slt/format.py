"""The text of an `.slt` file: a header of comments, then records separated by blank lines.

    statement ok | statement error NAME     SQL below; for an error, its exact text may follow ----
    push STREAM [error NAME]                a table of rows below
    flush STREAM                            the stream releases what it holds back for its skew
    advance STREAM TIME                     a heartbeat
    clock TIME                              turns the database's clock
    restart                                 the process dies and the database is opened again
    query [sorted | contains] [columns …]   SQL below, its rows after ----
    answers QUERY, store QUERY              all rows of the query's Stream, its current answer, after ----

A name that is no plain word is written in backticks. In the header, `needs: spark` says that the
file has Spark SQL in its standing queries, `also: killed spark_parallel` that these ways are worth
their time for it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

HEADER = ("name", "description", "group")
_OPTIONAL = ("needs", "also")
_WORDS = re.compile(r"`(?:[^`]|``)*`|\S+")
KINDS: dict[str, tuple[int, int]] = {
    "statement": (1, 2),
    "push": (1, 3),
    "flush": (1, 1),
    "advance": (2, 3),
    "clock": (1, 2),
    "restart": (0, 0),
    "query": (0, 99),
    "answers": (1, 1),
    "store": (1, 1),
}
"""The kinds of records, with the least and most words each takes."""
_WITH_EXPECTED = ("query", "answers", "store")
_WITH_BODY = ("statement", "push", "query")


class SltError(Exception):
    """The text of an `.slt` file is wrong."""


@dataclass(frozen=True)
class Record:
    """One record: its kind, the words behind it, the lines below, and those after ----."""

    kind: str
    words: tuple[str, ...]
    body: tuple[str, ...]
    expected: tuple[str, ...] | None
    line: int
    expected_line: int = 0

    def __str__(self) -> str:
        return " ".join([self.kind, *self.words])


@dataclass(frozen=True)
class File:
    """A parsed file."""

    path: str
    header: dict[str, str]
    records: tuple[Record, ...]

    @property
    def name(self) -> str:
        return self.header["name"].removesuffix(".slt")

    @property
    def needs_spark(self) -> bool:
        return "spark" in self.header.get("needs", "").split()

    @property
    def also(self) -> list[str]:
        """The dear ways the file asks for."""
        return self.header.get("also", "").split()


def read(path: Path) -> File:
    """The file at a path."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, path: str = "<text>") -> File:
    """A file from its text.

    >>> file = parse("# name: a\\n# description: b\\n# group: c\\n\\nflush `a b`\\n")
    >>> file.records[0].kind, file.records[0].words
    ('flush', ('a b',))
    """
    lines = text.splitlines()
    header = _header(lines, path)
    records: list[Record] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith("#"):
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        records.append(_record(lines[at:end], at + 1, path))
        at = end
    return File(path, header, tuple(records))


def _header(lines: list[str], path: str) -> dict[str, str]:
    header = {}
    for number, line in enumerate(lines, 1):
        if not line.startswith("# "):
            break
        key, colon, value = line[2:].partition(":")
        if not colon or key not in (*HEADER, *_OPTIONAL):
            raise SltError(f"{path}:{number}: the header takes {', '.join((*HEADER, *_OPTIONAL))}, got {line[2:]!r}")
        header[key] = value.strip()
    missing = [key for key in HEADER if not header.get(key)]
    if missing:
        raise SltError(f"{path}:1: the header lacks {missing[0]}")
    return header


def _record(lines: list[str], number: int, path: str) -> Record:
    def wrong(why: str) -> SltError:
        return SltError(f"{path}:{number}: {why}")

    kind, *words = [unquote(word) for word in _WORDS.findall(lines[0])]
    if kind not in KINDS:
        raise wrong(f"{kind!r} is no record; there are {', '.join(KINDS)}")
    least, most = KINDS[kind]
    if not least <= len(words) <= most:
        raise wrong(f"{kind} takes {least} to {most} words, got {len(words)}")
    if kind == "statement" and words != ["ok"] and (words[0] != "error" or len(words) != 2):
        raise wrong("a statement is ok or error NAME")
    body, expected, expected_line = lines[1:], None, 0
    if "----" in body:
        cut = body.index("----")
        body, expected, expected_line = body[:cut], tuple(body[cut + 1 :]), number + cut + 2
    if kind in _WITH_EXPECTED and not expected:
        raise wrong(f"{kind} has no expected rows: a line ---- and the names of the columns must follow")
    if bool(body) != (kind in _WITH_BODY):
        raise wrong(f"{kind} {'takes no lines below' if body else 'needs lines below it'}")
    return Record(kind, tuple(words), tuple(body), expected, number, expected_line)


def unquote(word: str) -> str:
    """A name without its backticks."""
    return word[1:-1].replace("``", "`") if len(word) > 1 and word[0] == word[-1] == "`" else word

"""The bytes of a file or of standard input, unpacked, with what they seem to be."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import IO, BinaryIO, cast

from anabranch.errors import DataError

STDIN = "-"
PEEK = 64
_EXTENSIONS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def open_bytes(path: str) -> io.BufferedReader:
    """A reader that can peek; gzip is recognised by its first bytes, so it also works in a pipe."""
    try:
        raw = cast(BinaryIO, sys.stdin.buffer) if path == STDIN else Path(path).open("rb")  # noqa: SIM115 - handed on
    except FileNotFoundError:
        raise DataError("FILE_NOT_FOUND", f"{path} does not exist") from None
    except OSError as problem:
        raise DataError("FILE_NOT_READABLE", f"{path} could not be opened", detail=problem.strerror) from None
    reader = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, raw))
    if reader.peek(2)[:2] == b"\x1f\x8b":
        return io.BufferedReader(gzip.GzipFile(fileobj=reader), buffer_size=1 << 20)
    return reader


def format_of(path: str, reader: io.BufferedReader) -> str:
    """The format a file's name says, else the one its first bytes look like."""
    name = Path(path[: -len(".gz")] if path.endswith(".gz") else path)
    if path != STDIN and name.suffix.lower() in _EXTENSIONS:
        return _EXTENSIONS[name.suffix.lower()]
    head = reader.peek(PEEK)[:PEEK]
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    return "json" if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[") else "csv"


def seekable(reader: io.BufferedReader) -> IO[bytes]:
    """The same bytes where a format needs to jump about in them: what cannot seek goes to a temporary file."""
    if reader.seekable() and not isinstance(reader.raw, gzip.GzipFile):
        return reader
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever reads it
    shutil.copyfileobj(reader, spool, 1 << 20)
    spool.seek(0)
    return spool

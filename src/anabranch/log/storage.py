"""Files, through `pyarrow.fs`, so that a database lies on a local disk or on any shared file system.

A file appears under its name only when it is whole: it is written under a temporary name, forced
to disk, and renamed. On a local disk it is mapped into memory when read.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import xxhash
from pyarrow import fs

from anabranch.errors import StreamError

TEMPORARY = ".tmp"
_SUM = "_sum"


def encoded_name(name: str) -> str:
    """A name of any characters as that of a directory, the same however it is spelt.

    Like a percent-encoding, but with `=`: some readers of Delta tables decode `%` in paths once too often.

    >>> encoded_name("A b.c")
    'a=20b=2Ec'
    """
    return quote(name.lower(), safe="").replace(".", "%2E").replace("%", "=")


@functools.lru_cache(maxsize=256)
def file_system_at(address: str) -> tuple[fs.FileSystem, str]:
    """The file system that an address like `s3://bucket/river` is on, and the path there.

    Kept from one micro-batch to the next: to find the region of a bucket someone has to be asked.
    """
    place: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(address)
    return place


def decoded_name(directory: str) -> str:
    """The name that a directory was given.

    >>> decoded_name(encoded_name("a b.c"))
    'a b.c'
    """
    return unquote(directory.replace("=", "%"))


class Storage:
    """A directory on some file system."""

    def __init__(self, path: str, filesystem: fs.FileSystem | None = None, address: str | None = None) -> None:
        if filesystem is None:
            if "://" in path:
                address = path.rstrip("/")
                filesystem, path = file_system_at(path)
            else:
                filesystem, path = fs.LocalFileSystem(), os.path.abspath(path)
        self.filesystem = filesystem
        self.path = path.rstrip("/") or "/"
        self.is_local = isinstance(filesystem, fs.LocalFileSystem)
        self.address = self.path if self.is_local or address is None else address
        """What another process opens to get at the same directory."""

    def __repr__(self) -> str:
        return f"Storage({self.path!r})"

    def child(self, *names: str) -> Storage:
        """The directory below this one."""
        place, _, query = self.address.partition("?")
        address = "/".join([place, *names]) + (f"?{query}" if query else "")
        return Storage("/".join([self.path, *names]), self.filesystem, address)

    def beside(self, name: str) -> Storage:
        """The directory of a name in the same directory as this one."""
        place, _, query = self.address.partition("?")
        address = "/".join([place.rpartition("/")[0], name]) + (f"?{query}" if query else "")
        return Storage("/".join([self.path.rpartition("/")[0], name]), self.filesystem, address)

    def full(self, name: str) -> str:
        return f"{self.path}/{name}"

    def make(self, *, durable: bool = True) -> None:
        try:
            self.filesystem.create_dir(self.path, recursive=True)
        except OSError as problem:
            raise self._refused(problem) from None
        if durable and self.is_local:
            _sync_directory(os.path.dirname(self.path))

    def exists(self, name: str = "") -> bool:
        path = self.full(name) if name else self.path
        return bool(self.filesystem.get_file_info(path).type != fs.FileType.NotFound)

    def is_file(self) -> bool:
        """Whether there is a file where the directory should be."""
        return bool(self.filesystem.get_file_info(self.path).type == fs.FileType.File)

    def files(self) -> dict[str, int]:
        """The names of the files here with their sizes in bytes; temporary ones are left out."""
        return dict(self._list())

    def _list(self) -> Iterator[tuple[str, int]]:
        if self.is_local:
            try:
                with os.scandir(self.path) as entries:
                    for entry in entries:
                        if not entry.name.endswith(TEMPORARY):
                            with contextlib.suppress(FileNotFoundError):
                                if entry.is_file():
                                    yield entry.name, entry.stat().st_size
            except FileNotFoundError:
                return
        else:
            for info in self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
                if info.type == fs.FileType.File and not info.base_name.endswith(TEMPORARY):
                    yield info.base_name, info.size

    def names(self) -> list[str]:
        """The names of the files here, in any order; on a local disk without asking about each of them."""
        if not self.is_local:
            return list(self.files())
        return [name for name in _listed(self.path) if not name.endswith(TEMPORARY)]

    def directories(self) -> list[str]:
        """The names of the directories here."""
        entries = self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True))
        return sorted(info.base_name for info in entries if info.type == fs.FileType.Directory)

    def changed(self) -> int | None:
        """A number that differs once a file came or went; None where the file system cannot tell."""
        if not self.is_local:
            return None
        try:
            return os.stat(self.path).st_mtime_ns
        except FileNotFoundError:
            return -1

    def made(self, name: str) -> int:
        """When a file was made, to tell it from a later one of the same name; 0 if there is none."""
        info = self.filesystem.get_file_info(self.full(name))
        return int(info.mtime_ns or 0) if info.type == fs.FileType.File else 0

    def write(self, write: Callable[[Any], Any], name: Callable[[int, int], str] | str, *, durable: bool = True) -> str:
        """Write a whole file or none. `name` may depend on the number of bytes written, and on their sum."""
        temporary = self.full(f"{secrets.token_hex(8)}{TEMPORARY}")
        try:
            with self.filesystem.open_output_stream(temporary) as sink:
                summing = _Summing(sink)
                write(sink if isinstance(name, str) else pa.PythonFile(summing, "w"))
                size = sink.tell()
            if durable and self.is_local:
                _sync_file(temporary)
            final = name if isinstance(name, str) else name(size, summing.sum.intdigest())
            self.filesystem.move(temporary, self.full(final))
        except OSError as problem:
            with contextlib.suppress(OSError):
                self.filesystem.delete_file(temporary)
            if problem.errno == errno.ENOSPC or "No space left" in str(problem):
                raise StreamError(
                    "DISK_IS_FULL",
                    f"could not write to {self.path}: no space left",
                    hint="free some space and append again; nothing of this append was kept",
                ) from None
            raise self._refused(problem) from None
        if durable and self.is_local:
            _sync_directory(self.path)
        return final

    def _refused(self, problem: OSError) -> Exception:
        """The error to raise where a file could not be written."""
        if problem.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            return StreamError(
                "DIRECTORY_IS_READ_ONLY",
                f"cannot write to {self.path}: {os.strerror(problem.errno).lower()}",
                hint="make it writable for this user; what is there can be read as it is",
            )
        return problem

    def open_to_lock(self, name: str) -> int:
        """The handle of a local file that need not be there yet."""
        try:
            return os.open(self.full(name), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise self._refused(problem) from None

    def sync(self, name: str) -> None:
        """Force a file to disk that others have written, and its name."""
        if self.is_local:
            _sync_file(self.full(name))
            _sync_directory(self.path)

    def read_bytes(self, name: str) -> bytes | None:
        """The bytes of a small file, or None if there is none."""
        try:
            if self.is_local:
                with open(self.full(name), "rb") as local:
                    return local.read()
            with self.filesystem.open_input_stream(self.full(name)) as source:
                return bytes(source.read())
        except FileNotFoundError:
            return None

    def write_json(self, name: str, value: Any, *, durable: bool = True) -> None:
        """Write a value; an object carries the sum of its text."""
        if isinstance(value, dict):
            value = {**value, _SUM: _sum_of(value)}
        data = json.dumps(value, indent=1).encode()
        self.write(lambda sink: sink.write(data), name, durable=durable)

    def read_json(self, name: str) -> Any:
        """The value of a JSON file, or None if there is none, it is not JSON, or not what was written."""
        data = self.read_bytes(name)
        try:
            value = None if data is None else json.loads(data)
        except (ValueError, RecursionError):
            return None
        if not isinstance(value, dict) or _SUM not in value:  # others write without one
            return value
        said = value.pop(_SUM)
        return value if said == _sum_of(value) else None

    def open_file(self, name: str) -> pa.NativeFile:
        """A file for random reading: mapped on a local disk."""
        if self.is_local:
            return pa.memory_map(self.full(name))
        return self.filesystem.open_input_file(self.full(name))

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone already is fine."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.full(name))

    def delete_all(self) -> None:
        """Delete this directory and all below it."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_dir(self.path)

    def sweep(self, older_than: float = 0.0) -> None:
        """Delete temporary files a dead writer left behind; where others may write, those of many seconds ago only."""
        if self.is_local and not any(name.endswith(TEMPORARY) for name in _listed(self.path)):
            return
        until = time.time() - older_than
        for info in self.filesystem.get_file_info(fs.FileSelector(self.path, allow_not_found=True)):
            old = older_than == 0.0 or (info.mtime_ns or 0) / 1e9 < until
            if old and info.type == fs.FileType.File and info.base_name.endswith(TEMPORARY):
                self.delete(info.base_name)


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        return []


def _sum_of(value: dict[Any, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(json.dumps(value).encode())


class _Summing:
    """A file to write to that sums up what goes to another; 31 GB/s, so that nobody notices."""

    closed = False

    def __init__(self, sink: pa.NativeFile) -> None:
        self._sink = sink
        self.sum = xxhash.xxh3_64()

    def write(self, data: Any) -> None:
        self.sum.update(data)
        self._sink.write(data)

    def tell(self) -> int:
        return int(self._sink.tell())

    def flush(self) -> None:
        self._sink.flush()

    def close(self) -> None:
        """The other is closed by who opened it."""


def _sync_file(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

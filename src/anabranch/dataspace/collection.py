"""Which data sets a place holds: a file, a folder of files, a Delta table, a database, or a folder of those."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping

from anabranch.dataspace.blocks import BlockCache
from anabranch.dataspace.data_set import DataSet
from anabranch.dataspace.delta_rows import delta_rows
from anabranch.dataspace.file_rows import ARROW, CSV, PARQUET, SUFFIXES, FileRows
from anabranch.dataspace.rows import Rows
from anabranch.dataspace.stream_rows import StreamRows
from anabranch.errors import AnabranchError, CatalogError, DataError, did_you_mean
from anabranch.log.storage import Storage
from anabranch.log.stream import INFO, StreamInfo, has_log

_DATABASE = "anabranch.json"

Opener = Callable[[], Rows]


class Collection:
    """The data sets of a place by name; new ones are found when names are asked for."""

    def __init__(self, path: str, keys: Mapping[str, tuple[str, ...]] | None = None, cache: str | None = None) -> None:
        self._path = path if "://" in path else os.path.abspath(path)
        self._keys = dict(keys or {})
        self._cache = BlockCache(cache)
        self._open: dict[str, DataSet] = {}
        self._mutex = threading.Lock()
        try:
            known = self.names()
            if not known:
                raise DataError(
                    "DATA_SET_NOT_FOUND",
                    f"there is nothing to serve in {path}",
                    hint=f"data sets are files that end in {', '.join(SUFFIXES)}, folders of them, Delta tables "
                    "and streams of a database",
                )
            for name in self._keys:
                if name not in known:
                    raise _not_found(name, known)
        except BaseException:
            self.close()
            raise

    def names(self) -> list[str]:
        return sorted(self._openers())

    def get(self, name: str) -> DataSet:
        """A data set by its name, opened on first use."""
        with self._mutex:
            if name not in self._open:
                openers = self._openers()
                if name not in openers:
                    raise _not_found(name, openers)
                self._open[name] = DataSet(name, openers[name](), self._keys.get(name))
            return self._open[name]

    def readable(self) -> tuple[list[DataSet], dict[str, AnabranchError]]:
        """All data sets that can be opened, and why the others cannot."""
        sets, failures = [], {}
        for name in self.names():
            try:
                sets.append(self.get(name))
            except AnabranchError as problem:
                failures[name] = problem
        return sets, failures

    def close(self) -> None:
        self._cache.close()

    def _openers(self) -> dict[str, Opener]:
        path = self._path
        if "://" in path or os.path.exists(os.path.join(path, _DATABASE)):
            return _streams(path)
        alone = self._one(path)
        if alone is not None:
            return {_stem(path): alone}
        if os.path.isfile(path):
            raise DataError(
                "FORMAT_NOT_KNOWN",
                f"{os.path.basename(path)} cannot be served",
                hint=f"files that end in {', '.join(SUFFIXES)} can",
            )
        if not os.path.isdir(path):
            raise DataError("FILE_NOT_FOUND", f"there is no file or folder {path}")
        if _is_in_parts(path):
            return {os.path.basename(path): self._folder(path)}
        return self._many(path)

    def _many(self, folder: str) -> dict[str, Opener]:
        """Each file and subfolder is a data set; the names of two that differ only in their ending keep it."""
        openers: dict[str, Opener] = {}
        names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
        stems = [_stem(name) for name in names]
        for name, stem in zip(names, stems, strict=True):
            path = os.path.join(folder, name)
            chosen = name if stems.count(stem) > 1 else stem
            if os.path.exists(os.path.join(path, _DATABASE)):
                openers.update({f"{name}.{stream}": opener for stream, opener in _streams(path).items()})
            elif (alone := self._one(path)) is not None:
                openers[chosen] = alone
            elif os.path.isdir(path) and _files_in(path):
                openers[name] = self._folder(path)
        return openers

    def _one(self, path: str) -> Opener | None:
        """A single file or Delta table."""
        name = _stem(path)
        if os.path.isdir(os.path.join(path, "_delta_log")):
            return lambda: delta_rows(os.path.basename(path), path, self._cache)
        if os.path.isfile(path) and path.endswith(SUFFIXES):
            return lambda: FileRows(name, lambda: [path], self._cache)
        return None

    def _folder(self, path: str) -> Opener:
        return lambda: FileRows(os.path.basename(path), lambda: _files_in(path), self._cache)


def _streams(path: str) -> dict[str, Opener]:
    """The streams of a database, except those whose rows are elsewhere."""
    streams = Storage(path).child("streams")
    openers: dict[str, Opener] = {}
    for directory in streams.directories():
        storage = streams.child(directory)
        if storage.exists(INFO) and has_log(storage):
            openers[StreamInfo.load(storage).name] = _stream_opener(storage)
    return openers


def _stream_opener(storage: Storage) -> Opener:
    return lambda: StreamRows(storage)


def _files_in(folder: str) -> list[str]:
    """The files of a folder that are one data set, by name; of several formats the first of the list below counts."""
    names = sorted(name for name in os.listdir(folder) if not name.startswith((".", "_")))
    for suffixes in (PARQUET, CSV, ARROW):
        chosen = [os.path.join(folder, name) for name in names if name.endswith(suffixes)]
        if chosen:
            return chosen
    return []


def _is_in_parts(folder: str) -> bool:
    """Whether a folder is one data set in parts, as Spark and others write it."""
    if os.path.exists(os.path.join(folder, "_SUCCESS")):
        return True
    files = _files_in(folder)
    return bool(files) and all(os.path.basename(file).startswith("part-") for file in files)


def _stem(path: str) -> str:
    name = os.path.basename(path.rstrip("/"))
    return next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)


def _not_found(name: str, known: object) -> CatalogError:
    names = list(known) if isinstance(known, list | dict) else []
    return CatalogError(
        "DATA_SET_NOT_FOUND", f'data set "{name[:80]}" is not served here', hint=did_you_mean(name[:80], names)
    )

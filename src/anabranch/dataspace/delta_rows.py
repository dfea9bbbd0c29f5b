"""The files of a Delta table, in the order they were added."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import unquote

from anabranch.dataspace.blocks import BlockCache
from anabranch.dataspace.file_rows import FileRows
from anabranch.errors import DataError

_READ_OTHERWISE = {"deletionVectors", "columnMapping"}
"""Features of a table whose files do not hold the rows as they are."""


def delta_rows(name: str, path: str, cache: BlockCache) -> FileRows:
    """The rows of a Delta table; new versions may only add files, else it counts as changed."""
    table = _open(path)
    protocol = table.protocol()
    features = _READ_OTHERWISE.intersection(protocol.reader_features or ())
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features:
        raise DataError(
            "DATA_SET_NOT_READABLE", f'Delta table "{name}" uses {", ".join(sorted(features))}, which is not read here'
        )
    return FileRows(name, lambda: _files(path), cache, tuple(table.metadata().partition_columns))


def _open(path: str) -> Any:
    from deltalake import DeltaTable  # takes a while to load, and most data sets do without

    try:
        return DeltaTable(path)
    except Exception as problem:  # the package has errors of its own that share no base
        said = str(problem).splitlines()
        raise DataError(
            "FILE_NOT_READABLE",
            f"{os.path.basename(path)} cannot be read as a Delta table",
            detail=said[0] if said else None,
        ) from None


def _files(path: str) -> list[str]:
    """Those of the newest version, oldest first."""
    actions = _open(path).get_add_actions(flatten=True)
    columns = {name: actions.column(name).to_pylist() for name in ("modification_time", "path")}
    in_order = sorted(zip(columns["modification_time"], columns["path"], strict=True))
    return [_inside(path, unquote(file)) for _, file in in_order]


def _inside(table: str, file: str) -> str:
    """A file of a table. Its log may say any path, and whoever wrote it need not be who serves it."""
    place = os.path.normpath(os.path.join(table, file))
    if not place.startswith(os.path.join(os.path.normpath(table), "")):
        raise DataError(
            "DATA_SET_NOT_READABLE",
            f"{os.path.basename(table)} has a file that is not in its folder",
            hint="copy the table as a whole",
        )
    return place

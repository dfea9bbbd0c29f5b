"""The user's own reducers by name: `reducers.json` at the root says where their classes are."""

from __future__ import annotations

import re

from anabranch.archive.reducers import SIGNATURES
from anabranch.archive.user_reducers import reducer_class
from anabranch.errors import CatalogError, did_you_mean
from anabranch.log.storage import Storage

_FILE = "reducers.json"
_NAME = re.compile(r"[^\W\d]\w*")


def register(root: Storage, name: str, path: str) -> None:
    """Give the class at `package.module:Class` a name for REDUCE BY; a name that is there already gets the new class.

    Call it with the catalog's lock held where several processes may register at once.
    """
    key = name.lower()
    if not _NAME.fullmatch(name):
        raise CatalogError(
            "NAME_NOT_ALLOWED", f'a reducer cannot be named "{name}"', hint="use letters, digits and underscores"
        )
    if key in SIGNATURES:
        raise CatalogError(
            "NAME_NOT_ALLOWED", f'"{name}" is the name of a built-in reducer', hint="choose another name"
        )
    reducer_class(path)
    root.write_json(_FILE, {**registered(root), key: path})


def unregister(root: Storage, name: str) -> None:
    """Take a name away again."""
    lookup(root, name)
    root.write_json(_FILE, {key: path for key, path in registered(root).items() if key != name.lower()})


def lookup(root: Storage, name: str) -> str:
    """Where the class of a registered reducer is."""
    known = registered(root)
    if name.lower() not in known:
        raise CatalogError(
            "REDUCER_NOT_FOUND",
            f'reducer "{name}" does not exist',
            hint=did_you_mean(name.lower(), [*SIGNATURES, *known]),
        )
    return known[name.lower()]


def registered(root: Storage) -> dict[str, str]:
    """All registered reducers: name, and where the class is."""
    classes = root.read_json(_FILE)
    return dict(sorted(classes.items())) if isinstance(classes, dict) else {}

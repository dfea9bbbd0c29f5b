"""Reducers of the user's own: a class named by `package.module:Class`, imported where the scan runs."""

from __future__ import annotations

import datetime
import importlib
import inspect
import re
import traceback
from collections.abc import Sequence
from typing import Any

from anabranch.archive.reduction import Reducer, Seen, checked_reduction
from anabranch.errors import AnabranchError, CatalogError, QueryError, SqlError

_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def is_path(name: str) -> bool:
    """Whether a reducer is named by where its class is.

    >>> is_path("shop.reducers:Weekends"), is_path("uniform")
    (True, False)
    """
    return ":" in name


def reducer_class(path: str) -> type[Reducer]:
    """The class at `package.module:Class`."""
    if not _PATH.fullmatch(path):
        raise CatalogError(
            "REDUCER_NOT_IMPORTABLE",
            f'"{path}" does not say where a reducer is',
            hint='write "package.module:Class"',
        )
    module_name, _, class_name = path.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
    except Exception as problem:
        raise CatalogError(
            "REDUCER_NOT_IMPORTABLE",
            f'cannot import "{module_name}", where reducer "{class_name}" should be',
            detail=f"{type(problem).__name__}: {problem}",
            hint="put the module on the Python path of this process and of Spark's workers",
        ) from problem
    for part in class_name.split("."):
        target = getattr(target, part, None)
    if target is None:
        raise CatalogError("REDUCER_NOT_IMPORTABLE", f'module "{module_name}" has no "{class_name}"')
    if not (isinstance(target, type) and issubclass(target, Reducer)):
        raise CatalogError(
            "REDUCER_NOT_IMPORTABLE", f'"{path}" is not a reducer', hint="derive the class from anabranch.Reducer"
        )
    return target


def user_reducer(path: str, arguments: Sequence[Any]) -> Reducer:
    """A new reducer of the user's class; what it raises or gives that makes no sense becomes an error here."""
    cls = reducer_class(path)
    try:
        inspect.signature(cls).bind(*arguments)
    except TypeError as problem:
        raise SqlError(
            "REDUCER_ARGUMENT_INVALID",
            f'reducer "{path}" cannot take {len(arguments)} arguments',
            detail=str(problem),
            hint=f"it is {cls.__name__}{inspect.signature(cls)}",
        ) from None
    try:
        reducer = cls(*arguments)
    except AnabranchError:
        raise
    except (TypeError, ValueError) as problem:
        raise SqlError(
            "REDUCER_ARGUMENT_INVALID", f'reducer "{path}" does not take these arguments', detail=str(problem)
        ) from problem
    except Exception as problem:
        raise _failed(path, problem) from problem
    guarded = type(cls.__name__, (_Guarded,), {"needs_rows": cls.needs_rows, "stateless": cls.stateless})
    made: Reducer = guarded(path, reducer)
    return made


class _Guarded(Reducer):
    """A user's reducer, with what it gives checked and what it raises explained."""

    def __init__(self, path: str, reducer: Reducer) -> None:
        if not (reducer.by is None or isinstance(reducer.by, str)):
            raise QueryError(
                "REDUCER_FAILED", f'reducer "{path}" has by = {reducer.by!r}, wanted the name of a column or None'
            )
        self.path = path
        self.reducer = reducer
        self.by = reducer.by

    def reduce(self, seen: Seen) -> float | datetime.timedelta:
        try:
            reduction = self.reducer.reduce(seen)
        except Exception as problem:
            raise _failed(self.path, problem) from problem
        return checked_reduction(self.path, reduction)


def _failed(path: str, problem: Exception) -> QueryError:
    at = traceback.extract_tb(problem.__traceback__)[-1]
    return QueryError(
        "REDUCER_FAILED",
        f'reducer "{path}" failed: {type(problem).__name__}: {problem}',
        detail=f"{at.filename}, line {at.lineno}",
    )

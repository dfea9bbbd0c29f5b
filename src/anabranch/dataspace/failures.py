"""Errors on their way through Flight: ours arrive as they left, anything else says as little as possible."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
from pyarrow import flight

from anabranch import errors
from anabranch.errors import AnabranchError

P = ParamSpec("P")
T = TypeVar("T")

_CLASSES: dict[str, type[AnabranchError]] = {
    cls.__name__: cls
    for cls in (
        errors.AnabranchError,
        errors.SqlError,
        errors.CatalogError,
        errors.DataError,
        errors.StreamError,
        errors.QueryError,
        errors.SetupError,
    )
}


def as_flight_error(problem: BaseException) -> flight.FlightError:
    """An error as a client gets it: the text of ours, and no inner workings of any other."""
    if isinstance(problem, flight.FlightError):
        return problem
    if not isinstance(problem, AnabranchError):
        said = str(problem).splitlines()
        problem = AnabranchError("INTERNAL_ERROR", f"{type(problem).__name__}: {said[0][:200] if said else ''}")
    fields = {"class": type(problem).__name__, **problem.as_dict()}
    return flight.FlightServerError(problem.render(), extra_info=json.dumps(fields).encode())


def answering(method: Callable[P, T]) -> Callable[P, T]:
    """A method of a server whose errors go to the client in our shape."""

    @functools.wraps(method)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            return method(*arguments, **named)
        except Exception as problem:
            raise as_flight_error(problem) from None

    return call


def answering_each(values: Iterator[T]) -> Iterator[T]:
    """The same for what is sent bit by bit."""
    try:
        yield from values
    except Exception as problem:
        raise as_flight_error(problem) from None


def known_error(problem: BaseException) -> AnabranchError | None:
    """The error of ours that a server sent, or None if something else went wrong."""
    told = getattr(problem, "extra_info", b"")
    try:
        fields: dict[str, Any] = json.loads(told) if told else {}
    except ValueError:
        return None
    if not isinstance(fields, dict) or not {"name", "message"} <= set(fields):
        return None
    cls = _CLASSES.get(str(fields.pop("class", "")), AnabranchError)
    allowed = {key: fields[key] for key in ("detail", "hint") if isinstance(fields.get(key), str)}
    return cls(str(fields["name"]), str(fields["message"]), **allowed)


def may_pass(problem: BaseException) -> bool:
    """Whether an error may go away when the server is asked again: it is down, or the connection broke."""
    if known_error(problem) is not None or isinstance(problem, flight.FlightUnauthenticatedError):
        return False
    return isinstance(
        problem,
        flight.FlightUnavailableError
        | flight.FlightInternalError
        | flight.FlightTimedOutError
        | flight.FlightCancelledError
        | pa.ArrowIOError
        | OSError,
    )

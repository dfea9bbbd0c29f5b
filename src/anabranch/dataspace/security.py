"""Who may ask a data server: a token, compared in constant time, and addresses that need none."""

from __future__ import annotations

import hmac
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyarrow import flight

from anabranch.errors import AnabranchError, SetupError

_SCHEME = "bearer "


@dataclass(frozen=True)
class Security:
    """How a server is protected. The token and the key are never shown."""

    token: str | None = None
    certificate: bytes | None = None
    key: bytes | None = None

    def __repr__(self) -> str:
        return f"Security(token={'yes' if self.token else 'no'}, tls={'yes' if self.certificate else 'no'})"

    def check_address(self, host: str, *, insecure: bool = False) -> None:
        """Without a token only this machine may ask."""
        if self.token is None and not insecure and not is_loopback(host):
            raise SetupError(
                "TOKEN_MISSING",
                f"without a token anyone who reaches {host} could read the data",
                hint="give --token-file, or --insecure if that is meant",
            )


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_token(path: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """The token in a file, or else in the environment; None if there is neither."""
    if path is not None:
        return checked_token(read_secret(path, "token"))
    token = (os.environ if environment is None else environment).get("ANABRANCH_TOKEN")
    return None if token is None else checked_token(token.encode())


def checked_token(said: bytes) -> str:
    """The token that a file holds."""
    token = said.decode("utf-8", "replace").strip()
    if len(token) < 8 or not token.isascii() or not token.isprintable():
        raise SetupError(
            "TOKEN_INVALID",
            "a token is one line of at least 8 printable ASCII characters",
            hint="make one: openssl rand -hex 24 > token",
        )
    return token


def read_secret(path: str, what: str) -> bytes:
    """A small file that must be there."""
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError as problem:
        raise SetupError("FILE_NOT_FOUND", f"the {what} file {path} cannot be read", detail=problem.strerror) from None


def is_authorized(value: str, token: str) -> bool:
    """Whether an authorization header shows the token."""
    return value.lower().startswith(_SCHEME) and hmac.compare_digest(value[len(_SCHEME) :].encode(), token.encode())


class TokenGate(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Lets calls with the right token pass."""

    def __init__(self, token: str) -> None:
        self._token = token

    def start_call(self, info: Any, headers: Mapping[str, list[str]]) -> None:
        for name, values in headers.items():
            if name.lower() == "authorization" and any(is_authorized(value, self._token) for value in values):
                return
        problem = AnabranchError("TOKEN_WRONG", "the data server wants a token, and got none or another one")
        raise flight.FlightUnauthenticatedError(problem.render())

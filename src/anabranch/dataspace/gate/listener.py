"""The gate's own end: where clients connect, and which of them stay."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import ssl
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from itertools import count

from anabranch.dataspace.gate.connections import Connection, Limits
from anabranch.dataspace.gate.requests import RequestFilter

__all__ = ["Gate", "Limits"]

_LONGEST_SOCKET_PATH = 90


class Gate:
    """Listens where clients connect, for a server that listens at `server_url`.

    `knows` says whether an authorization header shows the token; None lets everyone in.

    No client has more than half of the connections, so that none keeps the others out.
    """

    def __init__(
        self,
        host: str,
        port: int,
        limits: Limits,
        knows: Callable[[str], bool] | None = None,
        certificate: tuple[bytes, bytes] | None = None,
    ) -> None:
        self._limits = limits
        self._knows = knows
        self._place = _private_directory()
        self._connections: dict[str, Connection] = {}
        self._numbers = count(1)
        self._mutex = threading.Lock()
        self._listener: socket.socket | None = None
        try:
            self._tls = None if certificate is None else _tls(certificate, self._place)
            self._listener = _listen(host, port)
        except BaseException:
            self.close()
            raise
        self.port: int = self._listener.getsockname()[1]

    @property
    def server_url(self) -> str:
        """Where the server has to listen; only this user can connect there."""
        return f"grpc+unix://{self._place}/server"

    def open(self) -> None:
        """Let clients in, once the server is there."""
        threading.Thread(target=self._accept, name="anabranch-gate", daemon=True).start()

    def connection_of(self, peer: str) -> Connection | None:
        """The connection of a call, by what the server knows as its peer."""
        with self._mutex:
            return self._connections.get(peer.rpartition("/")[2])

    def close_overdue(self) -> None:
        """Close connections that take too long; called now and then."""
        now = time.monotonic()
        with self._mutex:
            overdue = [
                connection for connection in self._connections.values() if connection.is_overdue(now, self._limits)
            ]
        for connection in overdue:
            connection.close()

    def close_listener(self) -> None:
        """Let nobody in any more."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def close(self) -> None:
        """End everything."""
        self.close_listener()
        with self._mutex:
            connections = list(self._connections.values())
        for connection in connections:
            connection.close()
        shutil.rmtree(self._place, ignore_errors=True)

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                client, address = self._listener.accept()
            except OSError:
                if self._listener.fileno() < 0:
                    return
                time.sleep(0.05)  # out of files, say: those that are open will end
                continue
            self._admit(client, str(address[0]))

    def _admit(self, client: socket.socket, address: str) -> None:
        name = f"c{next(self._numbers)}"
        with self._mutex:
            each_has = Counter(connection.address for connection in self._connections.values())
            most = self._limits.most_connections
            if each_has.total() >= most or each_has[address] >= max(most // 2, 1):
                client.close()
                return
            self._connections[name] = Connection(
                client,
                address,
                lambda: self._reach_server(name),
                RequestFilter(self._knows),
                self._tls,
                lambda _: self._forget(name),
            )

    def _reach_server(self, name: str) -> socket.socket:
        """A connection to the server under a name by which its calls are known again."""
        server = socket.socket(socket.AF_UNIX)
        place = os.path.join(self._place, name)
        try:
            server.bind(place)
            server.connect(os.path.join(self._place, "server"))
        except OSError:
            server.close()
            raise
        finally:
            with contextlib.suppress(OSError):
                os.unlink(place)
        return server

    def _forget(self, name: str) -> None:
        with self._mutex:
            self._connections.pop(name, None)


def _listen(host: str, port: int) -> socket.socket:
    infos = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(infos, key=lambda info: info[0] != socket.AF_INET)
    both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
    return socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)


def _tls(certificate: tuple[bytes, bytes], place: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    paths = []
    for name, content in zip(("certificate", "key"), certificate, strict=True):
        paths.append(os.path.join(place, name))
        with open(os.open(paths[-1], os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(content)
    try:
        context.load_cert_chain(*paths)
    finally:
        for path in paths:
            os.unlink(path)
    return context


def _private_directory() -> str:
    """A directory of this user's alone, with a path short enough for sockets."""
    place = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="anabranch-", dir=place if len(place) < _LONGEST_SOCKET_PATH - 30 else "/tmp")

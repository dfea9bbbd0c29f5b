"""What SQL may reach outside of its database: files in some directories, servers at some addresses.

Whoever writes a statement need not be who runs the process: a statement may name a file of that user's and a server to
send it to, or a file to read as a table. So files are looked at against the settings `file_directories` and
`table_directories`, servers against `dataspace_hosts`, when a stream or table is declared and each time it is opened or
read again, and what is not listed is refused before it is touched: the answer tells nothing of whether it is there.
What a Python program names itself is not looked at.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, TypeAlias

from anabranch.errors import AnabranchError, SetupError
from anabranch.log.storage import Storage
from anabranch.settings import Settings

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_LARGEST_FILE = 1 << 20
_METADATA = tuple(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200")))
"""Where clouds tell a machine its secrets, beside 169.254.169.254, which is link-local."""


class _Pattern(NamedTuple):
    """What `dataspace_hosts` lists: a name, `*.domain`, `*`, an address or a network, and a port or any."""

    host: str
    port: int | None

    @staticmethod
    def of(text: str) -> _Pattern:
        """The pattern that a text is.

        >>> [tuple(_Pattern.of(text)) for text in ("*.example.org:8815", "[::1]:80", "fd00::/8")]
        [('*.example.org', 8815), ('::1', 80), ('fd00::/8', None)]
        """
        host, port = text, ""
        if text.startswith("["):
            host, _, rest = text[1:].partition("]")
            port = rest.removeprefix(":")
        elif text.count(":") == 1:
            host, _, port = text.partition(":")
        if not host or (port and not port.isdigit()):
            raise SetupError(
                "SETTING_TYPE_MISMATCH",
                f'setting "dataspace_hosts" lists hosts as host or host:port, got "{text}"',
                hint="write floods.example.org:8815, *.example.org, 10.0.0.0/8, localhost or *, with commas between",
            )
        return _Pattern(_plain(host), int(port) if port else None)

    @property
    def network(self) -> IpNetwork | None:
        try:
            return ipaddress.ip_network(self.host, strict=False)
        except ValueError:
            return None

    def lists_name(self, host: str) -> bool:
        if self.host == "localhost":
            address = _address(host)
            return host == "localhost" or (address is not None and address.is_loopback)
        return self.host in ("*", host) or (self.host.startswith("*.") and host.endswith(self.host[1:]))

    def lists_address(self, address: IpAddress) -> bool:
        if self.host == "localhost":
            return address.is_loopback
        network = self.network
        return network is not None and address in network


@dataclass(frozen=True)
class Access:
    """What is open; as it is by itself, nothing but this machine's own servers."""

    directories: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ("localhost",)
    tables: tuple[str, ...] = ()
    """Where the files of tables may lie."""

    @staticmethod
    def of(settings: Settings, root: Storage) -> Access:
        """What the settings open for the database at `root`; relative directories are inside of it."""
        hosts = tuple(host.strip() for host in settings["dataspace_hosts"].split(",") if host.strip())
        for host in hosts:
            _Pattern.of(host)
        return Access(_listed(settings, "file_directories", root), hosts, _listed(settings, "table_directories", root))

    # -- files -------------------------------------------------------------------------------

    def read(self, path: str, what: str) -> bytes:
        """A small file that SQL names; a relative path is looked for in each of the directories."""
        inside = [real for directory in self.directories if (real := _inside(directory, path)) is not None]
        if not inside:
            hint = f"put it in {self.directories[0]}, or list" if self.directories else "list"
            raise SetupError(
                "FILE_NOT_ALLOWED",
                f'the {what} file "{path}" is not in a directory that SQL may name files of',
                hint=f"{hint} its directory in the setting file_directories",
            )
        real = next(filter(os.path.lexists, inside), inside[0])
        try:
            with opened(real) as file:
                return file.read(_LARGEST_FILE)
        except OSError as problem:
            raise SetupError(
                "FILE_NOT_FOUND", f'the {what} file "{path}" cannot be read', detail=problem.strerror
            ) from None

    def place_of_table(self, path: str) -> str:
        """Where a file or folder really lies that a table is a copy of; a relative path is looked for in each place."""
        inside = [real for directory in self.tables if (real := _inside(directory, path)) is not None]
        if not inside:
            raise SetupError(
                "FILE_NOT_ALLOWED",
                f'"{path}" is not in a directory that tables may be made from',
                hint="list its directory in the setting table_directories",
            )
        return next(filter(os.path.lexists, inside), inside[0])

    # -- servers -----------------------------------------------------------------------------

    def addresses(self, host: str, port: int) -> list[str]:
        """Where a server that SQL names is. Looked up once: what is checked is what is connected to.

        Addresses that mean this machine, its link or its cloud are not reached by a name that leads there, only
        where they are listed themselves.
        """
        patterns = [pattern for pattern in map(_Pattern.of, self.hosts) if pattern.port in (None, port)]
        name = _plain(host)
        literal = _address(name)
        listed = any(pattern.lists_name(name) or (literal and pattern.lists_address(literal)) for pattern in patterns)
        addresses = _look_up(name, port) if listed else []
        allowed = [address for address in addresses if _is_ordinary(address, patterns)]
        if not listed or len(allowed) < len(addresses):
            raise _not_allowed(host, port)
        return [f"[{address}]" if address.version == 6 else str(address) for address in allowed]


def _is_ordinary(address: IpAddress, patterns: list[_Pattern]) -> bool:
    if any(pattern.lists_address(address) for pattern in patterns):
        return True
    if address.is_loopback:
        return any(pattern.host == "*" for pattern in patterns)
    return not (address.is_link_local or address.is_unspecified or address.is_multicast or address in _METADATA)


def _look_up(host: str, port: int) -> list[IpAddress]:
    """The addresses of a host, those of version 4 first: most servers listen there."""
    infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = dict.fromkeys(address for info in infos if (address := _address(str(info[4][0]))) is not None)
    return sorted(addresses, key=lambda address: address.version)


def _not_allowed(host: str, port: int) -> AnabranchError:
    return SetupError(
        "ADDRESS_NOT_ALLOWED",
        f'"{host[:200]}:{port}" is not an address that SQL may name',
        hint="list it in the setting dataspace_hosts",
    )


@contextlib.contextmanager
def opened(real: str) -> Iterator[BinaryIO]:
    """A file at a place that was looked at, to read; OSError where a link was put there meanwhile, or it is no file.

    It is not waited for a pipe's other end.
    """
    handle = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a file")
        if os.path.realpath(real) != real:
            raise OSError(0, "it leads elsewhere")
        yield file


def _listed(settings: Settings, name: str, root: Storage) -> tuple[str, ...]:
    """The directories that a setting lists."""
    directories = [directory for directory in settings[name].split(os.pathsep) if directory]
    if not root.is_local:
        directories = [directory for directory in directories if os.path.isabs(directory)]
    return tuple(os.path.join(root.path, directory) for directory in directories)


def _inside(directory: str, path: str) -> str | None:
    """Where a path leads, if that is below the directory, through links too."""
    try:
        base = os.path.realpath(directory)
        real = os.path.realpath(os.path.join(base, path))
    except (OSError, ValueError):  # such as a NUL in it
        return None
    return real if real.startswith(base.rstrip("/") + "/") else None


def _plain(host: str) -> str:
    return host.strip("[]").lower().removesuffix(".")


def _address(text: str) -> IpAddress | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address

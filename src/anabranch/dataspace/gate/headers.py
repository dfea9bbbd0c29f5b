"""The headers of a call, read as HTTP/2 packs them (RFC 7541): the token is seen before the request is taken in."""

from __future__ import annotations

from collections import deque
from functools import cache

Header = tuple[bytes, bytes]

MOST_TABLE_BYTES = 1 << 16
_ENTRY_BYTES = 32
_END = 256

_NAMES = b"""
:authority :method :method :path :path :scheme :scheme :status :status :status :status :status :status :status
accept-charset accept-encoding accept-language accept-ranges accept access-control-allow-origin age allow authorization
cache-control content-disposition content-encoding content-language content-length content-location content-range
content-type cookie date etag expect expires from host if-match if-modified-since if-none-match if-range
if-unmodified-since last-modified link location max-forwards proxy-authenticate proxy-authorization range referer
refresh retry-after server set-cookie strict-transport-security transfer-encoding user-agent vary via www-authenticate
""".split()
"""The names of the static table; nobody here asks for the values that some of them come with."""

_CODE_LENGTHS = """
13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28
6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10
13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6
15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28
20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24
22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23
26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27
20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26
30
"""
"""Bits of each byte's code; the code is canonical, so the lengths say it all. The last one is the end."""


class HeadersInvalid(Exception):
    """What was sent are no headers."""


class HeaderReader:
    """Reads the header blocks of one connection, in order: later ones refer to what earlier ones said."""

    def __init__(self) -> None:
        self._known: deque[Header] = deque()
        self._bytes = 0
        self._most_bytes = 4096

    def read(self, block: bytes) -> list[Header]:
        """The headers of a block."""
        try:
            return self._read(block)
        except IndexError:
            raise HeadersInvalid("a header is cut off, or refers to one that is not there") from None

    def _read(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        at = 0
        while at < len(block):
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 7)
                headers.append(self._entry(index))
            elif first & 0xE0 == 0x20:
                size, at = _integer(block, at, 5)
                if size > MOST_TABLE_BYTES:
                    raise HeadersInvalid("a header table is too large")
                self._most_bytes = size
                self._forget()
            else:
                is_kept = bool(first & 0x40)
                index, at = _integer(block, at, 6 if is_kept else 4)
                if index:
                    name = self._entry(index)[0]
                else:
                    name, at = _text(block, at)
                value, at = _text(block, at)
                headers.append((name, value))
                if is_kept:
                    self._keep((name, value))
        return headers

    def _entry(self, index: int) -> Header:
        if not index:
            raise HeadersInvalid("no header is numbered 0")
        if index <= len(_NAMES):
            return _NAMES[index - 1], b""
        return self._known[index - len(_NAMES) - 1]

    def _keep(self, header: Header) -> None:
        self._known.appendleft(header)
        self._bytes += _size(header)
        self._forget()

    def _forget(self) -> None:
        while self._bytes > self._most_bytes:
            self._bytes -= _size(self._known.pop())


def _size(header: Header) -> int:
    return len(header[0]) + len(header[1]) + _ENTRY_BYTES


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    """A number that begins in the last bits of a byte, and where what follows begins."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in range(0, 29, 7):
        more = block[at]
        at += 1
        value += (more & 0x7F) << shift
        if not more & 0x80:
            return value, at
    raise HeadersInvalid("a number in a header is too large")


def _text(block: bytes, at: int) -> tuple[bytes, int]:
    is_packed = bool(block[at] & 0x80)
    length, at = _integer(block, at, 7)
    end = at + length
    if end > len(block):
        raise HeadersInvalid("a header is cut off")
    return (_unpacked(block[at:end]) if is_packed else block[at:end]), end


def _unpacked(packed: bytes) -> bytes:
    """Text in Huffman's code.

    >>> _unpacked(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff"))
    b'www.example.com'
    """
    codes = _codes()
    text = bytearray()
    code, length = 0, 0
    for byte in packed:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            symbol = codes.get((length, code))
            if symbol is not None:
                if symbol == _END:
                    raise HeadersInvalid("a header has an end inside")
                text.append(symbol)
                code, length = 0, 0
    if length > 7 or code != (1 << length) - 1:
        raise HeadersInvalid("a header ends in the middle of a character")
    return bytes(text)


@cache
def _codes() -> dict[tuple[int, int], int]:
    """Which byte a code of some bits stands for."""
    lengths = [int(digits) for digits in _CODE_LENGTHS.split()]
    codes: dict[tuple[int, int], int] = {}
    code, before = 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths)):
        code <<= length - before
        codes[length, code] = symbol
        code, before = code + 1, length
    return codes

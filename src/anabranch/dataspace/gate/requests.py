"""What a client may send, looked at frame by frame (RFC 9113): a call's request passes if it is not too large.

A request is one message. Its length stands before it, and it is refused at that point: with the token 4 MB may follow,
without it 64 KB, which the server reads before it says that the token is missing. What is compressed is refused too,
since a small message can be a large one. In the place of a request that is refused the server gets an empty one, and
the client its answer to that; the rest is thrown away as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from anabranch.dataspace.gate.headers import HeaderReader

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_REQUEST_BYTES = (4 << 20) + (64 << 10)
"""The largest request and what Flight puts around it; `dataspace.requests` says it in words."""
MOST_UNKNOWN_BYTES = 64 << 10
"""The largest request of who did not show the token."""
MOST_HEADER_BYTES = 64 << 10
MOST_UNFINISHED = 256
MOST_UNFINISHED_BYTES = 64 << 20

_DATA, _HEADERS, _RESET, _CONTINUATION = 0, 1, 3, 9
_ENDS_STREAM, _ENDS_HEADERS, _IS_PADDED, _HAS_PRIORITY = 0x1, 0x4, 0x8, 0x20
_FRAME = 9
_PREFIX = 5


class Refused(Exception):
    """The connection cannot go on."""


@dataclass
class _Request:
    """A request that is not complete yet."""

    most_bytes: int
    began: float
    prefix: bytearray = field(default_factory=bytearray)
    left: int = 0
    is_refused: bool = False


class RequestFilter:
    """One connection's requests: bytes come in as they arrive, those that may pass go out.

    `knows` says whether the value of an authorization header is the right one; None lets everyone in.
    """

    def __init__(self, knows: Callable[[str], bool] | None = None) -> None:
        self._knows = knows
        self._waiting = bytearray()
        self._greeted = False
        self._headers = HeaderReader()
        self._block: tuple[int, int, bytearray] | None = None
        """Stream, flags and what has come of headers that go on in the next frame."""
        self._data: tuple[int, bool, int] | None = None
        """Stream, whether it ends it, and bytes left of the frame of data that is being read."""
        self._requests: dict[int, _Request] = {}
        self.is_admitted = False
        """Whether a call with the token has come."""

    def unfinished_since(self) -> float | None:
        """When the oldest request that is not complete began."""
        return min((request.began for request in list(self._requests.values())), default=None)

    def take(self, data: bytes) -> bytes:
        """What of the bytes, and of those that waited, may pass now."""
        self._waiting += data
        out = bytearray()
        if not self._greeted:
            if not GREETING.startswith(self._waiting[: len(GREETING)]):
                raise Refused("this is no HTTP/2")
            if len(self._waiting) < len(GREETING):
                return b""
            self._greeted = True
            out += self._next(len(GREETING))
        while self._step(out):
            pass
        return bytes(out)

    def _next(self, count: int) -> bytes:
        taken = bytes(self._waiting[:count])
        del self._waiting[:count]
        return taken

    def _step(self, out: bytearray) -> bool:
        """One frame, or a piece of one; False if more has to come first."""
        if self._data is not None:
            stream, ends, left = self._data
            if left and not self._waiting:
                return False
            piece = self._next(left)
            left -= len(piece)
            self._data = None if left == 0 else (stream, ends, left)
            self._take_piece(stream, piece, ends and left == 0, out)
            return left == 0
        if len(self._waiting) < _FRAME:
            return False
        length, kind, flags = int.from_bytes(self._waiting[:3]), self._waiting[3], self._waiting[4]
        stream = int.from_bytes(self._waiting[5:_FRAME]) & 0x7FFFFFFF
        if self._block is not None and (kind, stream) != (_CONTINUATION, self._block[0]):
            raise Refused("headers are not complete")
        if kind == _DATA:
            if flags & _IS_PADDED:
                raise Refused("padding is not understood")
            self._next(_FRAME)
            self._data = (stream, bool(flags & _ENDS_STREAM), length)
            return True
        if length > MOST_HEADER_BYTES:
            raise Refused("a frame is too large")
        if len(self._waiting) < _FRAME + length:
            return False
        frame = self._next(_FRAME + length)
        self._take_frame(kind, flags, stream, frame[_FRAME:])
        out += frame
        return True

    def _take_frame(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _RESET:
            self._requests.pop(stream, None)
        elif kind == _HEADERS:
            self._block = (stream, flags, bytearray(_without_padding(content, flags)))
        elif kind == _CONTINUATION:
            if self._block is None:
                raise Refused("headers go on that did not begin")
            self._block[2].extend(content)
        if self._block is not None:
            if len(self._block[2]) > MOST_HEADER_BYTES:
                raise Refused("headers are too large")
            if flags & _ENDS_HEADERS:
                self._begin_request(*self._block)
                self._block = None

    def _begin_request(self, stream: int, flags: int, block: bytearray) -> None:
        # Also headers of which nothing is wanted have to be read: what comes later refers to them.
        is_known = self._knows is None or any(
            name == b"authorization" and self._knows(value.decode("latin-1"))
            for name, value in self._headers.read(bytes(block))
        )
        self.is_admitted = self.is_admitted or is_known
        if stream in self._requests:
            raise Refused("a request has headers twice")
        if flags & _ENDS_STREAM:
            return
        if len(self._requests) >= MOST_UNFINISHED:
            raise Refused("too many requests at once")
        most = MOST_REQUEST_BYTES if is_known else MOST_UNKNOWN_BYTES
        self._requests[stream] = _Request(most, time.monotonic())

    def _take_piece(self, stream: int, piece: bytes, ends: bool, out: bytearray) -> None:
        request = self._requests.get(stream)
        if request is None:
            return
        if ends:
            del self._requests[stream]
        if request.is_refused:
            return
        held = b""
        missing = _PREFIX - len(request.prefix)
        if missing > 0:
            before = len(request.prefix)
            request.prefix += piece[:missing]
            if len(request.prefix) < _PREFIX and not ends:
                return
            held = bytes(request.prefix[:before])
            if len(request.prefix) == _PREFIX:
                length = int.from_bytes(request.prefix[1:])
                request.left = _PREFIX + length
                if request.prefix[0] or length > request.most_bytes:
                    self._refuse(request, stream, bytes(_PREFIX), out)
                    return
                if sum(max(unfinished.left, 0) for unfinished in self._requests.values()) > MOST_UNFINISHED_BYTES:
                    raise Refused("too much at once")
        passing = held + piece
        request.left -= len(passing)
        if request.left < 0 and len(request.prefix) == _PREFIX:  # a second message, which no call of ours has
            self._refuse(request, stream, b"", out)
            return
        out += _frame(stream, passing, _ENDS_STREAM if ends else 0)

    @staticmethod
    def _refuse(request: _Request, stream: int, instead: bytes, out: bytearray) -> None:
        request.is_refused, request.left = True, 0
        out += _frame(stream, instead, _ENDS_STREAM)


def _frame(stream: int, content: bytes, flags: int) -> bytes:
    return len(content).to_bytes(3) + bytes((_DATA, flags)) + stream.to_bytes(4) + content


def _without_padding(content: bytes, flags: int) -> bytes:
    begin, end = 0, len(content)
    if flags & _IS_PADDED:
        if not content:
            raise Refused("a frame is cut off")
        begin, end = 1, end - content[0]
    if flags & _HAS_PRIORITY:
        begin += 5
    if begin > end:
        raise Refused("a frame is cut off")
    return content[begin:end]

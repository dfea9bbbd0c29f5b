"""A long line between two network namespaces: so many bits per second and so long a way, in both directions.

`python -m benchmarks.merge.wire NAME NAME MBIT MILLISECONDS` makes two TUN devices, prints a line once they are there,
and then carries packets from each to the other until its input ends. A packet leaves when those before it have
left at the line's rate, and arrives half a round trip later; one that would wait longer than the queue is long is lost.
Not every kernel can delay packets (netem), nearly all have TUN devices.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 4470
"""That of packet over SONET, which OC-12 is."""
QUEUE_SECONDS = 0.1
AT_ONCE = 64


def tun(name: str) -> int:
    """The file of a new TUN device, which may be moved to another namespace while the file is open."""
    file = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(file, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return file


class Direction:
    """Packets on their way from one device to the other."""

    def __init__(self, source: int, target: int, bytes_per_second: float, delay: float) -> None:
        self._source = source
        self._target = target
        self._seconds_per_byte = 1 / bytes_per_second
        self._delay = delay
        self._free_at = 0.0
        self._flying: deque[tuple[float, bytes]] = deque()
        self.lost = 0

    @property
    def next_arrival(self) -> float | None:
        return self._flying[0][0] if self._flying else None

    def take(self) -> None:
        """Take in what the source has sent."""
        now = time.monotonic()
        for _ in range(AT_ONCE):
            try:
                packet = os.read(self._source, 65536)
            except BlockingIOError:
                return
            begins = max(now, self._free_at)
            if begins - now > QUEUE_SECONDS:
                self.lost += 1
                continue
            self._free_at = begins + len(packet) * self._seconds_per_byte
            self._flying.append((self._free_at + self._delay, packet))

    def deliver(self) -> None:
        """Hand over what has arrived."""
        now = time.monotonic()
        while self._flying and self._flying[0][0] <= now:
            with contextlib.suppress(OSError):  # the device is down or its queue is full: the packet is lost
                os.write(self._target, self._flying.popleft()[1])


def carry(names: tuple[str, str], mbit: float, milliseconds: float) -> None:
    """Carry packets until the standard input ends."""
    near, far = (tun(name) for name in names)
    rate, delay = mbit * 1e6 / 8, milliseconds / 2000
    directions = {near: Direction(near, far, rate, delay), far: Direction(far, near, rate, delay)}
    print("ready", flush=True)
    stop = sys.stdin.fileno()
    while True:
        arrivals = [at for each in directions.values() if (at := each.next_arrival) is not None]
        wait = max(min(arrivals) - time.monotonic(), 0) if arrivals else 1.0
        ready, _, _ = select.select([near, far, stop], [], [], wait)
        if stop in ready:
            return
        for file in ready:
            directions[file].take()
        for each in directions.values():
            each.deliver()


if __name__ == "__main__":
    carry((sys.argv[1], sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))

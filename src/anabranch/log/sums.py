"""Arrow files whose names carry the sum of their bytes: read once a process has seen that they are what was written.

A file is summed when a process first opens it, 15 MB in 0.6 ms; what is damaged later, while it is mapped, is not
noticed by that process. On other than local disks the storage's own checks are relied on: summing would fetch all of a
file of which one column is wanted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import pyarrow as pa
import xxhash
from pyarrow import ipc

from anabranch.log.storage import Storage

_REMEMBERED = 65_536
_seen: OrderedDict[str, None] = OrderedDict()
_mutex = threading.Lock()


def sum_of(storage: Storage, name: str) -> int:
    """The sum of a file's bytes as they are now."""
    with storage.open_file(name) as file:
        return int(xxhash.xxh3_64_intdigest(file.read_buffer()))


def read_whole(storage: Storage, name: str, sum: int | None, *, again: bool = False) -> pa.Table:
    """The rows of an Arrow file, mapped where it is local; ValueError says what is wrong with it.

    `sum`: what its bytes must add up to, None if nobody knows. `again`: look even if this process has looked before.
    """
    path = storage.full(name)
    try:
        file = storage.open_file(name)
        if sum is not None and storage.is_local and (again or path not in _seen):
            actual = xxhash.xxh3_64_intdigest(file.read_buffer())
            if actual != sum:
                raise ValueError(f"the sum of its bytes is {actual:016x}, written was {sum:016x}")
            file.seek(0)
            _remember(path)
        table = ipc.open_file(file).read_all()
        if sum is None:
            table.validate()
        return table
    except FileNotFoundError:
        raise
    except ValueError:  # ours, or Arrow's own
        raise
    except (pa.ArrowException, OSError, SystemError, KeyError, MemoryError) as problem:
        raise ValueError(f"it is no whole Arrow file ({problem})") from None


def _remember(path: str) -> None:
    with _mutex:
        _seen[path] = None
        if len(_seen) > _REMEMBERED:
            _seen.popitem(last=False)

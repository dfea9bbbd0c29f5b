"""What may happen to files between two micro-batches: some are lost, some are not as they were written."""

from __future__ import annotations

import contextlib
import os
import random
from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    """All files, in order; folders may go meanwhile, as what nobody needs is let go beside micro-batches."""
    return sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)


def lose_files(folder: Path, chance: random.Random) -> int:
    """Remove every other file, drawn; gives how many."""
    lost = [path for path in files_below(folder) if chance.random() < 0.5]
    for path in lost:
        path.unlink(missing_ok=True)
    return len(lost)


def flip_bits(folder: Path, chance: random.Random) -> int:
    """Flip a bit in every other file, drawn; gives how many."""
    flipped = 0
    for path in files_below(folder):
        with contextlib.suppress(FileNotFoundError):
            content = bytearray(path.read_bytes())
            if content and chance.random() < 0.5:
                content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
                path.write_bytes(content)
                flipped += 1
    return flipped

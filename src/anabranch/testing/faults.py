"""What may happen to files between two micro-batches: some are lost, some are not as they were written."""

from __future__ import annotations

import random
from pathlib import Path


def files_below(folder: Path) -> list[Path]:
    """All files, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def lose_files(folder: Path, chance: random.Random) -> int:
    """Remove every other file, drawn; gives how many."""
    lost = [path for path in files_below(folder) if chance.random() < 0.5]
    for path in lost:
        path.unlink()
    return len(lost)


def flip_bits(folder: Path, chance: random.Random) -> int:
    """Flip a bit in every other file, drawn; gives how many."""
    flipped = [path for path in files_below(folder) if path.stat().st_size and chance.random() < 0.5]
    for path in flipped:
        content = bytearray(path.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
    return len(flipped)

"""Ring indices for attribute-valued queries: which tuples have a value."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.windows.index.base import SetIndex
from anabranch.windows.ring.backward import BackwardRing, DirtyBitRing
from anabranch.windows.ring.base import Ring
from anabranch.windows.ring.forward import AuxiliaryRing, PlainRing

__all__ = ["RINGS", "Ring", "make_ring"]

RINGS: Mapping[str, type[Ring]] = {
    "plain": PlainRing,
    "AUX": AuxiliaryRing,
    "BW": BackwardRing,
    "DB": DirtyBitRing,
}
"""Every ring by the paper's name for it."""


def make_ring(name: str, index: SetIndex) -> Ring:
    """A ring over the values of an index."""
    if name not in RINGS:
        raise ValueError(f"there is no ring {name!r}; there are {', '.join(RINGS)}")
    if index.name == "G":
        raise ValueError("a ring needs an index of single values: L, T, H or UH, not G")
    return RINGS[name](index)

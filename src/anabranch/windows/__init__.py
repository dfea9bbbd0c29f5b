"""Basic windows: how an axis is cut into panes, the partial answers kept for them, and indexed sliding windows.

`SlidingWindow` and `WindowPair` stand by themselves: windows over the last tuples of a stream, kept up to date under
an index, as in L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003).
"""

from anabranch.windows.basic.values import Domain
from anabranch.windows.cost import Choice, choose
from anabranch.windows.index import INDICES, Ranges, SetIndex, make_index
from anabranch.windows.pair import WindowPair
from anabranch.windows.ring import RINGS
from anabranch.windows.sliding import SlidingWindow
from anabranch.windows.storage import STORAGES, make_storage

__all__ = [
    "INDICES",
    "RINGS",
    "STORAGES",
    "Choice",
    "Domain",
    "Ranges",
    "SetIndex",
    "SlidingWindow",
    "WindowPair",
    "choose",
    "make_index",
    "make_storage",
]

"""A sliding window over one column: the last tuples of a stream, and what can be asked of them.

L. Golab, S. Garg and M. T. Özsu, "On Indexing Sliding Windows over On-line Data Streams" (2003).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from anabranch.windows.answering import attributes, discrete_rank, equal_pairs, interpolated, is_number
from anabranch.windows.basic.arriving import groups_of, take_in, times_of
from anabranch.windows.basic.basic import BasicWindows
from anabranch.windows.basic.cutting import make_cutter
from anabranch.windows.basic.values import Domain
from anabranch.windows.cost import TUPLES, choose, estimated_distinct
from anabranch.windows.draw import draw_window
from anabranch.windows.index import SetIndex, make_index
from anabranch.windows.index.base import Codes, Counts, Groups
from anabranch.windows.ring import Ring, make_ring
from anabranch.windows.ring.base import Numbers
from anabranch.windows.storage import Storage, make_storage


class SlidingWindow:
    """The last `size` tuples or the last `size` of time, in `basic_windows` parts that come and go as one.

    What is asked sees whole basic windows only: a tuple counts from when its basic window is complete. NULL is in
    no answer, but it is a tuple of a count-based window.

    size            tuples, or a time (timedelta, or µs) if unit is "time"
    storage, index  by name or made; by default what `cost.choose` says when the first basic window is complete
    ring            "DB" (best), "BW", "AUX" or "plain", for `sorted` with columns, `lookup` and `self_join`
    delay           how late tuples of a window over time may come
    every           a query is due after so many basic windows; may be changed at any time
    groups          about how many groups there are, if there is to be a histogram for each; see `append`
    memory_bytes    entries of basic windows beyond this go to a temporary file
    needs           what will be asked, for `cost.choose`; "sorted", "lookup" and "join" bring a ring with them

    >>> window = SlidingWindow(size=6, basic_windows=3)
    >>> window.append([5, 1, 5, 2, 9, 9, 9])
    3
    >>> window.median(), window.mode().as_py(), window.distinct()
    (5.0, 5, 4)
    >>> window.append([9])
    1
    >>> window.histogram().to_pydict()
    {'value': [2, 5, 9], 'count': [1, 1, 4]}
    """

    def __init__(
        self,
        size: int | datetime.timedelta,
        basic_windows: int,
        unit: Literal["rows", "time"] = "rows",
        *,
        storage: str | Storage | None = None,
        index: str | SetIndex | None = None,
        ring: str | None = None,
        type: pa.DataType | None = None,
        delay: int | datetime.timedelta = 0,
        every: int = 1,
        groups: int | None = None,
        memory_bytes: int | None = None,
        needs: Iterable[str] = ("histogram", "quantile", "mode"),
    ) -> None:
        self.domain = Domain(type or pa.int64())
        self._every = 1
        self.every = every
        self.due = False
        """Whether a query is to be evaluated again after what was appended last."""
        self._since_due = 0
        self._needs = tuple(needs)
        self._chooses = storage is None, index is None
        self._grouped = groups is not None
        self._with_rows: bool | None = None
        self._index = index if isinstance(index, SetIndex) else make_index(index or "T")
        self._index.reserve_groups(groups or 1)
        if ring is None and TUPLES.intersection(self._needs):
            ring = "DB"
        if ring is not None and storage not in (None, "LIST"):
            raise ValueError(f"rings are made of tuples: with a ring the storage is LIST, not {storage}")
        kept = "LIST" if ring is not None and storage is None else storage
        self._basic = BasicWindows(
            basic_windows,
            make_cutter(size, basic_windows, unit, delay),
            self._index,
            make_storage(kept) if isinstance(kept, str) else kept,
            None if ring is None else make_ring(ring, self._index),
            memory_bytes,
            self._choose if None in (kept, index) and ring is None else None,
            self._forget if self.domain.remapping else None,
        )

    # -- what comes ------------------------------------------------------------------------------

    def append(self, values: Any, times: Any = None, rows: pa.Table | None = None, groups: Any = None) -> int:
        """Take in tuples in order of arrival; give by how many basic windows the window went on.

        Values and times are Arrow or NumPy arrays or lists; `rows` are other attributes of the tuples, kept if there
        is a ring; `groups` are numbers from 0 on, for a window made with groups.
        """
        owners, table = self._owners(groups, len(values)), self._table(rows, len(values))
        pieces, codes, rekey = take_in(values, times, self.domain, self._basic.cutter)
        if rekey is not None:
            self._index.rekey(*rekey)
            self._basic.rekey(rekey)
        if pieces.rows is not None:
            owners = None if owners is None else owners[pieces.rows]
            table = None if table is None else table.take(pa.array(pieces.rows))
        self._basic.fill(pieces, codes, owners, table)
        return self._slide()

    def advance(self, time: Any) -> int:
        """The stream has come to this time, with tuples or without (a heartbeat)."""
        self._basic.cutter.advance(int(times_of([time])[0]))
        return self._slide()

    @property
    def late(self) -> int:
        """Tuples refused because their basic window was complete."""
        return self._basic.cutter.late

    @property
    def every(self) -> int:
        """After how many basic windows a query is due."""
        return self._every

    @every.setter
    def every(self, every: int) -> None:
        if every < 1:
            raise ValueError(f"a query cannot be due every {every} basic windows")
        self._every = every

    # -- what can be asked -----------------------------------------------------------------------

    def count(self, group: int = 0) -> int:
        """Tuples, without NULL."""
        return int(self._index.total(self._one(group))[0])

    def distinct(self, group: int = 0) -> int:
        """Different values."""
        return int(self._index.distinct(self._one(group))[0])

    def frequency(self, value: Any, group: int = 0) -> int:
        """How often a value is there."""
        code = self._code(value)
        nodes = self._index.find(np.array([code]), self._one(group)) if code is not None else np.array([-1])
        return 0 if nodes[0] < 0 else int(self._index.count(nodes)[0])

    def histogram(self, group: int = 0) -> pa.Table:
        """Values, ascending, and their counts."""
        return self._counted(*self._histogram(group))

    def top(self, k: int, group: int = 0) -> pa.Table:
        """The k most frequent values and their counts; of equally frequent ones the smaller first."""
        return self._counted(*self._index.top(int(self._one(group)[0]), k))

    def mode(self, group: int = 0) -> pa.Scalar:
        """The most frequent value, the smallest of several; NULL if there is none."""
        if not self.count(group):
            return pa.scalar(None, self.domain.type)
        return self.domain.decode(self._index.mode(self._one(group))[0])[0]

    def median(self, group: int = 0) -> float | None:
        """The value in the middle, or the mean of the two there; None if there is none."""
        middle: float | None = self.quantile(0.5, group=group)
        return middle

    def quantile(self, p: float, discrete: bool = False, group: int = 0) -> Any:
        """The value below which a part p of the tuples lies, 0 ≤ p ≤ 1.

        For numbers interpolated linearly, as a float; None if there is no tuple. Discrete: the smallest value that at
        least a part p of the tuples do not exceed, as a scalar of the column's type.
        """
        if not 0 <= p <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {p}")
        size = self.count(group)
        if discrete:
            return self._at_rank([discrete_rank(p, size)], group)[0] if size else self._null()
        if not is_number(self.domain.type):
            raise ValueError(f"values of type {self.domain.type} cannot be interpolated; ask with discrete=True")
        if not size:
            return None
        return interpolated(p, size, lambda ranks: self._at_rank(ranks, group))

    def self_join_size(self, group: int = 0) -> int:
        """Pairs of tuples with equal values."""
        counts = self._histogram(group)[1]
        return sum(count * count for count in counts.tolist())

    def sorted(self, columns: Sequence[str] = (), group: int = 0) -> pa.Table:
        """All tuples, smallest value first, oldest first where values are equal, with other attributes."""
        codes, counts = self._histogram(group)
        if not columns and self._basic.ring is None:
            return pa.table({"value": self.domain.decode(np.repeat(codes, counts))})
        numbers = self._ring().in_order(group)
        return self._rows(numbers, np.repeat(codes, counts), columns)

    def lookup(self, value: Any, columns: Sequence[str] | None = None, group: int = 0) -> pa.Table:
        """The tuples with a value, oldest first."""
        ring, code = self._ring(), self._code(value)
        owner = int(self._one(group)[0])
        numbers = np.empty(0, np.int64) if code is None else ring.tuples(code, owner)
        return self._rows(numbers, np.full(len(numbers), code or 0, np.int64), columns)

    def self_join(self, columns: Sequence[str] | None = None, group: int = 0) -> pa.Table:
        """Every pair of tuples with equal values: their value, `left_` and `right_` attributes."""
        codes, counts = self._histogram(group)
        numbers = self._ring().in_order(group)
        left, right = (pa.array(side) for side in equal_pairs(counts))
        rows = self._rows(numbers, np.repeat(codes, counts), columns)
        pairs = {"value": rows.column("value").take(left)}
        for side, taken in (("left", left), ("right", right)):
            for name in rows.column_names[1:]:
                pairs[f"{side}_{name}"] = rows.column(name).take(taken)
        return pa.table(pairs)

    def draw(self, group: int = 0) -> str:
        """The basic windows and the index as text."""
        return draw_window(self._basic, self._index, self._text, group)

    # -- what it is made of ----------------------------------------------------------------------

    @property
    def index(self) -> SetIndex:
        return self._index

    @property
    def basic_windows(self) -> BasicWindows:
        return self._basic

    @property
    def nbytes(self) -> int:
        """Bytes in memory, other attributes aside."""
        ring = 0 if self._basic.ring is None else self._basic.ring.nbytes
        return self._index.nbytes + self._basic.nbytes + self.domain.nbytes + ring

    def _one(self, group: int) -> Groups:
        """One group to ask the index for; one that has no tuples yet is as good as any."""
        if group < 0:
            raise ValueError(f"groups are numbers from 0 on, not {group}")
        self._index.reserve_groups(group + 1)
        return np.array([group], np.int32)

    def _histogram(self, group: int) -> tuple[Codes, Counts]:
        return self._index.histogram(int(self._one(group)[0]))

    def _owners(self, groups: Any, size: int) -> Groups | None:
        if (groups is not None) != self._grouped:
            raise ValueError("groups are given with all tuples of a window made with groups, and with no others")
        if groups is None:
            return None
        owners = groups_of(groups)
        if len(owners) != size or (size and owners.min() < 0):
            raise ValueError(f"{size} tuples need as many groups, which are numbers from 0 on")
        self._index.reserve_groups(int(owners.max()) + 1 if size else 0)
        return owners

    def _table(self, rows: pa.Table | None, size: int) -> pa.Table | None:
        if self._basic.ring is None:
            return None
        if size and self._with_rows is None:
            self._with_rows = rows is not None
        if size and self._with_rows != (rows is not None):
            raise ValueError("rows are given with all tuples or with none")
        if rows is not None and rows.num_rows != size:
            raise ValueError(f"{size} tuples need as many rows, not {rows.num_rows}")
        return rows

    def _slide(self) -> int:
        went = self._basic.slide()
        self._since_due += went
        self.due = self._since_due >= self.every
        if self.due:
            self._since_due %= self.every
        return went

    def _choose(self, codes: Codes, groups: Groups | None) -> None:
        """What was left open is decided with the first basic window, before anything is in the index."""
        size = len(codes) * self._basic.count
        seen = len(make_storage("HASH").build(codes, groups).codes)
        distinct = estimated_distinct(seen, len(codes), size)
        choice = choose(size, distinct, self._basic.count, self._needs)
        if self._chooses[0]:
            self._basic.storage = make_storage(choice.storage)
        if self._chooses[1]:
            room = self._index.groups
            self._index = self._basic.index = make_index(choice.index)
            self._index.reserve_groups(room)

    def _forget(self) -> None:
        self.domain.retain(np.union1d(self._index.codes(), self._basic.waiting()))

    def _code(self, value: Any) -> int | None:
        if value is None:
            return None
        codes, known = self.domain.find(pa.array([value], self.domain.type))
        return int(codes[0]) if known[0] else None

    def _text(self, code: int) -> str:
        return str(self.domain.decode(np.array([code], np.int64))[0].as_py())

    def _null(self) -> pa.Scalar:
        return pa.scalar(None, self.domain.type)

    def _at_rank(self, ranks: list[int], group: int) -> pa.Array:
        owners = np.full(len(ranks), group, np.int32)
        return self.domain.decode(self._index.select(owners, np.array(ranks, np.int64)))

    def _counted(self, codes: Codes, counts: Counts) -> pa.Table:
        return pa.table({"value": self.domain.decode(codes), "count": counts})

    def _ring(self) -> Ring:
        if self._basic.ring is None:
            raise ValueError("single tuples are found with a ring; make the window with ring='DB'")
        return self._basic.ring

    def _rows(self, numbers: Numbers, codes: Codes, columns: Sequence[str] | None) -> pa.Table:
        """Tuples by number: their values, and other attributes, all if `columns` is None."""
        others = attributes(self._basic, numbers, columns)
        return pa.table({"value": self.domain.decode(codes), **others})

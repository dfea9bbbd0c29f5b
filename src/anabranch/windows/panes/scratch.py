"""Partial answers of windows kept between batches, in memory and in files (`table_files`).

    panes.LOW.HIGH.SINCE    the nodes that end in (LOW, HIGH] and begin at SINCE or later
    open.ROW.PANE           the pane that was still filling when rows below ROW were folded

A node that a file speaks for and does not hold is empty. Of one that no file speaks for nothing is known: a
batch that is run again needs older nodes than what it wrote itself the first time speaks for.
"""

from __future__ import annotations

import bisect

import pyarrow as pa

from anabranch.log.storage import Storage
from anabranch.windows.panes.axis import Nodes, node_end, node_start
from anabranch.windows.panes.table_files import TableFile, TableFiles, memory

_PANES, _OPEN = "panes", "open"


class Scratch:
    """The partial answers of one operator in one folder, as they are when it is made."""

    def __init__(self, folder: Storage, schema: pa.Schema) -> None:
        self._files = TableFiles(folder, schema)

    @property
    def name(self) -> str:
        """Different for different folders."""
        return self._files.folder

    # -- reading ---------------------------------------------------------------------------------

    def nodes(self, wanted: Nodes) -> list[pa.Table] | None:
        """Tables that hold all entries of the wanted nodes, or None if no file speaks for one of them."""
        runs = self._files.of_kind(_PANES)
        chosen: dict[TableFile, None] = {}
        for start, end in zip(node_start(wanted).tolist(), node_end(wanted).tolist(), strict=True):
            newest = bisect.bisect_left(runs, end, key=lambda file: file.numbers[0]) - 1
            file = next((runs[at] for at in range(newest, -1, -1) if _speaks_for(runs[at], start, end)), None)
            if file is None:
                return None
            chosen[file] = None
        tables = []
        for file in chosen:
            table = self._files.read(file)
            if table is None:
                return None
            tables.append(table)
        # Files may overlap; entries of a node are the same in each that holds it.
        return tables

    def open_pane(self, row: int, pane: int) -> tuple[int, pa.Table] | None:
        """The newest entries of the open pane at or before `row`, with the row they were folded up to."""
        table = memory.get(self.name, f"{_OPEN}.{row}.{pane}")
        if table is not None:
            return row, table
        for file in reversed(self._opened(row)):
            if file.numbers[1] == pane:
                table = self._files.read(file)
                if table is not None:
                    return file.numbers[0], table
        return None

    def _opened(self, row: int) -> list[TableFile]:
        """Files of open panes up to a row."""
        return [file for file in self._files.of_kind(_OPEN) if file.numbers[0] <= row]

    # -- writing ---------------------------------------------------------------------------------

    def keep_nodes(self, low: int, high: int, since: int, entries: pa.Table) -> None:
        """Keep all nodes that end in (low, high] and begin at `since` or later."""
        self._files.write(_PANES, (low, high, since), entries)

    def keep_open(self, row: int, pane: int, entries: pa.Table) -> None:
        """Keep the open pane; on disk only if folding it again from the last file would cost more than the bytes."""
        memory.put(self.name, f"{_OPEN}.{row}.{pane}", entries)
        saved = [file.numbers[0] for file in self._opened(row) if file.numbers[1] == pane]
        if not saved or (row - max(saved)) * 4 >= entries.num_rows:
            self._files.write(_OPEN, (row, pane), entries)

    def clean(self, row: int, pane: int) -> None:
        """Delete what a batch that starts at `row` and needs panes from `pane` on cannot use."""
        opened = self._opened(row)
        useless = [file for file in self._files.of_kind(_PANES) if file.numbers[1] <= pane]
        if opened:
            useless += [file for file in opened if file.numbers[0] < opened[-1].numbers[0]]
        for file in useless:
            self._files.delete(file)

    def clear(self) -> None:
        """Keep nothing of it."""
        for file in [*self._files.of_kind(_PANES), *self._files.of_kind(_OPEN)]:
            self._files.delete(file)
        memory.forget(self.name)

    def size(self) -> tuple[int, int]:
        """Rows and bytes in files."""
        return self._files.size()


def _speaks_for(file: TableFile, start: int, end: int) -> bool:
    """Whether it holds all there is of a node of the panes start ≤ n < end."""
    low, high, since = file.numbers
    return low < end <= high and since <= start

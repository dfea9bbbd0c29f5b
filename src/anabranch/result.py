"""What a statement gives back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa


class Result:
    """The outcome of a statement: rows, or a message, or rows that go on coming (SUBSCRIBE)."""

    def __init__(
        self,
        table: pa.Table | None = None,
        message: str = "",
        live: Iterator[pa.RecordBatch] | None = None,
        notices: Sequence[str] = (),
    ) -> None:
        self._table = table
        self.message = message
        self.live = live
        """For SUBSCRIBE: the answers as they come."""
        self.notices = tuple(notices)
        """What there is to know about the rows: where an estimate has no bounds, and why."""

    def table(self) -> pa.Table:
        """The rows as an Arrow table; without columns if the statement has none."""
        return self._table if self._table is not None else pa.table({})

    @property
    def has_rows(self) -> bool:
        return self._table is not None

    def to_pandas(self) -> Any:
        return self.table().to_pandas()

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.table().to_pylist())

    def __len__(self) -> int:
        return int(self.table().num_rows)

    def show(self, rows: int = 20) -> None:
        """Print the first rows and what there is to know about them, or the message."""
        if self._table is None:
            print(self.message)
            return
        print(self._table.slice(0, rows).to_pandas().to_string(index=False))
        if self._table.num_rows > rows:
            print(f"… {self._table.num_rows - rows} more rows")
        for notice in self.notices:
            print(f"notice: {notice}")

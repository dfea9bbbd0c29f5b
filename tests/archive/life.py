"""A stream with archives and no Spark, and the oracle of all they may say: every row that was ever pushed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from anabranch.archive.declaration import ROW, archive_storage, declared
from anabranch.archive.reader import HistoryReader
from anabranch.clock import SystemClock
from anabranch.kernels.sampling import kept, key_lots, lots_between
from anabranch.log import Storage, StreamWriter, retention
from anabranch.log.stream import StreamInfo
from anabranch.operators.archive.write import WRITTEN, ArchiveWrite
from anabranch.operators.base import Inputs
from anabranch.queries.archiver import Archiver
from anabranch.schema import StreamSchema
from anabranch.settings import Settings

SEED = 42
BASE_US = 1_700_000_000_000_000
COLUMNS = {"k": "STRING", "v": "INT", "d": "DOUBLE", "ts": "TIMESTAMP"}

LAYOUTS: dict[str, tuple[str, dict[str, str], str | None]] = {
    "plain": ("plain", {}, None),
    "replicate": ("on_write_replicate", {"levels": "20, 40, 70, 90"}, None),
    "modify": ("on_read_modify", {}, None),
    "randomize": ("randomize_then_sort", {"blocks": "20"}, None),
    "by_key": ("randomize_then_sort", {"blocks": "20"}, "k"),
}
"""Every layout of rows, under a short name, with options that make small runs interesting."""


class Life:
    """A stream, its archives by name, and all its rows in memory."""

    def __init__(
        self,
        path: Path,
        layouts: Mapping[str, tuple[str, dict[str, str], str | None]],
        *,
        seed: int = 0,
        run_rows: int = 3000,
        segment_bytes: int = 20_000,
        keep_us: int | None = None,
        compression: str | None = None,
    ) -> None:
        self.source = np.random.default_rng(seed)
        self.storage = Storage(str(path))
        schema = StreamSchema.of(COLUMNS, time="ts")
        StreamInfo("s", schema, retain_us=5_000).create(self.storage)
        self.writer = StreamWriter(self.storage, Settings({"segment_bytes": segment_bytes}, environment={}))
        self.end = 0
        self._time = BASE_US
        self._all = schema.arrow.empty_table()
        self.archivers: dict[str, Archiver] = {}
        for name, (layout, options, by) in layouts.items():
            given = {"run_rows": str(run_rows), "seed": str(SEED), **options}
            if compression:
                given["compression"] = compression
            info = declared(name, "s", layout, by=by, keep_us=keep_us, options=given)
            place = archive_storage(self.storage, name)
            info.save(place)
            self.archivers[name] = Archiver(self.storage, place, info, self._run, SystemClock())
            retention.hold(self.storage, self.archivers[name].holder, 0, None)

    def _run(self, operator: ArchiveWrite) -> pa.Table:
        inputs = Inputs({"s": self.reader()})
        tasks = operator.plan({}, {}, inputs, 2)
        return pa.Table.from_batches([batch for task in tasks for batch in operator.run(task, inputs)], WRITTEN)

    def push(self, rows: int) -> None:
        """Rows with random keys, NULLs, and times that often stand still."""
        source = self.source
        times = self._time + np.cumsum(source.integers(0, 4, rows) * (source.random(rows) < 0.7))
        nulls = source.random(rows) < 0.05
        table = pa.table(
            {
                "k": pa.array([f"k{i}" for i in source.integers(0, 50, rows)], mask=nulls),
                "v": pa.array(source.integers(0, 1000, rows).astype(np.int32), mask=source.random(rows) < 0.1),
                "d": pa.array(source.normal(size=rows)),
                "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            }
        ).cast(self._all.schema)
        self.writer.append(table)
        self._all = pa.concat_tables([self._all, table])
        self._time = int(times[-1])
        self.end += rows

    def reader(self, archive: str | None = None) -> HistoryReader:
        reader = HistoryReader(self.storage, archive)
        reader.refresh()
        return reader

    def close(self) -> None:
        for archiver in self.archivers.values():
            archiver.close()
        self.writer.close()

    # -- the oracle ----------------------------------------------------------------------------------

    def rows(self, start: int, end: int) -> pa.Table:
        return self._all.slice(start, end - start)

    def times(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        times: np.ndarray[tuple[int], np.dtype[np.int64]] = (
            self._all.column("ts").combine_chunks().cast(pa.int64()).to_numpy()
        )
        return times

    def sample(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> pa.Table:
        """Read everything, filter by lots."""
        rows = self.rows(start, end)
        drawn = lots_between(start, end, SEED) if by is None else key_lots(rows.column(by), SEED)
        numbered = rows.select(columns).add_column(0, ROW, pa.array(np.arange(start, end)))
        return numbered.filter(pa.array(kept(drawn, keep)))

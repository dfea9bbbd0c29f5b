"""Where the rows of a table come from that is a copy: a file, and how often it is compared with that."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath

PARQUET, CSV, JSON, DELTA = "parquet", "csv", "json", "delta"
FORMATS = (PARQUET, CSV, JSON, DELTA)
"""What a file may be. JSON is one object per line, and Delta a folder."""
_ENDINGS = {
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".csv": CSV,
    ".json": JSON,
    ".jsonl": JSON,
    ".ndjson": JSON,
    ".delta": DELTA,
}


@dataclass(frozen=True)
class Origin:
    """A file by its format and its path as it was written; `refresh_us`: after how long it is looked at again."""

    format: str
    path: str
    refresh_us: int | None = None

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_text(text: str) -> Origin:
        return Origin(**json.loads(text))


def format_of(path: str) -> str | None:
    """The format that a file's name tells of.

    >>> format_of("a/prices.CSV.gz"), format_of("prices")
    ('csv', None)
    """
    name = PurePosixPath(path.lower().rstrip("/").removesuffix(".gz"))
    return _ENDINGS.get(name.suffix)

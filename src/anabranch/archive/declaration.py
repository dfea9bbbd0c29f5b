"""What an archive is: of which stream, in which layout, and how long its rows are kept.

An archive lies beside the segments of its stream: `streams/<stream>/archives/<name>/`, with this
declaration in `archive.json` and the rows in the Delta table `table/`.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from anabranch.errors import CatalogError, DataError, did_you_mean
from anabranch.log.storage import Storage, encoded_name

ARCHIVES = "archives"
INFO = "archive.json"
DROPPED = "dropped.json"
"""Written before an archive is deleted, so that what is left of one is not taken for damaged."""
FORMAT = 1
ROW = "_row"
"""The column of an archive's table that holds the number of each row."""
WINDOWED = "windowed_aggregation"

LAYOUTS: dict[str, str] = {
    "plain": "rows as they came; a reduced read saves nothing",
    "on_write_replicate": "beside all rows, smaller copies that are written at the same time",
    "on_read_modify": "a smaller copy that is made of what reduced reads have left",
    "randomize_then_sort": "runs of blocks to which rows are dealt at random; a reduced read takes some blocks",
    WINDOWED: "summaries of windows by group, which a standing query writes",
}
"""Every layout, and what it is in a line."""

COMPRESSIONS = ("zstd", "snappy", "lz4", "gzip", "none")
_DEFAULT_LEVELS = (20, 40, 60, 80)

seeds: random.Random = random.SystemRandom()
"""Where the seed of an archive that was given none comes from."""


@dataclass(frozen=True)
class ArchiveInfo:
    """The declaration of an archive.

    `levels` are the reductions in percent of the copies of on_write_replicate; `by` the column that
    randomize_then_sort deals rows by; `every` and `group_by` belong to windowed aggregation.
    """

    name: str
    stream: str
    layout: str
    seed: int
    by: str | None = None
    keep_us: int | None = None
    run_rows: int = 1 << 20
    blocks: int = 100
    levels: tuple[int, ...] = ()
    threshold: float = 0.5
    compression: str = "zstd"
    every: int | None = None
    group_by: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """The columns that windowed aggregation summarises: those the stream had when the archive was made."""
    first_row: int = 0
    """The first row of the stream that goes to the archive."""
    id: str = field(default_factory=lambda: secrets.token_hex(6))

    def save(self, storage: Storage) -> None:
        storage.make()
        storage.write_json(INFO, {"format": FORMAT, **asdict(self)})

    @staticmethod
    def load(storage: Storage) -> ArchiveInfo | None:
        data: dict[str, Any] | None = storage.read_json(INFO)
        if data is None:
            return None
        if data.pop("format", None) != FORMAT:
            raise CatalogError("FORMAT_NOT_KNOWN", f"the archive in {storage.path} was made by another version")
        lists: dict[str, Any] = {name: tuple(data.get(name, ())) for name in ("levels", "group_by", "values")}
        return ArchiveInfo(**{**data, **lists})


def archive_storage(stream: Storage, name: str) -> Storage:
    """Where the archive of a stream lies; without %, which deltalake reads as the sign of an address."""
    return stream.child(ARCHIVES, encoded_name(name))


def archives_of(stream: Storage) -> list[tuple[Storage, ArchiveInfo]]:
    """The archives of a stream, by name."""
    parent = stream.child(ARCHIVES)
    places = [parent.child(directory) for directory in parent.directories()]
    archives = [(place, info) for place in places if (info := ArchiveInfo.load(place)) is not None]
    return sorted(archives, key=lambda archive: archive[1].name)


def undeclared_archives(stream: Storage) -> list[Storage]:
    """Archives that hold rows and whose declaration is lost or cannot be read; not those that were dropped."""
    parent = stream.child(ARCHIVES)
    places = [parent.child(directory) for directory in parent.directories()]
    return [
        place
        for place in places
        if place.exists("table/_delta_log") and not place.exists(DROPPED) and ArchiveInfo.load(place) is None
    ]


def declared(
    name: str | None,
    stream: str,
    layout: str,
    *,
    by: str | None = None,
    keep_us: int | None = None,
    every: int | None = None,
    group_by: tuple[str, ...] = (),
    values: tuple[str, ...] = (),
    options: Mapping[str, str] | None = None,
    seed: int | None = None,
    first_row: int = 0,
) -> ArchiveInfo:
    """A declaration from what CREATE ARCHIVE says, checked.

    >>> declared(None, "cars", "on_write_replicate").levels
    (20, 40, 60, 80)
    """
    if layout.lower() not in LAYOUTS:
        raise CatalogError(
            "LAYOUT_NOT_FOUND",
            f'there is no layout "{layout}"',
            hint=did_you_mean(layout, LAYOUTS, "there are: " + ", ".join(LAYOUTS)),
        )
    layout = layout.lower()
    _only(by is None or layout == "randomize_then_sort", "BY", "randomize_then_sort")
    _only(every is None or layout == WINDOWED, "EVERY", WINDOWED)
    if layout == WINDOWED and not every:
        raise DataError("ARCHIVE_OPTION_INVALID", f"{WINDOWED} needs EVERY INTERVAL … after USING {WINDOWED}")
    if keep_us is not None and keep_us <= 0:
        raise DataError("ARCHIVE_OPTION_INVALID", "KEEP takes an interval above 0")
    if layout == WINDOWED and (keep_us is not None or options):
        raise DataError(
            "ARCHIVE_OPTION_INVALID",
            f"{WINDOWED} takes neither KEEP nor OPTIONS",
            hint="leave them out: summaries stay",
        )
    given = _Options(layout, options or {})
    drawn = seeds.getrandbits(63) if seed is None else seed
    return ArchiveInfo(
        name=name or layout,
        stream=stream,
        layout=layout,
        seed=given.whole("seed", drawn, 0, 2**63 - 1),
        by=by,
        keep_us=keep_us,
        run_rows=given.whole("run_rows", 1 << 20, 1, 1 << 30),
        blocks=given.whole("blocks", 100, 1, 65_535, only="randomize_then_sort"),
        levels=given.levels(),
        threshold=given.number("threshold", 0.5, only="on_read_modify"),
        compression=given.compression(),
        every=every,
        group_by=group_by,
        values=values,
        first_row=first_row,
    )


OPTIONS = ("run_rows", "blocks", "levels", "threshold", "compression", "seed")
"""What CREATE ARCHIVE … OPTIONS takes."""


class _Options:
    """The options of a declaration, checked one by one."""

    def __init__(self, layout: str, given: Mapping[str, str]) -> None:
        self._layout = layout
        self._given = {name.lower(): str(value) for name, value in given.items()}
        for name in self._given:
            if name not in OPTIONS:
                raise DataError(
                    "ARCHIVE_OPTION_INVALID",
                    f'"{name}" is not an option of an archive',
                    hint=did_you_mean(name, OPTIONS, "there are: " + ", ".join(OPTIONS)),
                )

    def _take(self, name: str, only: str | None = None) -> str | None:
        _only(name not in self._given or only in (None, self._layout), f'option "{name}"', only or "")
        return self._given.get(name)

    def whole(self, name: str, default: int, least: int, most: int, only: str | None = None) -> int:
        text = self._take(name, only)
        if text is None:
            return default
        if not text.isdecimal() or not least <= int(text) <= most:
            raise _invalid(name, f"a whole number from {least} to {most}", text)
        return int(text)

    def number(self, name: str, default: float, only: str) -> float:
        text = self._take(name, only)
        try:
            value = default if text is None else float(text)
        except ValueError:
            value = -1.0
        if not 0 < value <= 1:
            raise _invalid(name, "a number above 0 and up to 1", text)
        return value

    def levels(self) -> tuple[int, ...]:
        text = self._take("levels", "on_write_replicate")
        if self._layout != "on_write_replicate":
            return ()
        if text is None:
            return _DEFAULT_LEVELS
        parts = [part.strip().removesuffix("%").strip() for part in text.split(",")]
        if not all(part.isdecimal() and 0 < int(part) < 100 for part in parts):
            raise _invalid("levels", "reductions in percent from 1 to 99, with commas between", text)
        return tuple(sorted({int(part) for part in parts}))

    def compression(self) -> str:
        text = (self._take("compression") or COMPRESSIONS[0]).lower()
        if text not in COMPRESSIONS:
            raise _invalid("compression", "one of " + ", ".join(COMPRESSIONS), text)
        return text


def _invalid(name: str, wanted: str, got: str | None) -> DataError:
    return DataError("ARCHIVE_OPTION_INVALID", f'option "{name}" takes {wanted}, got "{got}"')


def _only(holds: bool, what: str, layout: str) -> None:
    if not holds:
        raise DataError("ARCHIVE_OPTION_INVALID", f"{what} belongs to the layout {layout}", hint="leave it out")

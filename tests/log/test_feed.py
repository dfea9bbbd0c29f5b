"""What a change feed accepts, and that what it refuses moves nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from anabranch.errors import DataError
from anabranch.log import Storage, StreamReader, StreamWriter
from anabranch.log.feed import BEFORE, COMES, GOES, WORDS, Feed, goes, says_before
from anabranch.log.stream import StreamInfo, feed_options
from anabranch.schema import StreamSchema
from tests.log.conftest import Clock

COLUMNS = {"op": "STRING", "id": "INT", "ts": "TIMESTAMP"}
SCHEMA = StreamSchema.of(COLUMNS, time="ts")


def made(path: Path, skew_us: int = 0) -> Storage:
    storage = Storage(str(path / "feed"))
    feed = Feed.declare("OP", ["ID"], SCHEMA.arrow)
    StreamInfo("feed", SCHEMA, skew_us, options=feed_options(feed)).create(storage)
    return storage


def row(op: str | None, id: int | None, second: int) -> dict[str, Any]:
    return {"op": op, "id": id, "ts": f"2026-01-01T00:00:{second:02}Z"}


def ids(storage: Storage, of: str = "id") -> list[Any]:
    reader = StreamReader(storage)
    return list(reader.read(0, reader.end().row).column(of).to_pylist())


def test_every_word_is_known_in_any_case_and_says_one_thing() -> None:
    assert len(set(WORDS)) == len(WORDS)
    said = pa.chunked_array([[word.upper() for word in WORDS]])
    assert [word for word, mask in zip(WORDS, goes(said), strict=True) if mask] == list(GOES)
    assert [word for word, mask in zip(WORDS, says_before(said), strict=True) if mask] == list(BEFORE)
    feed = Feed("op", ("op2",))
    assert feed.refused(pa.table({"op": said, "op2": said})) == {}
    assert {"c", "r", "u", "d", "i", "+i", "-u", "+u", "-d"} < {*COMES, *GOES, *BEFORE}


@pytest.mark.parametrize("skew", [0, 5_000_000])
def test_rows_that_are_no_change_are_rejected_and_move_no_time(skew: int, tmp_path: Path) -> None:
    storage = made(tmp_path, skew)
    clock = Clock()
    writer = StreamWriter(storage, clock=clock)
    rows = [row("c", 1, 5), row("truncate", 2, 50), row(None, 3, 50), row("d", None, 50), row("+U", 4, 6)]
    writer.append(rows, producer="p", batch=0)
    writer.append(rows, producer="p", batch=0)
    writer.flush()
    assert ids(storage) == [1, 4]
    rejects = storage.child("rejects")
    assert ids(rejects, "_reason") == ["CHANGE_NOT_KNOWN", "CHANGE_NOT_KNOWN", "KEY_IS_NULL"]
    assert ids(rejects) == [2, 3, None]
    writer.append([row("d", 1, 6), row("d", 4, 3)])
    writer.flush()
    assert ids(storage) == [1, 4, 1]
    assert ids(rejects, "_reason")[3:] == ["TIME_WENT_BACK"]
    writer.close()


def test_rows_that_are_held_back_are_held_again_without_those_that_were_refused(tmp_path: Path) -> None:
    storage = made(tmp_path, 20_000_000)
    writer = StreamWriter(storage, clock=Clock())
    writer.append([row("c", 1, 5), row("?", 2, 6), row("u", 1, 4)])
    writer.append([row("c", 3, 24), row("x", 4, 26)])
    writer.close(release=False)
    again = StreamWriter(storage, clock=Clock())
    assert again.held_rows == 2
    again.flush()
    assert ids(storage) == [1, 1, 3]
    assert ids(storage.child("rejects")) == [2, 4]
    again.close()


@pytest.mark.parametrize(
    ("change", "key", "wanted"),
    [
        ("none", ["id"], "COLUMN_NOT_FOUND"),
        ("op", ["none"], "COLUMN_NOT_FOUND"),
        ("id", ["op"], "CHANGE_TYPE_MISMATCH"),
        ("op", [], "KEY_WANTED"),
        ("op", ["id", "Op"], "KEY_INVALID"),
        ("op", ["id", "ID"], "COLUMN_EXISTS"),
    ],
)
def test_declarations_that_are_wrong(change: str, key: list[str], wanted: str) -> None:
    with pytest.raises(DataError) as problem:
        Feed.declare(change, key, SCHEMA.arrow)
    assert problem.value.name == wanted


def test_a_declaration_is_read_again_and_changes_no_setting(tmp_path: Path) -> None:
    info = StreamInfo.load(made(tmp_path))
    assert info.feed == Feed("op", ("id",))
    assert info.own_settings == {}

"""Operators keep their files through `Storage`, on whatever file system the database lies."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import fs

from anabranch.log import storage
from anabranch.log.storage import Storage
from anabranch.operators.base import Inputs, Offset, Operator
from anabranch.operators.live import forget_all
from anabranch.operators.state import SavedState, StateFiles
from anabranch.testing import MemoryLog
from anabranch.testing.harness import run_batch, same
from anabranch.testing.slt.small_tasks import small_tasks
from anabranch.windows.panes.table_files import TableFiles
from tests.operators.test_contract import EXAMPLES, SCHEMA, rows

PLACE = "elsewhere://bucket/river/queries/q/scratch"
KEEPERS = [
    pytest.param(operator, id=f"{kind}-{name}")
    for kind, examples in EXAMPLES.items()
    for name, operator in list(examples.items())[:3]
    if operator.keeps() is not None
]
IN_FILES = {
    *("landmark", "last_rows", "merge", "session_aggregate"),
    *("window_aggregate", "window_set_operation", "window_changes"),
}
"""The others keep what they keep in memory alone, but for trees, some of which keep something in files."""
TREES = {"tree_of_rows", "tree_of_windows"}


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[fs.FileSystem]:
    """A file system that is not local, found by address as a worker finds it."""
    file_system = fs._MockFileSystem()
    monkeypatch.setattr(storage, "file_system_at", lambda address: (file_system, address.partition("://")[2]))
    forget_all()
    yield file_system
    forget_all()


def files_in(file_system: fs.FileSystem) -> list[fs.FileInfo]:
    found = file_system.get_file_info(fs.FileSelector("", recursive=True))
    return sorted((info for info in found if info.type == fs.FileType.File), key=lambda info: info.path)


def flip(file_system: fs.FileSystem, path: str, at: int) -> None:
    with file_system.open_input_stream(path) as source:
        content = bytearray(source.read())
    content[at % len(content)] ^= 4
    with file_system.open_output_stream(path) as sink:
        sink.write(bytes(content))


@pytest.mark.parametrize("operator", KEEPERS)
def test_batches_large_and_small_run_twice(operator: Operator, elsewhere: fs.FileSystem, tmp_path: Any) -> None:
    log, chance = MemoryLog(SCHEMA), random.Random(5)
    log.append(rows(150, seed=5))
    reader, ends = {"in": log}, [0, 60, 63, 120, 122, 150]
    offsets = [Offset(), *(log.offset(row) for row in ends[1:]), Offset(150, 1_000_000)]
    wanted = run_batch(operator, Inputs(reader), {"in": Offset()}, {"in": offsets[-1]}, 1)
    answers = []
    with small_tasks(rows=10):
        for number, (low, high) in enumerate(itertools.pairwise(offsets)):
            for _ in range(2):
                answer = run_batch(operator, Inputs(reader, PLACE), {"in": low}, {"in": high}, 3 if number % 2 else 1)
                forget_all()
                if number == 2 and not operator.scratch_is_state:
                    for info in files_in(elsewhere)[::2]:
                        flip(elsewhere, info.path, chance.randrange(1 << 20))
            answers.append(answer)
    assert same(pa.concat_tables(answers), wanted)
    if operator.kind not in TREES:
        assert bool(files_in(elsewhere)) == (operator.kind in IN_FILES)
    assert not any(tmp_path.iterdir())


def test_a_table_that_is_damaged_is_not_there(elsewhere: fs.FileSystem) -> None:
    table = pa.table({"a": [1, 2, 3]})
    files = TableFiles(Storage(PLACE), table.schema)
    files.write("kept", (1, 2), table)
    (info,) = files_in(elsewhere)
    for at in range(0, info.size, 7):
        files = TableFiles(Storage(PLACE), table.schema)
        files.write("kept", (1, 2), table)
        forget_all()
        (file,) = files.of_kind("kept")
        read = TableFiles(Storage(PLACE), table.schema).read(file)
        assert read is not None
        assert read.equals(table)
        forget_all()
        flip(elsewhere, info.path, at)
        assert TableFiles(Storage(PLACE), table.schema).read(file) is None
        assert files_in(elsewhere) == []


def test_a_state_that_is_damaged_is_not_there(elsewhere: fs.FileSystem) -> None:
    files = StateFiles(PLACE, "kind", "query")
    state = SavedState({"t": pa.table({"a": [1, 2, 3]}), "u": pa.table({"b": ["x"]})}, {"fact": [1, None]})
    for part in range(2):
        files.save("7", "5", part, 2, state)
    whole = files.load("7")
    assert whole == [state, state]
    first, second = files_in(elsewhere)
    for at in range(0, first.size, 5):
        flip(elsewhere, first.path, at)
        assert files.load("7") is None
        flip(elsewhere, first.path, at)
    assert files.load("7") == [state, state]
    files.save("7", "6", 0, 2, state)
    assert files.load("7") is None, "parts of batches that began elsewhere"
    elsewhere.delete_file(second.path)
    assert files.load("7") is None


def test_states_of_long_ago_are_removed(elsewhere: fs.FileSystem) -> None:
    files = StateFiles(PLACE, "kind", "query")
    for number in range(40):
        files.save(str(number), "", 0, 1, SavedState({"t": pa.table({"a": [number]})}))
    kept = files_in(elsewhere)
    assert len(kept) <= 17
    assert files.load("39") is not None

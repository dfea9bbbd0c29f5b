"""Runs in files: what is written comes back, and what is damaged is seen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.log.storage import Storage
from anabranch.operators.tree.arrangement import Arrangement
from anabranch.operators.tree.changes import Changes
from anabranch.operators.tree.run_files import is_there, read_run, runs_in, write_run
from tests.operators.tree.rows import bag

ROWS = pa.table({"k": [3, 1, None, 2], "s": ["a", None, "b", "ä"]})


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path / "runs"))


def arranged() -> Arrangement:
    arrangement = Arrangement(ROWS.schema, ("k",))
    arrangement.take_in(Changes.of(ROWS))
    return arrangement


def test_what_is_written_comes_back(storage: Storage) -> None:
    before = arranged()
    names = [write_run(storage, run) for run in before.runs()]
    after = Arrangement.from_runs(ROWS.schema, ("k",), [read_run(storage, name) for name in names])
    assert bag(after.all()) == bag(before.all())
    assert runs_in(storage) == sorted(names)
    after.take_in(Changes.of(ROWS, -1))
    assert not after.runs()


def test_a_run_is_written_once(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    (run,) = arranged().runs()
    name = write_run(storage, run)
    monkeypatch.setattr(storage, "write", lambda *_: pytest.fail("written again"))
    assert write_run(storage, run) == name
    assert write_run(storage, read_run(storage, name)) == name


def test_the_same_run_of_another_process_has_the_same_name(storage: Storage) -> None:
    assert len({write_run(storage, arranged().runs()[0]) for _ in range(2)}) == 1


def test_a_run_is_written_again_where_it_is_not(storage: Storage, tmp_path: Path) -> None:
    (run,) = arranged().runs()
    name = write_run(storage, run)
    other = Storage(str(tmp_path / "others"))
    assert write_run(other, run) == name
    assert is_there(other, name)
    storage.delete(name)
    write_run(storage, run)
    assert is_there(storage, name)


@pytest.mark.parametrize("damage", ["flip", "cut", "gone"])
def test_what_is_damaged_is_said(storage: Storage, damage: str) -> None:
    name = write_run(storage, arranged().runs()[0])
    path = Path(storage.full(name))
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "cut":
        path.write_bytes(content[:-9])
        assert not is_there(storage, name)
    else:
        path.unlink()
    with pytest.raises(ValueError, match=f"{name} is (damaged|gone)"):
        read_run(storage, name, again=True)


def test_what_is_no_run_is_said(storage: Storage) -> None:
    with pytest.raises(ValueError, match="is not the name of a run"):
        read_run(storage, "run-1.arrow")


def test_a_mapped_run_is_searched_as_it_is(storage: Storage) -> None:
    schema = pa.schema([("k", pa.int64())])
    arrangement = Arrangement(schema, ("k",))
    arrangement.take_in(Changes.of(pa.table({"k": np.arange(5000)})))
    name = write_run(storage, arrangement.runs()[0])
    before = pa.total_allocated_bytes()
    mapped = Arrangement.from_runs(schema, ("k",), [read_run(storage, name)])
    assert bag(mapped.rows_of(pa.table({"k": [7, -1]})).changes) == {(7,): 1}
    assert pa.total_allocated_bytes() - before < 10_000

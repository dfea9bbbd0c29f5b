"""Appending: what is acknowledged is kept, once, in order of time; what is refused says why."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError, DataError, StreamError
from anabranch.log import End, Storage, StreamReader, StreamWriter, retention
from anabranch.log.order import Order
from anabranch.log.segment import Segment, write_segment
from tests.log.conftest import Clock, ids, rows
from tests.sampling import examples

Make = Callable[..., Storage]
Open = Callable[..., StreamWriter]


def test_append_gives_the_number_of_the_next_row(storage: Make, writer: Open) -> None:
    w = writer(storage())
    assert w.append(rows((1, 0), (2, 1))) == 2
    assert w.append(rows((3, 1))) == 3


def test_an_empty_batch_changes_nothing(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 0)))
    assert w.append([]) == 1
    assert w.append({"id": [], "ts": []}) == 1
    assert ids(place) == [1]


def test_rows_that_go_back_in_time_are_rejected_with_the_reason(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 5), (2, 4), (3, 5), (4, 3), (5, 9)))
    assert ids(place) == [1, 3, 5]
    rejects = StreamReader(place.child("rejects"))
    table = rejects.read(0, rejects.end().row)
    assert table.column("id").to_pylist() == [2, 4]
    assert set(table.column("_reason").to_pylist()) == {"TIME_WENT_BACK"}


def test_rows_without_time_or_from_the_far_future_are_rejected(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, None), (2, 5), (3, 10**9)))
    assert ids(place) == [2]
    table = StreamReader(place.child("rejects")).read(0, 2)
    assert table.column("_reason").to_pylist() == ["TIME_IS_NULL", "TIME_IN_FUTURE"]


def test_skew_holds_rows_until_nothing_older_can_come(storage: Make, writer: Open) -> None:
    place = storage(skew_us=2_000_000)
    w = writer(place)
    w.append(rows((1, 10), (2, 9), (3, 12), (4, 11)))
    assert ids(place) == [2, 1]
    assert w.held_rows == 2
    w.append(rows((5, 7), (6, 20)))
    assert ids(place) == [2, 1, 4, 3]
    w.flush()
    assert ids(place) == [2, 1, 4, 3, 6]
    assert StreamReader(place.child("rejects")).read(0, 1).column("id").to_pylist() == [5]


def test_held_rows_survive_a_writer_that_was_not_closed(storage: Make, writer: Open) -> None:
    place = storage(skew_us=5_000_000)
    first = writer(place)
    first.append(rows((1, 10), (2, 12)))
    first.append(rows((3, 11)))
    assert first._lock is not None
    assert first._lock._handle is not None
    os.close(first._lock._handle)  # as if the process had died
    second = writer(place)
    assert second.held_rows == 3
    second.append(rows((4, 30)))
    assert ids(place) == [1, 3, 2]


def test_a_silent_stream_releases_its_rows(storage: Make, writer: Open, clock: Clock) -> None:
    place = storage(skew_us=5_000_000)
    w = writer(place, idle_release_seconds=3)
    w.append(rows((1, 10)))
    w.release_if_idle()
    assert ids(place) == []
    clock.now += 4_000_000
    w.release_if_idle()
    assert ids(place) == [1]


@examples(60)
@given(
    times=st.lists(st.integers(0, 30), max_size=40),
    skew=st.integers(0, 8),
    cuts=st.lists(st.integers(0, 40), max_size=5),
)
def test_what_is_accepted_does_not_depend_on_how_rows_are_batched(times: list[int], skew: int, cuts: list[int]) -> None:
    array = np.array(times, np.int64)

    def late(bounds: list[int]) -> list[bool]:
        order, found = Order(skew), []
        edges = sorted({0, len(times), *(c for c in bounds if c < len(times))})
        for a, b in itertools.pairwise(edges):
            refused = order.admit(array[a:b], None, None)
            found += refused.get("TIME_WENT_BACK", np.zeros(b - a, np.bool_)).tolist()
        return found

    newest, expected = -(10**9), []
    for t in times:
        expected.append(t < newest - skew)
        newest = max(newest, t)
    assert late(cuts) == late([]) == expected


def test_segments_close_by_size_age_and_parts(storage: Make, writer: Open, clock: Clock) -> None:
    by_parts = storage("parts")
    w = writer(by_parts, segment_parts=4)
    for i in range(9):
        w.append(rows((i, i)))
    w.close()
    assert len(by_parts.child("segments").files()) == 3  # 4 + 4 merged, 1 open
    assert ids(by_parts) == list(range(9))

    by_age = storage("age")
    w = writer(by_age, segment_age_seconds=10)
    w.append(rows((0, 0)))
    clock.now += 11_000_000
    w.append(rows((1, 1)))
    w.close()
    assert len(by_age.child("segments").files()) == 1

    by_size = storage("size")
    w = writer(by_size, segment_bytes=1500)
    for i in range(4):
        w.append(rows((i, i)))
    w.close()
    assert len(by_size.child("segments").files()) < 4
    assert ids(by_size) == [0, 1, 2, 3]


def test_a_reader_that_is_open_does_not_notice_that_parts_are_merged(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_parts=1000)
    for i in range(10):
        w.append(rows((i, i)))
    reader = StreamReader(place)
    assert reader.end().row == 10
    w.close_segment()
    assert reader.read(3, 7).column("id").to_pylist() == [3, 4, 5, 6]


def test_foreign_files_do_not_break_a_read(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 1), (2, 2)))
    w.close()
    segments = Path(place.path) / "segments"
    (segments / "notes.txt").write_text("hello")
    (segments / "12345.tmp").write_bytes(b"half")
    (segments / "seg-zz.arrow").write_bytes(b"")
    assert ids(place) == [1, 2]
    again = writer(place)
    assert again.append(rows((3, 3))) == 3
    assert ids(place) == [1, 2, 3]


def test_parts_left_beside_their_merged_segment_are_read_once(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_parts=1000)
    for i in range(3):
        w.append(rows((i, i)))
    segments = Path(place.path) / "segments"
    copies = {f.name: f.read_bytes() for f in segments.iterdir()}
    w.close_segment()
    for name, data in copies.items():
        (segments / name).write_bytes(data)  # as if the writer had died before it deleted them
    assert ids(place) == [0, 1, 2]
    w.close()
    assert writer(place).next_row == 3
    assert len(list(segments.iterdir())) == 1


@pytest.mark.slow
def test_a_second_process_is_told_who_writes(storage: Make, writer: Open) -> None:
    place = storage()
    held = writer(place)
    code = (
        "import sys; from anabranch.log import Storage, StreamWriter\n"
        "try: StreamWriter(Storage(sys.argv[1]))\n"
        "except Exception as e: print(e)"
    )
    said = subprocess.run([sys.executable, "-c", code, place.path], capture_output=True, text=True, check=True).stdout
    assert said.startswith('STREAM_IS_BEING_WRITTEN stream "s" is being written by process')
    assert f"process {os.getpid()} on " in said
    held.close()


@pytest.mark.slow
def test_the_lock_of_a_dead_process_is_taken_over(storage: Make, writer: Open) -> None:
    place = storage()
    code = (
        "import os, sys; from anabranch.log import Storage, StreamWriter\n"
        "w = StreamWriter(Storage(sys.argv[1])); w.append({'id': [1], 'ts': ['2026-01-01']}); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, place.path], check=False).returncode == -9
    assert writer(place).append(rows((2, 1))) == 2


def test_a_writer_whose_lock_was_taken_is_fenced(storage: Make, writer: Open) -> None:
    place = storage()
    old = writer(place)
    (Path(place.path) / "writer.lock").unlink()
    new = writer(place)
    new.append(rows((1, 1)))
    with pytest.raises(StreamError, match="WRITER_WAS_REPLACED"):
        old.append(rows((2, 2)))
    assert ids(place) == [1]


def test_a_batch_of_a_producer_counts_once(storage: Make, writer: Open) -> None:
    for skew in (0, 1_000_000):
        place = storage(f"skew{skew}", skew_us=skew)
        w = writer(place)
        w.append(rows((1, 1)), producer="p", batch=0)
        w.append(rows((2, 2)), producer="p", batch=1)
        w.append(rows((2, 2)), producer="p", batch=1)
        w.close(release=False)
        w = writer(place)
        w.append(rows((2, 2)), producer="p", batch=1)
        w.append(rows((3, 3)), producer="q", batch=0)
        w.flush()
        assert ids(place) == [1, 2, 3]
        w.close()


def test_retention_removes_old_segments_but_not_what_is_held(storage: Make, writer: Open) -> None:
    place = storage(retain_us=10_000_000)
    w = writer(place, segment_parts=1)
    retention.hold(place, "query", row=2, time=None)
    for i in range(30):
        w.append(rows((i, i * 5)))
    assert ids(place)[0] == 2
    retention.let_go(place, "query")
    w.append(rows((30, 150)))
    assert ids(place) == [28, 29, 30]
    with pytest.raises(StreamError, match="ROWS_ARE_GONE"):
        StreamReader(place).read(0, 5)


def test_retention_keeps_rows_before_those_from_a_time_on(storage: Make, writer: Open) -> None:
    place = storage(retain_us=10_000_000)
    w = writer(place, segment_parts=1)
    retention.hold(place, "query", row=None, time=(1_767_225_600 + 20 * 5) * 1_000_000, before=3)
    for i in range(30):
        w.append(rows((i, i * 5)))
    assert ids(place)[0] == 17
    retention.hold(place, "query", row=25, time=(1_767_225_600 + 25 * 5) * 1_000_000, before=4)
    w.append(rows((30, 150)))
    assert ids(place)[0] == 21


def test_a_failed_write_leaves_nothing_behind_and_can_be_repeated(
    storage: Make, writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 1)))
    import anabranch.log.storage as module

    def full(path: str) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "_sync_file", full)
        with pytest.raises(StreamError, match="DISK_IS_FULL"):
            w.append(rows((2, 2), (3, 9)))
    assert ids(place) == [1]
    assert w.append(rows((2, 2), (3, 9))) == 3
    assert ids(place) == [1, 2, 3]
    assert not [f for f in os.listdir(Path(place.path) / "segments") if f.endswith(".tmp")]


def test_an_append_holds_though_merging_finds_the_disk_full(
    storage: Make, writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = storage()
    w = writer(place, segment_parts=3)
    import anabranch.log.writer as module

    def full_when_merging(segments: Storage, table: pa.Table, *rest: Any) -> Segment:
        if table.num_rows > 1:
            raise StreamError("DISK_IS_FULL", "no space left")
        return write_segment(segments, table, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_segment", full_when_merging)
        for i in range(6):
            assert w.append(rows((i, i))) == i + 1
    assert len(place.child("segments").files()) == 6
    w.append(rows((6, 6)))
    w.close()
    assert len(place.child("segments").files()) == 1
    assert ids(place) == list(range(7))


def test_rows_keep_their_numbers_though_merged_parts_cannot_be_deleted(
    storage: Make, writer: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = storage()
    w = writer(place, segment_parts=3)

    calls = itertools.count()
    real = Storage.delete

    def refuse_now_and_then(self: Storage, name: str) -> None:
        if next(calls) % 2:
            raise PermissionError(name)
        real(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", refuse_now_and_then)
        for i in range(10):
            assert w.append(rows((i, i))) == i + 1
    assert ids(place) == list(range(10))
    for i in range(10, 14):
        w.append(rows((i, i)))
    w.close()
    assert ids(place) == list(range(14))
    assert len(place.child("segments").files()) < 10


def test_retention_leaves_no_part_of_a_merged_segment_behind(storage: Make, writer: Open) -> None:
    place = storage(retain_us=10_000_000)
    w = writer(place, segment_parts=20)
    for i in range(60):
        w.append(rows((i, i * 5)))
    found = ids(place)
    assert found == list(range(found[0], 60))
    assert found[0] >= 20


def test_rejects_whose_making_was_interrupted_are_made_again(storage: Make, writer: Open) -> None:
    place = storage()
    (Path(place.path) / "rejects" / "segments").mkdir(parents=True)
    w = writer(place)
    w.append(rows((1, 5), (2, 1)))
    assert ids(place) == [1]
    assert ids(place.child("rejects")) == [2]


def test_a_heartbeat_moves_time_without_rows(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 1)))
    now = 1_767_225_600_000_000 + 60_000_000
    w.advance(now)
    assert StreamReader(place).end() == End(1, now)
    w.append(rows((2, 30)))
    assert ids(place) == [1]
    w.close()
    w = writer(place)
    w.append(rows((3, 61)))
    assert ids(place) == [1, 3]


def test_wrong_columns_types_and_text_are_refused_whole(storage: Make, writer: Open) -> None:
    w = writer(storage())
    bad: list[tuple[Any, str]] = [
        (
            [{"id": 1, "tss": "2026-01-01"}],
            'COLUMN_NOT_FOUND column "tss" is not in the stream. Hint: did you mean "ts"?',
        ),
        ([{"id": "x", "ts": "2026-01-01"}], "TYPE_MISMATCH"),
        ([{"id": 1.5, "ts": "2026-01-01"}], "TYPE_MISMATCH"),
        ([{"id": 1, "ts": "yesterday"}], "TYPE_MISMATCH"),
        ([{"id": 1, "ts": 12345}], "TYPE_MISMATCH"),
        ([{"id": 2**70, "ts": "2026-01-01"}], "TYPE_MISMATCH"),
        ("text", "DATA_NOT_UNDERSTOOD"),
        ([1, 2], "DATA_NOT_UNDERSTOOD"),
    ]
    for data, said in bad:
        with pytest.raises(DataError) as caught:
            w.append(data)
        assert said in str(caught.value)
    assert w.next_row == 0


@pytest.mark.slow
def test_invalid_utf8_is_refused_and_odd_values_are_kept(tmp_path: Path) -> None:
    from anabranch.log.stream import StreamInfo
    from anabranch.schema import StreamSchema

    place = Storage(str(tmp_path / "t"))
    StreamInfo("t", StreamSchema.of({"x": "STRING", "v": "DOUBLE", "ts": "TIMESTAMP"}, "ts")).create(place)
    w = StreamWriter(place)
    torn = pa.array([b"\xff\xfe"], pa.binary()).view(pa.string())
    with pytest.raises(AnabranchError, match="TYPE_MISMATCH"):
        w.append(pa.table({"x": torn, "ts": pa.array(["2026-01-01"])}))
    big = "x" * 100_000_000
    w.append({"x": [big], "v": [float("nan")], "ts": ["2026-01-01"]})
    w.append({"x": ["'\"\n\0ü"], "v": [float("-inf")], "ts": ["2026-01-02"]})
    table = StreamReader(place).read(0, 2)
    assert len(table.column("x")[0].as_py()) == 100_000_000
    assert table.column("x")[1].as_py() == "'\"\n\0ü"
    assert np.isnan(table.column("v")[0].as_py())


def test_rows_without_a_declared_time_are_stamped_in_order(tmp_path: Path, clock: Clock) -> None:
    from anabranch.log.stream import StreamInfo
    from anabranch.schema import StreamSchema

    place = Storage(str(tmp_path / "t"))
    StreamInfo("t", StreamSchema.of({"id": "BIGINT"})).create(place)
    w = StreamWriter(place, clock=clock)
    w.append({"id": [1]})
    clock.now -= 60_000_000  # the machine's clock is set back
    w.append({"id": [2]})
    assert ids(place) == [1, 2]


def test_any_pyarrow_file_system_will_do(writer: Open) -> None:
    from pyarrow import fs

    from anabranch.log.stream import StreamInfo
    from anabranch.schema import StreamSchema

    memory = fs._MockFileSystem()
    place = Storage("bucket/s", memory)
    StreamInfo("s", StreamSchema.of({"id": "BIGINT", "ts": "TIMESTAMP"}, "ts"), skew_us=1_000_000).create(place)
    w = writer(place)
    w.append(rows((1, 1), (2, 0.5), (3, 5)))
    with pytest.raises(StreamError, match="STREAM_IS_BEING_WRITTEN"):
        writer(place)
    w.close()
    assert ids(place) == [2, 1, 3]
    assert writer(place).append(rows((4, 6))) == 3  # held: 4 may still be overtaken


def test_a_reader_lets_go_of_files_that_are_gone(storage: Make, writer: Open) -> None:
    place = storage(retain_us=10_000_000)
    w = writer(place, segment_parts=1)
    reader = StreamReader(place)
    for i in range(30):
        w.append(rows((i, i * 5)))
        reader.end()
        reader.read(reader.first_row(), i + 1)
    assert {segment.first for segment in reader._open} == {27, 28, 29}

"""What was lost is missed: rows whose file is gone, cut short or changed are an error that names them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.errors import StreamError
from anabranch.log import Storage, StreamReader, StreamWriter, lost
from anabranch.log import reader as reading
from anabranch.log.reached import REACHED
from anabranch.log.segment import Segment
from anabranch.log.writer import Span
from tests.log.conftest import ids, killed, rows

Make = Callable[..., Storage]
Open = Callable[..., StreamWriter]


@pytest.fixture(autouse=True)
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PATIENCE_SECONDS", 0.05)


def fill(writer: StreamWriter, first: int = 0, appends: int = 5) -> None:
    """Ten rows in each segment."""
    for part in range(first // 10, first // 10 + appends):
        writer.append(rows(*((i, i) for i in range(10 * part, 10 * part + 10))))


def segments(place: Storage) -> list[Path]:
    return sorted((Path(place.path) / "segments").iterdir())


def deleted(file: Path) -> None:
    file.unlink()


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def emptied(file: Path) -> None:
    file.write_bytes(b"")


HARM = [deleted, truncated, emptied]


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("which", [0, 2, 4], ids=["the first", "a middle one", "the last"])
def test_a_read_over_a_segment_that_is_lost_names_its_rows(
    harm: Callable[[Path], None], which: int, storage: Make, writer: Open
) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    harm(segments(place)[which])
    reader = StreamReader(place)
    assert (reader.first_row(), reader.end().row) == (0, 50)
    named = f'ROWS_ARE_MISSING rows {which * 10} to {which * 10 + 9} of stream "s" are missing.*Hint: anabranch check'
    with pytest.raises(StreamError, match=named):
        reader.read(0, 50)
    with pytest.raises(StreamError, match=named):
        list(reader.tail(0))
    others = [n for n in range(0, 50, 10) if n != which * 10]
    for first in others:
        assert reader.read(first, first + 10).column("id").to_pylist() == list(range(first, first + 10))


@pytest.mark.parametrize("harm", HARM)
def test_the_numbers_of_a_lost_last_segment_are_not_given_out_again(
    harm: Callable[[Path], None], storage: Make, writer: Open
) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    killed(w)
    harm(segments(place)[-1])
    again = writer(place)
    assert again.lost_end == lost.Loss(40, 50)
    assert again.append(rows((50, 50))) == 51
    reader = StreamReader(place)
    assert reader.read(50, 51).column("id").to_pylist() == [50]
    with pytest.raises(StreamError, match="rows 40 to 49"):
        reader.read(0, 51)
    # Its parts are merged without hiding what is between them.
    again.append(rows((51, 51)))
    again.close_segment()
    with pytest.raises(StreamError, match="rows 40 to 49"):
        StreamReader(place).read(0, 52)


def test_a_late_row_after_a_lost_end_is_still_late(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    deleted(segments(place)[-1])
    again = writer(place)
    again.append(rows((99, 45)))
    assert again.rejected_rows == 1


def test_all_segments_lost_is_not_an_empty_stream(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    for file in segments(place):
        file.unlink()
    with pytest.raises(StreamError, match="rows 0 to 49"):
        ids(place)


def test_parts_that_lie_on_both_sides_of_a_gap_are_never_merged(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    fill(w)
    w.close()
    deleted(segments(place)[2])
    again = writer(place)
    fill(again, 50, 1)
    again.close_segment()
    with pytest.raises(StreamError, match="rows 20 to 29"):
        ids(place)


def test_what_retention_takes_is_no_gap_and_a_lost_first_segment_is_one(storage: Make, writer: Open) -> None:
    place = storage(retain_us=15_000_000)
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    assert ids(place) == list(range(30, 50))
    with pytest.raises(StreamError, match=r"ROWS_ARE_GONE.*retention"):
        StreamReader(place).read(20, 50)
    deleted(segments(place)[0])
    with pytest.raises(StreamError, match="ROWS_ARE_MISSING rows 30 to 39"):
        ids(place)


def test_a_copy_of_a_stream_that_was_being_written_says_what_it_lacks(
    storage: Make, writer: Open, tmp_path: Path
) -> None:
    """A copy lists the parts, the writer merges them, and only what is still there is copied."""
    place = storage()
    w = writer(place)
    fill(w)
    copy = Storage(str(tmp_path / "copy"))
    Path(copy.path, "segments").mkdir(parents=True)
    listed = segments(place)
    w.close_segment()
    w._clear_covered(3)
    for file in listed:
        if file.exists():
            shutil.copy(file, Path(copy.path, "segments"))
    fill(w, 50, 2)
    for name in ("stream.json", REACHED):
        shutil.copy(Path(place.path, name), copy.path)
    with pytest.raises(StreamError, match="ROWS_ARE_MISSING rows 0 to 29"):
        ids(copy)
    with pytest.raises(StreamError, match="ROWS_ARE_MISSING rows 50 to 69"):
        StreamReader(copy).read(30, 70)
    assert StreamReader(copy).read(30, 50).num_rows == 20


@pytest.mark.parametrize("at", range(0, 2000, 97))
def test_a_changed_byte_is_found_wherever_it_is(at: int, storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    file = segments(place)[2]
    data = bytearray(file.read_bytes())
    at %= len(data)
    data[at] ^= 0x10
    file.write_bytes(data)
    reader = StreamReader(place)
    assert reader.read(0, 20).num_rows == 20
    with pytest.raises(StreamError, match='SEGMENT_IS_DAMAGED rows 20 to 29 of stream "s" cannot be read') as caught:
        reader.read(0, 50)
    assert file.name in (caught.value.detail or "")
    assert "check --repair" in (caught.value.hint or "")


def test_a_writer_does_not_go_on_from_a_damaged_last_segment(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    file = segments(place)[-1]
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    for _ in range(2):  # the lock is given back
        with pytest.raises(StreamError, match="SEGMENT_IS_DAMAGED rows 40 to 49"):
            writer(place)


def test_segments_of_an_older_version_have_no_sum_and_are_read(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place, segment_bytes=1)
    fill(w)
    w.close()
    for file in segments(place):
        segment = Segment.named(file.name)
        assert segment is not None
        assert segment.sum is not None
        file.rename(file.with_name(re.sub(r"-[0-9a-f]{16}\.arrow$", ".arrow", file.name)))
    Path(place.path, REACHED).unlink()
    assert ids(place) == list(range(50))
    assert writer(place).append(rows((50, 50))) == 51
    file = segments(place)[1]
    file.write_bytes(b"\0" * file.stat().st_size)
    with pytest.raises(StreamError, match="SEGMENT_IS_DAMAGED rows 10 to 19"):
        ids(place)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("harm", [deleted, emptied, "changed"])
def test_a_lost_arrival_is_missed(which: int, harm: Callable[[Path], None] | str, storage: Make, writer: Open) -> None:
    place = storage(skew_us=100_000_000)
    w = writer(place)
    w.append(rows((0, 0), (1, 150)))  # row 0 is released, so the log has notes; row 1 is held
    w.append(rows((2, 160)))
    w.append(rows((3, 170)))
    killed(w)
    arrivals = sorted((Path(place.path) / "arrivals").iterdir())
    assert len(arrivals) == 3
    if callable(harm):
        harm(arrivals[which])
    else:
        data = bytearray(arrivals[which].read_bytes())
        data[len(data) // 2] ^= 1
        arrivals[which].write_bytes(data)
    for _ in range(2):
        with pytest.raises(StreamError, match='ROWS_ARE_MISSING rows of stream "s" are missing that were appended'):
            writer(place)


def test_arrivals_that_were_released_are_not_missed(storage: Make, writer: Open) -> None:
    place = storage(skew_us=5_000_000)
    for life in range(4):
        w = writer(place)
        for i in range(30):
            w.append(rows((life * 30 + i, life * 30 + i - (i % 3)), (1000 + i, life * 30 + i)))
        killed(w)
    w = writer(place)
    w.close()
    assert len(ids(place)) == 240


def span(start: int, end: int) -> Span:
    from anabranch.log import End

    return {"a": End(start, start)}, {"a": End(end, end)}


def test_what_a_producer_has_taken_in_says_what_is_there_already(storage: Make, writer: Open) -> None:
    place = storage()
    w = writer(place)
    w.append(rows((1, 1)), producer="query", batch=7, span=span(0, 10))
    w.append(rows((2, 2)), producer="query", batch=8, span=span(10, 30))
    killed(w)
    again = writer(place)
    position = again.position("query")
    assert position is not None
    assert list(position["a"]) == [30, 30]
    # The same batches by other numbers, as after a lost checkpoint.
    again.append(rows((2, 2)), producer="query", batch=0, span=span(10, 30))
    again.append(rows((2, 2)), producer="query", batch=1, span=span(10, 20))
    again.append(rows((3, 3)), producer="query", batch=2, span=span(30, 35))
    assert ids(place) == [1, 2, 3]
    with pytest.raises(StreamError, match="BATCH_OVERLAPS"):
        again.append(rows((4, 4)), producer="query", batch=3, span=span(33, 40))

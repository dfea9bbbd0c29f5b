"""A directory that changes while it is listed may hide files; readers look again instead of passing rows over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from anabranch.log import Storage, StreamReader, StreamWriter

from .conftest import rows


@pytest.mark.parametrize("hidden", [-1, 1], ids=["the newest", "one between"])
@pytest.mark.parametrize("lists", [1, 3])
def test_segments_that_a_list_misses_are_looked_for_again(
    hidden: int,
    lists: int,
    storage: Callable[..., Storage],
    writer: Callable[..., StreamWriter],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = storage()
    writing = writer(place, segment_bytes=1)
    for i in range(5):
        writing.append(rows((2 * i, i), (2 * i + 1, i + 0.5)))
        writing.flush()
    reader = StreamReader(place)
    if hidden == -1:
        assert reader.end().row == 10  # it knows how far the stream has come
    every_file, left = Storage.files, [lists]

    def files(self: Storage) -> dict[str, int]:
        found = every_file(self)
        names = sorted(name for name in found if name.startswith("seg-"))
        if names and left[0]:
            left[0] -= 1
            del found[names[hidden]]
        return found

    monkeypatch.setattr(Storage, "files", files)
    reader._seen = None
    assert reader.end().row == 10
    assert left == [0]
    assert reader.read(0, 10, ["id"]).column("id").to_pylist() == list(range(10))
    writing.close()

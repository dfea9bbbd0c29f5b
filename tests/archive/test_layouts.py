"""Whatever a layout does, full reads give every row once and reduced reads give the rows of the lots."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from anabranch.archive.archived import ArchiveReader
from anabranch.archive.declaration import ROW
from anabranch.archive.files import FOOTERS
from anabranch.archive.layouts import COPY, PRIMARY
from anabranch.archive.layouts.on_write_replicate import copy_of
from anabranch.archive.marks import load_marks
from anabranch.errors import StreamError
from anabranch.log.offset import Piece
from tests.archive.life import LAYOUTS, SEED, Life
from tests.sampling import sampled

FRACTIONS = (0.0, 0.0001, 0.05, 1 - 0.9, 0.2, 1 - 0.7, 0.33, 0.6, 1 - 0.2, 0.999, 1.0)
STEPS = 12


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Callable[..., Life]]:
    lives: list[Life] = []

    def make(*layouts: str, **options: Any) -> Life:
        chosen = {name: LAYOUTS[name] for name in layouts}
        lives.append(Life(tmp_path / f"s{len(lives)}", chosen, **options))
        return lives[-1]

    yield make
    for each in lives:
        each.close()


def check(life: Life, archive: str) -> None:
    """One archive against the oracle: all rows, random ranges, reduced reads by row and by key, times."""
    reader, source = life.reader(archive), life.source
    assert reader.first_row() == 0
    assert reader.end().row == life.end
    assert reader.read(0, life.end).equals(life.rows(0, life.end))
    end = reader.archives[0].end
    cuts = sorted({0, life.end, end, min(end + 1, life.end), *source.integers(0, life.end + 1, 3).tolist()})
    for low, high in [(0, life.end), *itertools.pairwise(cuts)]:
        assert reader.read(low, high, ["ts", "k"]).equals(life.rows(low, high).select(["ts", "k"]))
        covers(reader.pieces(low, high), low, high)
        for keep in source.choice(FRACTIONS, 3):
            for by in (None, "k"):
                columns = [["v", "ts"], ["k"], []][int(source.integers(0, 3))]
                got = reader.read_sample(low, high, columns, float(keep), by)
                assert got.equals(life.sample(low, high, columns, float(keep), by)), (low, high, keep, by)
    times = life.times()
    for time in (0, int(times[0]), int(times[-1]), int(times[-1]) + 1, *source.choice(times, 3).tolist()):
        for at in (time, time - 1):
            assert reader.row_at_time(at, life.end) == int(np.searchsorted(times, at, side="left"))


def covers(pieces: list[Piece], low: int, high: int) -> None:
    """They lie end to end."""
    if low < high:
        assert pieces[0].first == low
        assert pieces[-1].end == high
        assert all(a.end == b.first for a, b in itertools.pairwise(pieces))


def step(life: Life, name: str) -> str:
    """Something that may happen to an archive."""
    archiver, source = life.archivers[name], life.source
    what = str(source.choice(["append", "append", "whole", "join", "vacuum", "sweep", "level", "mark"]))
    if what in ("append", "whole"):
        archiver.append(all_rows=what == "append")
    elif what == "join":
        archiver.join_runs(int(source.integers(2, 5)))
    elif what == "vacuum":
        archiver.vacuum(1)
    elif what == "sweep":
        archiver.vacuum(0)
    elif what == "level" and archiver.info.layout == "on_write_replicate":
        change_levels(life, name)
    elif what == "mark":
        life.reader(name).read_sample(0, life.end, ["v"], float(source.choice([0.1, 0.5, 0.9])))
    return what


def change_levels(life: Life, name: str) -> None:
    """A level that is there goes, one that is not comes."""
    from dataclasses import replace

    archiver = life.archivers[name]
    level = int(life.source.choice([20, 40, 55, 70, 90]))
    levels = set(archiver.info.levels)
    changed = replace(archiver.info, levels=tuple(sorted(levels ^ {level})))
    if level in levels:
        archiver.drop_level(changed, level)
    else:
        archiver.add_level(changed, level)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("seed", sampled(range(4), 1, "rows"))
def test_every_row_once_and_every_sample_the_same_whatever_happened(
    live: Callable[..., Life], name: str, seed: int
) -> None:
    life = live(name, seed=seed)
    life.push(int(life.source.integers(1, 200)))
    check(life, name)
    done = []
    for _ in range(STEPS):
        if life.source.random() < 0.7:
            life.push(int(life.source.integers(1, 2500)))
        done.append(step(life, name))
        if life.source.random() < 0.5:
            check(life, name)
    life.archivers[name].append()
    check(life, name)
    life.archivers[name].vacuum(0)
    check(life, name)
    assert life.reader().first_logged_row() > 0, done  # the log has let rows go, so some of that was archive alone


@pytest.mark.slow
def test_archives_of_one_stream_give_the_same_samples_together(live: Callable[..., Life]) -> None:
    """Reads go to whichever archive is cheapest, and parts of one may come from the log."""
    life = live(*LAYOUTS, seed=7)
    for number in range(6):
        life.push(900)
        for index, archiver in enumerate(life.archivers.values()):
            if (number + index) % 2:
                archiver.append()
    reader = life.reader()
    for keep in FRACTIONS:
        for low, high in ((0, life.end), (1234, 4321), (life.end - 50, life.end)):
            for by in (None, "k"):
                assert reader.read_sample(low, high, ["d"], keep, by).equals(life.sample(low, high, ["d"], keep, by))


@pytest.mark.slow
def test_a_reader_that_stays_open_sees_what_comes_and_misses_nothing_that_goes(live: Callable[..., Life]) -> None:
    """Copies are dropped, made anew and vacuumed under a reader that never closes."""
    life = live("replicate", "modify", seed=3)
    life.push(4000)
    for archiver in life.archivers.values():
        archiver.append()
    readers = {name: life.reader(name) for name in life.archivers}
    for _ in range(2):
        life.push(500)
        for name, archiver in life.archivers.items():
            archiver.append()
            for reader in (readers[name], life.reader(name)):
                wanted = life.sample(0, 4000, ["v"], 0.1)
                assert reader.read_sample(0, 4000, ["v"], 0.1).equals(wanted)
            archiver.vacuum(0)
        rebuild(life)
        for name, reader in readers.items():
            for keep in (0.05, 0.1, 0.5):
                got = reader.read_sample(0, life.end, ["v"], keep)
                assert got.equals(life.sample(0, life.end, ["v"], keep)), name


def rebuild(life: Life) -> None:
    """The same copies again, as other tables."""
    from dataclasses import replace

    archiver = life.archivers["replicate"]
    with_level = archiver.info
    archiver.drop_level(replace(with_level, levels=(20, 40, 70)), 90)
    archiver.add_level(with_level, 90)
    often = life.reader("modify")
    for _ in range(16):
        often.read_sample(0, life.end, ["v"], 0.9)
    life.archivers["modify"].vacuum(0)  # missed too often: the copy goes
    life.reader("modify").read_sample(0, life.end, ["v"], 0.5)
    life.archivers["modify"].vacuum(0)


@pytest.mark.parametrize("compression", ["none", "snappy", "lz4", "gzip", "zstd"])
def test_every_compression_gives_the_same_rows(live: Callable[..., Life], compression: str) -> None:
    life = live("randomize", "replicate", compression=compression)
    life.push(1000)
    for name, archiver in life.archivers.items():
        archiver.append()
        check(life, name)


def test_rows_that_are_not_in_the_archive_are_an_error_not_silently_missing(live: Callable[..., Life]) -> None:
    life = live("plain")
    life.push(100)
    life.archivers["plain"].append()
    archive = life.reader("plain").archives[0]
    reads: list[Callable[[], object]] = [
        lambda: archive.read(50, 101, ["v"]),
        lambda: archive.read_sample(50, 101, ["v"], 0.5),
        lambda: archive.read_sample(-1, 50, ["v"], 0.5),
    ]
    for read in reads:
        with pytest.raises(StreamError) as caught:
            read()
        assert caught.value.name == "ROWS_ARE_GONE"
    assert archive.read(50, 50, ["v"]).num_rows == 0


# -- bytes -------------------------------------------------------------------------------------------


def touched(archive: ArchiveReader, keep: float, columns: list[str], end: int, by: str | None = None) -> int:
    """The bytes that a reduced read takes, with the footers known."""
    archive.read_sample(0, end, columns, keep, by)
    before = archive.bytes_read
    archive.read_sample(0, end, columns, keep, by)
    return archive.bytes_read - before


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """Two runs of 200,000 rows in 100 blocks, by row and by key."""
    layouts = {
        "randomize": ("randomize_then_sort", {"blocks": "100"}, None),
        "by_key": ("randomize_then_sort", {"blocks": "100"}, "v"),
        "plain": ("plain", {}, None),
    }
    life = Life(tmp_path_factory.mktemp("large") / "s", layouts, run_rows=200_000, segment_bytes=1 << 24)
    life.push(400_000)
    for archiver in life.archivers.values():
        archiver.append()
    yield life
    life.close()


@pytest.mark.slow
@pytest.mark.parametrize("keep", [0.01, 0.015, 0.1, 0.25, 0.5, 0.75, 0.99])
def test_randomize_then_sort_touches_no_more_than_the_fraction_and_two_percent(large: Life, keep: float) -> None:
    archive = large.reader("randomize").archives[0]
    columns = ["d", "v", "ts"]
    full = touched(archive, 1.0, columns, large.end)
    assert touched(archive, keep, columns, large.end) <= (keep + 0.02) * full
    estimated = archive.sample_bytes(0, large.end, columns, keep)
    assert estimated == pytest.approx(touched(archive, keep, columns, large.end), rel=0.5)


def test_randomize_then_sort_by_a_column_saves_for_whole_keys_only(large: Life) -> None:
    archive = large.reader("by_key").archives[0]
    full = touched(archive, 1.0, ["d"], large.end, "v")
    assert touched(archive, 0.1, ["d"], large.end, "v") <= 0.2 * full  # keys are few, so blocks are uneven
    assert touched(archive, 0.1, ["d"], large.end) >= 0.5 * full
    sample = archive.read_sample(0, large.end, ["v"], 0.1, "v")
    keys = set(sample.column("v").to_pylist())
    of_those = sum(value in keys for value in large.rows(0, large.end).column("v").to_pylist())
    assert sample.num_rows == of_those


def test_plain_reads_everything_at_every_reduction(large: Life) -> None:
    archive = large.reader("plain").archives[0]
    assert touched(archive, 0.01, ["d"], large.end) == touched(archive, 0.99, ["d"], large.end)


def test_footers_count_once(large: Life) -> None:
    archive = large.reader("randomize").archives[0]
    for run in archive.runs:
        FOOTERS._kept.pop(archive.storage.child(PRIMARY).full(run.path), None)
    again = touched(archive, 0.1, ["d"], large.end)
    assert archive.bytes_read > 2 * again


# -- copies ------------------------------------------------------------------------------------------


def chosen(archive: ArchiveReader, keep: float, by: str | None = None) -> set[str]:
    return {archive._choose(run, keep, by).table for run in archive.runs}


@pytest.mark.parametrize(
    ("reduction", "table"),
    [
        (0.0, PRIMARY),
        (0.1, PRIMARY),
        (0.2, copy_of(20)),
        (0.3, copy_of(20)),
        (0.4, copy_of(40)),
        (0.69, copy_of(40)),
        (0.7, copy_of(70)),
        (0.9, copy_of(90)),
        (0.95, copy_of(90)),
    ],
)
def test_on_write_replicate_takes_the_next_larger_copy(live: Callable[..., Life], reduction: float, table: str) -> None:
    life = live("replicate")
    life.push(5000)
    life.archivers["replicate"].append()
    archive = life.reader("replicate").archives[0]
    assert chosen(archive, 1 - reduction) == {table}
    assert chosen(archive, 1 - reduction, "k") == {PRIMARY}  # by key, copies of rows are no help


@pytest.mark.slow
def test_every_level_of_on_write_replicate_serves_its_own_reduction(live: Callable[..., Life]) -> None:
    """1 − 0.7 is not 0.3 to a computer."""
    life = live("replicate")
    life.push(200)
    archiver = life.archivers["replicate"]
    archiver.append()
    from dataclasses import replace

    for level in (1, 7, 30, 35, 45, 58, 70, 80, 99):
        changed = replace(archiver.info, levels=(level,))
        archiver.add_level(changed, level)
        archive = life.reader("replicate").archives[0]
        for keep in (1 - level / 100, (100 - level) / 100):
            assert chosen(archive, keep) == {copy_of(level)}, (level, keep)
            assert archive.read_sample(0, 200, ["v"], keep).equals(life.sample(0, 200, ["v"], keep))
        archiver.drop_level(replace(archiver.info, levels=()), level)


def test_samples_of_copies_nest(live: Callable[..., Life]) -> None:
    life = live("replicate")
    life.push(5000)
    life.archivers["replicate"].append()
    reader = life.reader("replicate")
    samples = [set(reader.read_sample(0, 5000, [], keep).column(ROW).to_pylist()) for keep in (0.1, 0.3, 0.6, 0.8, 1.0)]
    assert all(small < large for small, large in itertools.pairwise(samples))


@pytest.mark.slow
def test_copies_cut_otherwise_are_put_right_by_the_next_join(live: Callable[..., Life]) -> None:
    """A process died after it had committed the copies and before the table of all rows."""
    life = live("replicate")
    archiver = life.archivers["replicate"]
    life.push(500)
    archiver.append()
    life.push(300)
    die_before_commit_of(life, PRIMARY)
    life.push(400)
    archiver.append()
    assert chosen(life.reader("replicate").archives[0], 0.1) == {copy_of(90), PRIMARY}
    check(life, "replicate")
    archiver.join_runs(99)
    assert chosen(life.reader("replicate").archives[0], 0.1) == {copy_of(90)}
    check(life, "replicate")
    rows = [sum(run.rows for run in t.runs) for t in life.reader("replicate").archives[0].tables().values()]
    assert rows == [life.end] * 5


def die_before_commit_of(life: Life, table: str) -> None:
    """An append that ends with all commits but one."""
    archiver = life.archivers["replicate"]
    from anabranch.archive.table import RunTable

    commit = RunTable.commit

    def dies(self: RunTable, *arguments: Any, **named: Any) -> None:
        if self.storage.path.endswith(f"/{table}"):
            raise KeyboardInterrupt
        commit(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunTable, "commit", dies)
        with pytest.raises(KeyboardInterrupt):
            archiver.append()


# -- on_read_modify ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_on_read_modify_first_read_marks_vacuum_copies_later_reads_take_the_copy(live: Callable[..., Life]) -> None:
    life = live("modify", run_rows=20_000, segment_bytes=1 << 20)
    life.push(40_000)
    archiver = life.archivers["modify"]
    archiver.append()
    archive = life.reader("modify").archives[0]
    full = touched(archive, 1.0, ["d", "v"], life.end)
    assert load_marks(archive.storage).living == {}  # a full read leaves no marks

    assert touched(archive, 0.1, ["d", "v"], life.end) == full
    assert load_marks(archive.storage).living == {0: 0.1, 20_000: 0.1}
    assert archiver.vacuum(1)["runs_copied"] == 2

    archive.refresh()
    assert chosen(archive, 0.1) == {COPY}
    assert touched(archive, 0.1, ["d", "v"], life.end) < 0.15 * full
    assert touched(archive, 0.05, ["d", "v"], life.end) < 0.15 * full
    # More than lives: the original.
    assert chosen(archive, 0.11) == chosen(archive, 1.0) == {PRIMARY}
    assert archive.read_sample(0, life.end, ["v"], 0.3).equals(life.sample(0, life.end, ["v"], 0.3))

    life.push(20_000)  # new rows go to both
    archiver.append()
    archive.refresh()
    assert [run.rate for run in archive.tables()[COPY].runs] == [0.1, 0.1, 1.0]
    check(life, "modify")


def test_on_read_modify_purges_its_copy_in_place_as_reads_get_smaller(live: Callable[..., Life]) -> None:
    life = live("modify")
    life.push(6000)
    archiver = life.archivers["modify"]
    archiver.append()
    for keep in (0.5, 0.2):
        life.reader("modify").read_sample(0, life.end, ["v"], keep)
        archiver.vacuum(0)
        assert {run.rate for run in life.reader("modify").archives[0].tables()[COPY].runs} == {keep}
    check(life, "modify")


@pytest.mark.slow
def test_on_read_modify_makes_its_copy_anew_past_the_threshold(live: Callable[..., Life]) -> None:
    life = live("modify")
    life.push(6000)
    archiver = life.archivers["modify"]
    archiver.append()
    life.reader("modify").read_sample(0, life.end, ["v"], 0.1)
    archiver.vacuum(0)
    for _ in range(8):  # half of them the copy can serve: not past the threshold
        life.reader("modify").read_sample(0, life.end, ["v"], 0.1)
        life.reader("modify").read_sample(0, life.end, ["v"], 0.4)
    assert load_marks(archiver._storage).missed == 0.5
    archiver.vacuum(0)
    assert chosen(life.reader("modify").archives[0], 0.1) == {COPY}

    for _ in range(8):
        life.reader("modify").read_sample(0, life.end, ["v"], 0.4)
    archiver.vacuum(0)
    archive = life.reader("modify").archives[0]
    assert chosen(archive, 0.1) == {PRIMARY}
    assert load_marks(archive.storage).living == {}

    life.reader("modify").read_sample(0, life.end, ["v"], 0.4)
    archiver.vacuum(0)
    archive = life.reader("modify").archives[0]
    assert chosen(archive, 0.4) == {COPY}
    check(life, "modify")


@pytest.mark.slow
def test_a_copy_that_was_dying_when_the_process_did_is_made_anew(live: Callable[..., Life]) -> None:
    life = live("modify")
    life.push(6000)
    archiver = life.archivers["modify"]
    archiver.append()
    life.reader("modify").read_sample(0, life.end, ["v"], 0.1)
    archiver.vacuum(0)
    for leftover in ("copy-new", "copy-old"):
        life.storage.child("archives", "modify", leftover, "_delta_log").make()
    for keep, times in ((0.9, 20), (0.2, 1)):
        for _ in range(times):
            life.reader("modify").read_sample(0, life.end, ["v"], keep)
        archiver.vacuum(0)
    assert chosen(life.reader("modify").archives[0], 0.2) == {COPY}
    check(life, "modify")


def test_a_reader_that_may_not_write_reads_without_a_mark(live: Callable[..., Life]) -> None:
    life = live("modify")
    life.push(500)
    life.archivers["modify"].append()
    (Path(life.archivers["modify"]._storage.path) / "marks").write_text("in the way")
    assert life.reader("modify").read_sample(0, 500, ["v"], 0.1).equals(life.sample(0, 500, ["v"], 0.1))


def test_lots_are_of_the_stream_not_of_an_archive(live: Callable[..., Life]) -> None:
    life = live("plain", "randomize")
    life.push(10)
    assert {archiver.info.seed for archiver in life.archivers.values()} == {SEED}
    assert life.reader().seed == SEED
    assert life.reader("plain").read_sample(0, 10, ["k"], 0.5).schema.names == [ROW, "k"]
    assert isinstance(life.reader().read(0, 10), pa.Table)


def test_a_copy_that_is_dropped_during_a_look_is_not_there(
    live: Callable[..., Life], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vacuumer drops it while somebody else reads its log."""
    life = live("modify")
    life.push(2000)
    life.archivers["modify"].append()
    life.reader("modify").read_sample(0, life.end, ["v"], 0.5)
    life.archivers["modify"].vacuum(0)
    (archive,) = life.reader("modify").archives
    assert COPY in archive.tables()
    copy = archive.storage.child(COPY)
    look = DeltaTable.transaction_version

    def dropped(table: DeltaTable, application: str) -> int | None:
        if copy.exists():
            copy.delete_all()
        return look(table, application)

    archive.tables()[COPY]._seen = None
    archive.tables()[COPY]._delta = None
    monkeypatch.setattr(DeltaTable, "transaction_version", dropped)
    archive.refresh()
    assert COPY not in archive.tables()
    assert archive.read_sample(0, life.end, ["v"], 0.5).equals(life.sample(0, life.end, ["v"], 0.5))

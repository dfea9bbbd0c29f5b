"""A look through the snapshots of a table."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.log.findings import Finding, Seen
from anabranch.log.reader import StreamReader
from anabranch.log.storage import Storage
from anabranch.log.sums import sum_of
from anabranch.tables.snapshots import PLACE, Snapshot, snapshots_of


def check_snapshots(changes: Storage, name: str, seen: Seen) -> Iterator[Finding]:
    """What is wrong with the snapshots beside a log of changes."""
    storage = changes.child(PLACE)
    whole: list[Snapshot] = []
    for file, size in sorted(storage.files().items()):
        snapshot = Snapshot.named(file)
        if snapshot is None:
            continue
        seen(size)
        try:
            if size == snapshot.size and sum_of(storage, file) == snapshot.sum:
                whole.append(snapshot)
                continue
        except FileNotFoundError:  # the writer has let go of it
            continue
        means = f'a snapshot of "{name}" up to change {snapshot.row} is not what was written'
        if is_covered(changes, [*whole, *(s for s in snapshots_of(changes) if s != snapshot)]):
            yield Finding("file damaged", storage.full(file), means, name, None, "deletes it",
                          lambda file=file: storage.delete(file))  # type: ignore[misc]  # fmt: skip
        else:
            yield Finding("file damaged", storage.full(file), means, name)
    if not is_covered(changes, snapshots_of(changes)):
        means = f'the changes that are left of "{name}" begin where no snapshot of its rows is'
        yield Finding("rows missing", storage.path, means, name)


def is_covered(changes: Storage, snapshots: list[Snapshot]) -> bool:
    """Whether the rows of the table follow from what is there."""
    first = StreamReader(changes).first_row()
    return first == 0 or any(snapshot.row >= first for snapshot in snapshots)


def survives(changes: Storage, row: int) -> bool:
    """Whether the rows of a table are known without the changes before a row."""
    return any(snapshot.row >= row for snapshot in snapshots_of(changes))

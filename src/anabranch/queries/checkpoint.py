"""Where a standing query goes on: its answers' own log says how far it has come, Spark's checkpoint is bookkeeping.

With every answer the log notes up to where the streams were taken in for it (`StreamWriter.append(…, span=…)`). Before
Spark is started the checkpoint is looked at: one that is lost, not whole (Spark does not force its files to disk), or
contradicts the answers is put aside, and a fresh one begins where the answers end. A query whose micro-batches have
answered nothing since goes on from what its progress says, if that speaks of the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.engine.options import AGAIN, BEGIN
from anabranch.errors import QueryError
from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset, offsets_from_json, offsets_to_json

_ASIDE = "checkpoint-aside"

Position = Mapping[str, Offset]


class Checkpoint(NamedTuple):
    """What Spark has written down: where its newest micro-batch begins and ends; `problem` is why it is of no use."""

    start: Position | None = None
    end: Position | None = None
    number: int = -1
    problem: str | None = None


class Counted(NamedTuple):
    """What the query has counted: the number of its last micro-batch, and where that ended."""

    number: int
    end: Position


class Answered(NamedTuple):
    """What the log of answers says: `position` is up to where streams are answered, None if it does not say.

    `batch` is the last micro-batch by number, all that older versions have noted; `lost_end` that its newest
    answers are missing.
    """

    position: Position | None = None
    batch: int = -1
    lost_end: bool = False


def look_at(checkpoint: Storage) -> Checkpoint:
    """What there is of a checkpoint."""
    numbers, ended = (_numbers(checkpoint.child(log)) for log in ("offsets", "commits"))
    if not numbers:
        return Checkpoint(beginning_of(checkpoint), problem="its offsets are lost" if ended else None)
    newest = numbers[-1]
    start, end = ({} if n < 0 else _offsets(checkpoint, n) for n in (newest - 1, newest))
    state = Checkpoint(start, end, newest)
    if not isinstance(checkpoint.read_json("metadata"), dict):
        return state._replace(problem="its metadata is lost")
    if end is None or start is None:
        return state._replace(problem=f"its offsets of micro-batch {newest if end is None else newest - 1} are lost")
    if ended and _lines(checkpoint.child("commits"), ended[-1]) is None:
        return state._replace(problem=f"its note that micro-batch {ended[-1]} ended is not whole")
    if (newest and not ended) or (ended and ended[-1] not in (newest - 1, newest)):
        last = f"micro-batch {ended[-1]} is the last that ended" if ended else "none has ended"
        return state._replace(problem=f"it has begun micro-batch {newest} and {last}")
    return state._replace(start=start if newest else beginning_of(checkpoint) or {})


def beginning_of(checkpoint: Storage) -> dict[str, Offset] | None:
    """Where a checkpoint begins that is not a query's first."""
    said = checkpoint.read_json(BEGIN)
    return offsets_from_json(said) if isinstance(said, dict) else None


def contradiction(checkpoint: Checkpoint, answered: Answered, counted: Counted | None = None) -> str | None:
    """Why a checkpoint cannot be gone on with, if so."""
    if checkpoint.problem is not None:
        return checkpoint.problem
    if counted is not None and checkpoint.end is not None:
        said = {checkpoint.number: checkpoint.end, checkpoint.number - 1: checkpoint.start}.get(counted.number)
        if said and not (_is_before(said, counted.end) and _is_before(counted.end, said)):
            return f"it says of micro-batch {counted.number} something other than was counted"
    if answered.lost_end:
        return "the newest answers are lost, and are computed again"
    if checkpoint.end is None:
        if checkpoint.start is not None and _is_before(answered.position or {}, checkpoint.start):
            return None  # it begins there, and has not yet
        return None if answered.position is None and answered.batch < 0 else "it is lost"
    if answered.position is None:
        return (
            f"it ends with micro-batch {checkpoint.number}, answered is {answered.batch}"
            if checkpoint.number < answered.batch
            else None
        )
    if not _is_before(answered.position, checkpoint.end):
        return "it does not go as far as the answers do"
    start = checkpoint.start or {}
    if _is_before(checkpoint.end, answered.position) or _is_before(answered.position, start):
        return None
    return "its newest micro-batch is answered in part"


def cut_anew(checkpoint: Storage, state: Checkpoint, answered: Answered, counted: Counted | None) -> None:
    """Let the newest micro-batch end elsewhere if it has not ended and answered nothing.

    It may have failed for rows that were changed since: with these it goes on.
    """
    if state.end is None or state.number in _numbers(checkpoint.child("commits")):
        return
    if counted is not None and counted.number >= state.number:
        return
    if answered.position is None or _is_before(answered.position, state.start or {}):
        for name in (str(state.number), f".{state.number}.crc"):
            checkpoint.child("offsets").delete(name)


def ends_after(checkpoint: Storage, position: Position | None) -> list[Position] | None:
    """Where the micro-batches after a position (None: all) have ended; None if not all of that is known."""
    numbers, begins = _numbers(checkpoint.child("offsets")), beginning_of(checkpoint)
    known = [_offsets(checkpoint, number) for number in numbers]
    ends: list[Position] = [end for end in known if end is not None]
    if len(ends) < len(known) or numbers != list(range(numbers[0] if numbers else 0, (numbers or [-1])[-1] + 1)):
        return None
    ends += [end for end in map(offsets_from_json, again_of(checkpoint)) if not (ends and _is_before(end, ends[-1]))]
    if position is None:
        return ends if begins is None and numbers[:1] in ([], [0]) else None
    here = [number for number, end in enumerate(ends) if _is_same(end, position)]
    if here:
        return ends[here[-1] + 1 :]
    return ends if begins is not None and _is_same(begins, position) and numbers[:1] in ([], [0]) else None


def again_of(checkpoint: Storage) -> list[dict[str, Any]]:
    """Where the micro-batches of a checkpoint end that are to end as they did before."""
    said = checkpoint.read_json(AGAIN)
    return said if isinstance(said, list) else []


def begin_afresh(query: Storage, at: Position | None, again: Sequence[Position] = ()) -> None:
    """Put the checkpoint aside, and have the next begin at a position (None: where a new query begins).

    `again`: where its first micro-batches end.
    """
    checkpoint = query.child("checkpoint")
    if checkpoint.exists():
        query.child(_ASIDE).delete_all()
        query.filesystem.move(checkpoint.path, query.full(_ASIDE))
    if at is not None:
        checkpoint.make()
        checkpoint.write_json(BEGIN, offsets_to_json(at))
    if again:
        checkpoint.make()
        checkpoint.write_json(AGAIN, [offsets_to_json(end) for end in again])


def refuse(name: str, why: str, answered: Answered) -> None:
    """An error where nobody knows how far the query has come."""
    if answered.position is None and answered.batch >= 0:
        raise QueryError(
            "CHECKPOINT_IS_LOST",
            f'query "{name}" cannot go on: {why}, and its answers do not say up to where they go',
            detail="an older version wrote them",
            hint="DROP QUERY it and create it again, which computes its answers anew",
        )


def mend_ingest(checkpoint: Storage, name: str, appended: int) -> None:
    """Before an ingestion goes on: what a loss of power left half-written is removed, a lost checkpoint refused.

    `appended` is the last micro-batch that is in the stream, -1 if none is. Its source keeps no position that the
    stream could tell of, so here Spark's checkpoint is all there is: its offsets are forced to disk before rows
    are appended, and the newest may be missing only where nothing was.
    """
    ended = _numbers(checkpoint.child("commits"))
    if ended and not _is_whole(checkpoint.child("commits"), ended[-1]):
        checkpoint.child("commits").delete(str(ended[-1]))
    begun = _numbers(checkpoint.child("offsets"))
    if begun and begun[-1] > appended and not _is_whole(checkpoint.child("offsets"), begun[-1]):
        checkpoint.child("offsets").delete(str(begun.pop()))
    newest = begun[-1] if begun and _is_whole(checkpoint.child("offsets"), begun[-1]) else -1
    if newest < appended or (begun and not checkpoint.read_bytes("metadata")):
        raise QueryError(
            "CHECKPOINT_IS_LOST",
            f'ingestion "{name}" has appended up to micro-batch {appended}, its checkpoint goes up to {newest}',
            detail=f"{checkpoint.path} is lost or not whole, and nobody else knows where its source was",
            hint="put the directory back from a copy; or ingest under another name, which reads the source anew and "
            "appends rows that are there already again",
        )


def _is_whole(log: Storage, number: int) -> bool:
    """Whether a file of Spark's has a version and something behind it."""
    lines = (log.read_bytes(str(number)) or b"").splitlines()
    return len(lines) > 1 and lines[0].startswith(b"v")


def _is_before(a: Position, b: Position) -> bool:
    """Whether a position is at or before another in every stream."""
    return all(name in b and offset.row <= b[name].row and offset.time <= b[name].time for name, offset in a.items())


def _is_same(a: Position, b: Position) -> bool:
    """Whether two positions are the same place in every stream."""
    return a.keys() == b.keys() and all(offset.place == b[name].place for name, offset in a.items())


def _numbers(log: Storage) -> list[int]:
    return sorted(int(name) for name in log.files() if name.isdigit())


def _lines(log: Storage, number: int) -> list[str] | None:
    """The lines of a file of Spark's: a version, and JSON; None if it is not whole."""
    try:
        lines = (log.read_bytes(str(number)) or b"").decode().strip().splitlines()
        for line in lines[1:]:
            json.loads(line)
    except ValueError:
        return None
    return lines if len(lines) > 1 and lines[0].startswith("v") else None


def _offsets(checkpoint: Storage, number: int) -> dict[str, Offset] | None:
    lines = _lines(checkpoint.child("offsets"), number)
    last: Any = json.loads(lines[-1]) if lines is not None and len(lines) > 2 else None
    try:
        offsets = offsets_from_json(last)
    except (AttributeError, TypeError):
        return None
    whole = all(isinstance(part, int) for offset in offsets.values() for part in offset[:3])
    return offsets if whole else None

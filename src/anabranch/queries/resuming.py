"""Where a member goes on: what its answers, its counts and Spark's checkpoint say must agree (`queries.checkpoint`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.errors import QueryError, StreamError
from anabranch.log import lost, retention
from anabranch.log.lost import Loss
from anabranch.log.storage import Storage
from anabranch.operators.base import Inputs
from anabranch.operators.offset import Offset
from anabranch.queries import checkpoint
from anabranch.queries.member import Member
from anabranch.queries.sink import StreamSink


def go_on(member: Member, sink: StreamSink) -> dict[str, Offset] | None:
    """See to it that the checkpoint agrees with the answers; gives where a fresh one begins, if it is one."""
    _agree(member, sink)
    return checkpoint.beginning_of(member.storage.child("checkpoint"))


def place_of(member: Member, sink: StreamSink) -> dict[str, Offset]:
    """How far a member has come that does not run."""
    _agree(member, sink)
    progress, position = member.progress, sink.position()
    at = progress.done() if progress.speaks_of(sink.rows, position or {}) else position
    if at is None:
        at = checkpoint.beginning_of(member.storage.child("checkpoint"))
    return member.operator.beginning(Inputs(member.readers())) if at is None else at


def _agree(member: Member, sink: StreamSink) -> None:
    progress = member.progress
    position, missing = sink.position(), sink.missing(progress.counts.answers or 0)
    answered = checkpoint.Answered(position, sink.last_batch(), missing is not None)
    state = checkpoint.look_at(member.storage.child("checkpoint"))
    speaks = missing is None and progress.speaks_of(sink.rows, position or {})
    counted = checkpoint.Counted(progress.counts.last_batch, progress.done()) if speaks else None
    if state.end is not None and set(state.end) != set(member.inputs):
        state = state._replace(problem="it speaks of other streams")
    why = checkpoint.contradiction(state, answered, counted) or _given_up(member, state.end or {})
    if why is None:
        if member.operator.is_cut_anew:
            checkpoint.cut_anew(member.storage.child("checkpoint"), state, answered, counted)
        return
    checkpoint.refuse(member.name, why, answered)
    again = () if missing is None else _as_before(member, missing, position)
    at = progress.done() if speaks else position
    if at is not None:
        at = {name: offset._replace(row=max(offset.row, _first_left(member, name))) for name, offset in at.items()}
        _refuse_if_gone(member, at)
    checkpoint.begin_afresh(member.storage, at, again)
    for folder in member.operator.expendable(Storage(member.scratch)):
        folder.delete_all()  # it may be of micro-batches that now are cut in another way
    if missing is not None:
        progress.tell("answers_were_lost", f"{missing} of the answers were lost and are computed again")
        sink.begin_again()
    text = f"Spark's checkpoint was put aside: {why}; the query goes on from its answers"
    progress.tell("checkpoint_was_renewed", text)


def _first_left(member: Member, stream: str) -> int:
    """The first row of a stream of which rows were lost and given up, else 0."""
    storage = member.catalog.stream_storage(stream)
    return lost.kept_from(storage) or 0 if lost.losses(storage) else 0


def _given_up(member: Member, at: Mapping[str, Offset]) -> str | None:
    """Which rows that are still to be taken in were given up with what was lost, if any."""
    for name, offset in at.items():
        if offset.row < (first := _first_left(member, name)):
            return f'{Loss(offset.row, first)} of stream "{name}" were lost and given up'
    return None


def _as_before(member: Member, missing: Loss, position: Mapping[str, Offset] | None) -> Sequence[Mapping[str, Offset]]:
    """Where micro-batches have to end for lost answers to come again; nothing where they come wherever these end.

    They get their numbers again only if they are sure to be the same.
    """
    if member.operator.answer_key:
        ends = checkpoint.ends_after(member.storage.child("checkpoint"), position)
        if ends is not None:
            return ends
        detail = "others might come in their place: where micro-batches ended from which they were made is lost, too"
    else:
        known = [*(position or {}).values(), *member.progress.done().values()]
        if all(offset.every == 1 and offset.keep == 1 for offset in known):
            return ()
        detail = "others might come in their place: it answers some of its windows, or from part of history"
    raise StreamError(
        "ROWS_ARE_MISSING",
        f'{missing} of the answers of query "{member.name}" are missing',
        detail=detail,
        hint="DROP QUERY it and create it again",
    )


def _refuse_if_gone(member: Member, at: Mapping[str, Offset]) -> None:
    """An error if rows that are needed to go on from a position were removed by retention since."""
    for name, floor in member.operator.needs(at).items():
        # Of a host some members may be in history still.
        history = member.operator.reads_history or member.operator.members_list is not None
        reader = member.catalog.open_stream(name, history=history)
        reader.refresh()
        first = reader.first_row()
        if first == 0 or _first_left(member, name) == first:
            continue  # nothing was removed, or someone has agreed to go on without
        if floor.row is not None and first > max(floor.row - floor.before, 0):
            raise _cannot_go_on(member, name, at[name])
        if floor.time is not None and not _is_held(member, name, floor.time):
            oldest = reader.read(first, first + 1, [reader.time_column]).column(0) if first < reader.end().row else []
            if not len(oldest) or oldest[0].value > floor.time:
                raise _cannot_go_on(member, name, at[name])


def _is_held(member: Member, stream: str, time: int) -> bool:
    """Whether retention has kept all rows from a time on for the member."""
    held = retention.held(member.catalog.stream_storage(stream), member.name)
    return held is not None and held.get("time") is not None and held["time"] <= time


def _cannot_go_on(member: Member, stream: str, at: Offset) -> QueryError:
    return QueryError(
        "CHECKPOINT_IS_LOST",
        f'query "{member.name}" cannot go on from row {at.row} of stream "{stream}", where its answers end',
        detail="Spark's checkpoint is lost, and rows that it needs from there on were removed by RETAIN",
        hint="DROP QUERY it and create it again: it begins with the rows there are",
    )

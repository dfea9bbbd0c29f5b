"""What is still to be done with answers of a host's members before they are answers: their rest in Spark SQL.

The rows of all members with a rest are given to the engine at once. Where it says that it cannot, one of them is to
blame: they are asked in halves until it is known which, and the others lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ipc

from anabranch.engine.protocol import Engine
from anabranch.engine.rests import Unfinished
from anabranch.errors import AnabranchError
from anabranch.log.slices import SCHEMA, UNFINISHED, Index, Payload, index_of, sliced
from anabranch.log.storage import Storage
from anabranch.operators.together.roster import Roster
from anabranch.schema import StreamSchema
from anabranch.sql.standing.rest import Rest, rest_of

Failures = dict[int, str]
"""Why members cannot go on, by number."""
_LogRow = tuple[bytes, Payload]


class _Part(NamedTuple):
    """Rows of one member in one row of the log."""

    member: int
    unfinished: Unfinished


class Finishing:
    """Finishes the answers of one host's members; `roster` tells who they are."""

    def __init__(self, engine: Callable[[], Engine], staging: Storage, roster: Callable[[], Roster]) -> None:
        self._engine = engine
        self._staging = staging
        self._roster = roster
        self._known: dict[int, tuple[Rest, pa.Schema]] = {}

    def finish(self, rows: pa.Table) -> tuple[pa.Table, Failures]:
        """Rows of the log with all answers finished, without those of members that fail."""
        indices = [index_of(data.as_buffer()) for data in rows.column("index")]
        if not any((index[:, 1] == UNFINISHED).any() for index in indices):
            return rows, {}
        made: list[_LogRow | list[_Part]] = []
        for index, payload in zip(indices, rows.column("payload"), strict=True):
            if (index[:, 1] == UNFINISHED).any():
                made += self._apart(index, ipc.open_stream(payload.as_buffer()).read_all())
            else:
                made.append((index.tobytes(), payload.as_py()))
        parts = [part for row in made if isinstance(row, list) for part in row]
        answers, failures = self._finished(parts)
        finished = iter(answers)
        log: list[_LogRow] = []
        for row in made:
            log += [row] if isinstance(row, tuple) else _joined([(part.member, next(finished)) for part in row])
        times = pa.array([0] * len(log)).cast(SCHEMA.arrow.field(0).type)
        columns = [pa.array([row[place] for row in log], pa.binary()) for place in (0, 1)]
        return pa.table([times, *columns], schema=SCHEMA.arrow), failures

    def _apart(self, index: Index, rows: pa.Table) -> list[_LogRow | list[_Part]]:
        """A row of the log that is not finished: what is finished in it, and the rows of the other members."""
        ends = np.cumsum(index[:, 2])
        parts, done = [], []
        for (member, said, count), end in zip(index.tolist(), ends.tolist(), strict=True):
            piece = rows.slice(end - count, count)
            if said == UNFINISHED:
                rest, schema = self._rest(member)
                parts.append(_Part(member, Unfinished(rest, piece, schema)))
            else:
                done.append((member, piece))
        return [*_joined(done), parts]

    def _rest(self, member: int) -> tuple[Rest, pa.Schema]:
        known = self._known.get(member)
        if known is None:
            plan = self._roster().entries[member].data["plan"]
            known = rest_of(plan["residual_sql"]), StreamSchema.from_json(plan["schema"]).arrow
            self._known[member] = known
        return known

    def _finished(self, parts: Sequence[_Part]) -> tuple[list[pa.Table], Failures]:
        """The answers of each part; none of members that fail."""
        outcome = self._engine().finish([part.unfinished for part in parts], self._staging)
        if not isinstance(outcome, AnabranchError):
            return outcome, {}
        members = sorted({part.member for part in parts})
        if len(members) == 1:
            return [part.unfinished.schema.empty_table() for part in parts], {members[0]: str(outcome)}
        middle = members[len(members) // 2]
        low, failed_low = self._finished([part for part in parts if part.member < middle])
        high, failed_high = self._finished([part for part in parts if part.member >= middle])
        lows, highs = iter(low), iter(high)
        answers = [next(lows if part.member < middle else highs) for part in parts]
        return answers, failed_low | failed_high


def _joined(answers: Sequence[tuple[int, pa.Table]]) -> Iterator[_LogRow]:
    """Answers of members in order as rows of the log, one for all that have the same columns."""
    alike: dict[pa.Schema, list[tuple[int, pa.Table]]] = {}
    for member, rows in answers:
        if rows.num_rows:
            alike.setdefault(rows.schema, []).append((member, rows))
    for group in alike.values():
        members, counts = [member for member, _ in group], [rows.num_rows for _, rows in group]
        yield sliced(pa.concat_tables([rows for _, rows in group]), np.array(members), np.array(counts))

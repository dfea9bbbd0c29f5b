"""What stands: a question with its plan, its place in the database, and how far it has come.

It knows nothing of what runs it (`queries.host`), or whether anything does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import pyarrow as pa

from anabranch.catalog import VIEW, Catalog, QueryInfo
from anabranch.errors import QueryError
from anabranch.log import retention
from anabranch.log.offset import End
from anabranch.log.stream import ANSWERS, KEY, REQUIRED, StreamInfo, changes_owner
from anabranch.log.stream import VIEW as OF_VIEW
from anabranch.operators.base import Inputs, Operator
from anabranch.operators.offset import Offset
from anabranch.operators.pace import PACE, Pace
from anabranch.operators.table.states import store_of
from anabranch.queries.progress import Progress
from anabranch.schema import StreamSchema
from anabranch.settings import Settings
from anabranch.tables.declaration import NUMBER
from anabranch.tables.state import State
from anabranch.tables.versions import row_at_version

if TYPE_CHECKING:
    from anabranch.connectors.base import Reader
    from anabranch.sql.standing.standing_plan import StandingPlan

_LONGEST_AHEAD = 1 << 50
"""An answer is at most this much (µs) further in time than the streams it is made from."""

Ends = dict[str, End]


class Member:
    """A standing query as data, and what can be read off it; `progress` counts while this process runs it."""

    def __init__(self, info: QueryInfo, plan: StandingPlan, catalog: Catalog, settings: Settings) -> None:
        self.info = info
        self.plan = plan
        self.catalog = catalog
        self.settings = settings
        self.storage = catalog.query_storage(info.name)
        self.progress = Progress(self.storage)
        self._due: tuple[dict[str, Offset], dict[str, int]] = ({}, {})
        self._due_readers: dict[str, Reader] = {}

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def operator(self) -> Operator:
        return self.plan.operator

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams it reads."""
        return self.operator.inputs

    @property
    def scratch(self) -> str:
        """Where its operator keeps files; one that was dropped and made anew does not find those of before."""
        return self.storage.child("scratch", self.info.id).address

    # -- when it is made ---------------------------------------------------------------------------

    def answers(self, schema: pa.Schema | None) -> StreamInfo:
        """The stream its answers are to go to; `schema` are its columns where only Spark could tell them."""
        columns = self.plan.schema
        if columns is None:
            assert schema is not None
            columns = StreamSchema(plain(schema), self.plan.time)
        if self.info.kind == VIEW:
            options = {KEY: json.dumps(self.operator.answer_key), REQUIRED: json.dumps([])}
            return StreamInfo(self.name, columns, origin=OF_VIEW, owner=changes_owner(self.name), options=options)
        key = {KEY: json.dumps(self.operator.answer_key)} if self.operator.answer_key else {}
        return StreamInfo(self.name, columns, origin=ANSWERS, owner=self.name, options=key)

    def prepare(self) -> None:
        """Keep what it has yet to read, and tell what people should know."""
        for name in self.inputs:
            reader = self.catalog.open_stream(name)
            reader.refresh()
            retention.hold(self.catalog.stream_storage(name), self.name, reader.first_row(), None)
        for event, text in self.operator.notices(Inputs(self.readers())):
            self.storage.make()
            self.progress.tell(event, text)

    def let_go(self) -> None:
        """Nothing is kept for it any longer."""
        for name in self.inputs:
            retention.let_go(self.catalog.stream_storage(name), self.name)

    # -- its streams -------------------------------------------------------------------------------

    def readers(self) -> dict[str, Reader]:
        history = self.operator.reads_history
        readers = {name: self.catalog.open_stream(name, history=history) for name in self.inputs}
        for reader in readers.values():
            reader.refresh()
        return readers

    def ends(self) -> Ends:
        """How far its streams have come."""
        return {name: self.catalog.open_stream(name).end() for name in self.inputs}

    def known_ends(self) -> Ends:
        """The same for a look at it: a stream whose server is away has come nowhere."""
        return {name: self.catalog.end_of(name) or End() for name in self.inputs}

    def has_reached(self, target: Mapping[str, End], done: Mapping[str, Offset]) -> bool:
        return bool(done or not self.operator.answers_over_nothing) and all(
            end == End() or (name in done and done[name].row >= end.row and done[name].time >= end.time)
            for name, end in target.items()
        )

    def behind(self, target: Mapping[str, End], done: Mapping[str, Offset]) -> int:
        """How many rows are still to be taken in."""
        return sum(max(end.row - done.get(name, Offset()).row, 0) for name, end in target.items())

    # -- time --------------------------------------------------------------------------------------

    def due(self, done: dict[str, Offset]) -> dict[str, int]:
        """Per stream, the time (µs) it must reach for more to be answered though no row comes."""
        if not done:
            return {}
        if self._due[0] != done:
            if not self._due_readers:
                self._due_readers = self.readers()
            self._due = (done, self.operator.due(done, Inputs(self._due_readers, self.scratch)))
        return self._due[1]

    def wanted_of_inputs(self, time: int, done: dict[str, Offset]) -> int | None:
        """The time its streams must reach for its answer to reach `time`; None if it has."""
        reached = self.operator.reached
        if not done or reached(done) >= time:
            return None if done else time
        low, high = time - _LONGEST_AHEAD, time
        while low < high:
            middle = (low + high) // 2
            at = {name: offset._replace(time=max(offset.time, middle)) for name, offset in done.items()}
            low, high = (low, middle) if reached(at) >= time else (middle + 1, high)
        return high

    # -- its windows -------------------------------------------------------------------------------

    def pace(self) -> Pace:
        """How many of its windows it answers where it stands alone."""
        said = self.storage.read_json(PACE)
        settings = self.settings
        return Pace(**said) if said else Pace(settings["reevaluate_every"], settings["reevaluate_at_most"])

    def set_pace(self, pace: Pace) -> None:
        self.storage.write_json(PACE, asdict(pace))

    # -- its answers -------------------------------------------------------------------------------

    def reader(self) -> Reader:
        """Of its Stream."""
        self.catalog.stream(self.name)  # that of a host's member is declared when it is first wanted
        reader = self.catalog.open_stream(self.name)
        reader.refresh()
        return reader

    def store(self, done: dict[str, Offset], version: int | None = None) -> pa.Table:
        """Its Store: the current answer, after what it has taken in; or as it was at a version."""
        if version is not None and not self.operator.answer_key:
            raise QueryError(
                "QUERY_HAS_NO_VERSIONS",
                f'the answers of query "{self.name}" are final: they have no versions',
                hint="EMIT CHANGES answers what changes, with versions",
            )
        inputs = Inputs(self.readers(), self.scratch, window_memory=self.settings["window_memory_bytes"])
        kept = self.operator.store(done, inputs)
        if kept is not None:
            return kept
        reader = self.reader()
        end = reader.end()
        if self.operator.answer_key:
            row = end.row if version is None else row_at_version(reader, self.name, version)
            return self._added_up(reader, row)
        if end.row == 0:
            return reader.schema.empty_table()
        newest = reader.read(end.row - 1, end.row, [reader.time_column]).column(0)[0].value
        every = max((offset.every for offset in done.values()), default=1)
        since = self.operator.current(end.time, newest, every)
        return reader.read(end.row if since is None else reader.row_at_time(since, end.row), end.row)

    def _added_up(self, changes: Reader, end: int) -> pa.Table:
        """What all its changes come to; a view has that at hand."""
        if hasattr(changes, "state_at"):
            state: State = changes.state_at(end)
        else:
            state = store_of(changes, end, self.operator.answer_key)
        return state.table.drop_columns([name for name in (NUMBER,) if name in state.schema.names])

    def explain(self, format: str) -> str:
        inputs = Inputs(self.readers())
        return self.plan.explain_json(inputs) if format == "json" else self.plan.explain_text(inputs)


def plain(schema: pa.Schema) -> pa.Schema:
    """A schema with Arrow's types as streams hold them."""
    return StreamSchema.from_json(StreamSchema(schema, "").to_json()).arrow

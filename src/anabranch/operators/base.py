"""The contract every operator keeps.

An operator is a function of offsets. For a micro-batch that takes each input from `start` to
`end`, `plan` says on the driver which tasks there are, and `run` turns one task into Arrow
batches on an executor. Concatenated in the order of the tasks and gathered, the batches are the answer,
equal row for row however the input was cut into micro-batches and however many tasks were allowed.

An operator is plain data (a frozen dataclass that goes through JSON), so that Spark can carry it
anywhere. What it keeps between batches is declared by `keeps` and lives in files under
`Inputs.scratch` that can be computed again from the log: losing one costs time, never an answer. The
exception says so: `scratch_is_state`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, cast

import pyarrow as pa

from anabranch.archive.facts import Aside
from anabranch.archive.reducers import Spec
from anabranch.log.offset import MIN_TIME, End, Piece
from anabranch.log.storage import Storage
from anabranch.operators.budget import ANY, Budget
from anabranch.operators.offset import Offset, Offsets
from anabranch.operators.work import Work

__all__ = [
    "MIN_TIME",
    "Floor",
    "HistoryLog",
    "Inputs",
    "Keeps",
    "KnownStreams",
    "LogReader",
    "Offset",
    "Offsets",
    "Operator",
    "Piece",
    "Task",
    "Work",
    "first_time",
    "first_time_of_any",
    "time_of_row",
]


class LogReader(Protocol):
    """What operators ask of a stream's log (`anabranch.log.reader.StreamReader` is the real one)."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def time_column(self) -> str: ...

    @property
    def skew_us(self) -> int:
        """How much later than newer rows a row may come."""
        ...

    @property
    def identity(self) -> str:
        """The same for readers of the same rows only."""
        ...

    def read(self, start: int, end: int, columns: list[str] | None = None) -> pa.Table:
        """Rows numbered start ≤ n < end, in order, without copying where the file is mapped."""
        ...

    def row_at_time(self, time: int, end: int) -> int:
        """The number of the first row below `end` whose time is ≥ `time`, else `end`."""
        ...

    def first_row(self) -> int:
        """The number of the oldest row still kept."""
        ...

    def first_logged_row(self) -> int:
        """The number of the oldest row that is not only in an archive."""
        ...


class KnownStreams(Protocol):
    """What is known of streams when a query over them is made."""

    def end_of(self, stream: str) -> End: ...

    def time_of(self, stream: str) -> str:
        """The name of its time column."""
        ...

    def is_elsewhere(self, stream: str) -> bool:
        """Whether its rows are on a data server."""
        ...


class HistoryLog(LogReader, Protocol):
    """A log that can be read in part, over archive and log together (`anabranch.archive.reader.HistoryReader`)."""

    def only(self, archive: str) -> HistoryLog:
        """The same log, with one of its archives."""
        ...

    @property
    def seed(self) -> int:
        """What the lots of reduced reads are drawn with, see `kernels.sampling`."""
        ...

    def read_sample(
        self, start: int, end: int, columns: list[str], keep: float, by: str | None = None, again: bool = False
    ) -> pa.Table:
        """Those of the rows start ≤ n < end that a reduced read keeps, with their numbers in a first column `_row`.

        `by`: whole keys of a column are kept, not rows. `again`: rows of the same files will be wanted soon.
        """
        ...

    def aside(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> Aside:
        """Of the rows start ≤ n < end those that lie far out, and the ranges of the others (`archive.facts`)."""
        ...

    def sample_bytes(self, start: int, end: int, columns: list[str], keep: float, by: str | None = None) -> int:
        """About how many bytes of files such a read touches."""
        ...

    def pieces(self, start: int, end: int) -> list[Piece]:
        """How the rows start ≤ n < end lie in files, in order."""
        ...


@dataclass(frozen=True)
class Inputs:
    """Where an operator finds its streams and may keep its scratch files (None: nowhere)."""

    readers: Mapping[str, LogReader]
    scratch: str | None = None
    work: Work = dataclasses.field(default_factory=Work)
    gathers: bool = False
    """True if the answers of all tasks are brought together by `Operator.gather`."""
    window_memory: int = 1 << 30
    """Bytes that an index may keep of its window's rows before they go to files."""
    budget: Budget = ANY
    """What each member of a host may answer and take in a micro-batch."""
    places: tuple[Offsets, ...] = ()
    """Of what members of a host share: where some of them are who may go on from there; state of it stays."""

    def folder(self, name: str) -> Storage | None:
        """A folder for scratch files of one kind, or None."""
        return None if self.scratch is None else Storage(self.scratch).child(name)

    def history(self, stream: str, archive: str | None = None) -> HistoryLog:
        """The reader of a stream, for operators that say `reads_history`; of its archives only one, if it is named."""
        reader = cast(HistoryLog, self.readers[stream])
        return reader if archive is None else reader.only(archive)


@dataclass(frozen=True)
class Task:
    """One piece of a micro-batch: picklable, small, and meaningful only to its operator."""

    start: dict[str, Offset]
    end: dict[str, Offset]
    detail: dict[str, Any] = dataclasses.field(default_factory=dict)


class Floor(NamedTuple):
    """Which rows of a stream are still needed: those numbered `row` and up, and those from `time` (µs) on.

    None says nothing: `Floor(row=n)` needs nothing older than row n. `before`: as many rows more.
    """

    row: int | None = None
    time: int | None = None
    before: int = 0


class Shared(NamedTuple):
    """An operator as others of a host may have it, too, and what one of them wants of its answers."""

    operator: Operator
    """It answers all that anybody can want of it."""
    answers: pa.Schema
    first: tuple[str, ...]
    """Conditions to be looked at first, one after the other: one may be an error where those before are not met."""
    conditions: tuple[str, ...]
    """The others."""
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Keeps:
    """What an operator keeps between batches, and why that is bounded."""

    what: str
    bound: str


@dataclass(frozen=True)
class Operator:
    """Base of all operators; see the module for the contract."""

    kind: ClassVar[str]
    scratch_is_state: ClassVar[bool] = False
    """True if its scratch cannot always be computed again: then it is written durably, and must not be lost."""
    reads_history: ClassVar[bool] = False
    """True if it reads archive and log as one (`Inputs.history`); others are given the log alone."""
    asked_once: ClassVar[bool] = False
    """True if it is for questions and jobs only, never for a standing query."""
    begins_by_itself: ClassVar[bool] = False
    """True if `beginning` counts also where it is asked once; else that is about all rows there are."""
    is_cut_anew: ClassVar[bool] = False
    """True if a micro-batch that was begun and has answered nothing may end elsewhere when it is run again."""
    answers_over_nothing: ClassVar[bool] = False
    """True if it may have an answer before anything has come: its first micro-batch is run in any case."""
    asked_by_its_host: ClassVar[bool] = False
    """True if its tasks answer nothing: whoever runs it asks an engine what has become of the answer."""
    throws_what_it_leaves: ClassVar[bool] = False
    """True if every row it takes in is answered or thrown away, also by what Spark SQL does behind it."""
    named_in_a_host: ClassVar[str] = "windows"
    """What EXPLAIN calls that of it which members of a host may have in common."""
    why_stream: ClassVar[str] = "answers that stay true"
    """What the query's Stream holds."""
    why_store: ClassVar[str] = "nothing: every answer stays true"
    """What the query's Store holds."""
    why_throw: ClassVar[str] = "rows that WHERE dropped or no window holds"
    """What the query throws away."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the streams it reads."""
        raise NotImplementedError

    def schema(self, inputs: Inputs) -> pa.Schema:
        """The columns of its answer."""
        raise NotImplementedError

    if TYPE_CHECKING:
        # Operators have it as a field, which a property of the base would stand in the way of.
        @property
        def time(self) -> str:
            """The column of the answer that is its time; never decreasing from row to row."""
            ...

    def settled(self, streams: KnownStreams, *, once: bool = False) -> Operator:
        """Itself as of now: with what depends on the streams at the time when a query is made, or asked once."""
        return self

    def aliases(self) -> tuple[str, ...]:
        """The names by which a join or merge calls the rows of its streams; empty: it is none."""
        return ()

    def archives_wanted(self) -> tuple[str, ...]:
        """The streams that must have an archive."""
        return ()

    def reduction(self) -> Spec | None:
        """The reducer that says before each micro-batch how much of history it reads (`Offset.keep`), if any."""
        return None

    def history_end(self) -> int:
        """Rows of its first stream before this number are history, which a reducer may read in part."""
        return 0

    def notices(self, inputs: Inputs) -> list[tuple[str, str]]:
        """What people should know when a query of it begins: names of events, and what they mean."""
        return []

    @property
    def paced_by(self) -> Literal["time", "rows"]:
        """Whether micro-batches take its streams to about the same time, or as many rows of each as there are."""
        return "time"

    def condition(self) -> tuple[str | None, str]:
        """The condition on rows of a stream that is all its WHERE, and which stream; None where there is none such."""
        return None, self.inputs[0]

    def conditions_by_source(self) -> tuple[tuple[str | None, str], ...]:
        """Of one that searches rows of several sources: for each the condition on its rows alone, and its stream."""
        return ()

    def canonical(self) -> Operator:
        """One that answers the same, save for the names of its columns, which are `c0`, `c1` and so on.

        It is equal for many that mean the same, however they are written.
        """
        return self

    def however_cut(self) -> Operator:
        """One that answers the same rows, and whose times and order follow from the rows of its streams alone.

        What takes in its answers again after a restart cuts them otherwise, and must meet the same ones.
        """
        return self

    def shared(self, schema_of: Callable[[str], pa.Schema]) -> Shared | None:
        """Of one whose scratch is state: what of it others may want who began with the same rows; None: nothing."""
        return None

    @property
    def why_alone(self) -> str | None:
        """Why a query of it cannot be a member of a host; None: it can."""
        return "its answer changes, and what those of a host answer stays" if self.answer_key else None

    @property
    def members_list(self) -> str | None:
        """The input that lists its members, if it is a host of many (`operators.together`)."""
        return None

    def beginning(self, inputs: Inputs) -> dict[str, Offset]:
        """Where a standing query begins: with what the log holds, unless it says otherwise."""
        return {name: Offset(inputs.readers[name].first_logged_row()) for name in self.inputs}

    def bytes_to_read(self, end: Offsets, inputs: Inputs) -> int:
        """About how much one that is asked once reads; what is little is done without Spark."""
        return 1 << 62

    def plan(self, start: Offsets, end: Offsets, inputs: Inputs, parallelism: int) -> list[Task]:
        """The tasks of a micro-batch, at most `parallelism`; none if there is nothing to do."""
        raise NotImplementedError

    def run(self, task: Task, inputs: Inputs) -> Iterator[pa.RecordBatch]:
        """The answer rows of one task."""
        raise NotImplementedError

    def gather(self, answers: pa.Table, work: Work | None = None) -> pa.Table:
        """The answer of a micro-batch from those of its tasks, which stand one after the other.

        Tasks planned where `Inputs.gathers` may carry columns beside those of the schema, which say
        where their rows belong; what is done with them happens here, on the driver. What that costs is added to `work`.
        """
        return answers

    def reached(self, end: Offsets) -> int:
        """The time its answer has reached at `end`: no later answer row is older."""
        return min(end[name].time for name in self.inputs)

    def due(self, at: Offsets, inputs: Inputs) -> dict[str, int]:
        """Per input, the time it must reach for more to be answered though no row comes; empty: nothing waits.

        Once they have reached these times more is answered, or something else is due; before that,
        time alone answers nothing. Inputs that are not named are not waited for.
        """
        return {}

    def needs(self, at: Offsets) -> dict[str, Floor]:
        """Per input, the rows the operator may still read after `at`; retention keeps them."""
        return {name: Floor(row=at[name].row) for name in self.inputs}

    def held(self, at: Offsets, inputs: Inputs) -> dict[str, Floor]:
        """The same, of one that has to look into what it keeps to say so."""
        return self.needs(at)

    @property
    def answers_of_windows(self) -> tuple[int, int] | None:
        """How often (µs) it answers for good what is in a window of time, and how long that is; None: it does not."""
        return None

    def current(self, reached: int, newest: int, every: int = 1) -> int | None:
        """From which time on its answer rows are the current answer (the query's Store).

        `reached` is the time the answer has reached, `newest` that of its newest row; of its
        windows, every `every`-th was answered last. None: the Store is empty, every answer row
        stays true for good.
        """
        return None

    def store(self, at: Offsets, inputs: Inputs) -> pa.Table | None:
        """The current answer at `at` where it cannot be read from the answers; None: `current` says which it is."""
        return None

    def told(self, at: Offsets, inputs: Inputs) -> dict[str, Any]:
        """What statistics say of it that follows from what it keeps: of a host's member, whose reports are not kept."""
        return {}

    @property
    def answer_key(self) -> tuple[str, ...]:
        """Of one whose answer changes: the columns by which a row of it is known; empty: every answer stays."""
        return ()

    def keeps(self) -> Keeps | None:
        """What it keeps in its scratch, or None."""
        return None

    def expendable(self, scratch: Storage) -> list[Storage]:
        """The folders of its scratch whose files can be computed again from the log."""
        return [] if self.scratch_is_state else [scratch]

    def explain(self, inputs: Inputs | None = None) -> dict[str, Any]:
        """Name, inputs, parameters and bounds, as plain data for EXPLAIN.

        With `inputs` it also says what depends on the rows there are, such as the choice of an index.
        """
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, **dataclasses.asdict(self)}


def time_of_row(reader: LogReader, row: int) -> int:
    """The time of the row with a number."""
    return int(reader.read(row, row + 1, [reader.time_column]).column(0)[0].value)


def first_time(reader: LogReader, since: int, end: int) -> int | None:
    """The time of the first row below number `end` that is not older than `since`; None if there is none."""
    row = max(reader.row_at_time(since, end), reader.first_row())
    return time_of_row(reader, row) if row < end else None


def first_time_of_any(at: Offsets, since: int, inputs: Inputs) -> int | None:
    """The same for the first such row of any stream, below its offset."""
    times = [first_time(inputs.readers[name], since, offset.row) for name, offset in at.items()]
    return min((time for time in times if time is not None), default=None)

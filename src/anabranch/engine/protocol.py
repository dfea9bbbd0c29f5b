"""What the rest of the system asks of an engine: answer once, stream, and run what stands.

Spark is one (`spark.engine`); `testing.sparkless` has one that runs in this process, when told to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from anabranch.engine.options import ArchivedFiles, SourceOptions
from anabranch.engine.rests import Unfinished
from anabranch.errors import AnabranchError
from anabranch.log.storage import Storage
from anabranch.operators.offset import Offset
from anabranch.operators.work import Work

T = TypeVar("T")


class Batch(Protocol):
    """A micro-batch's answer, with the offsets it is a function of."""

    @property
    def number(self) -> int: ...

    @property
    def rows(self) -> pa.Table: ...

    @property
    def work(self) -> Work: ...

    def start(self) -> dict[str, Offset]: ...

    def end(self) -> dict[str, Offset]: ...

    def make_durable(self) -> None:
        """Force the note of its offsets to disk: for sources that keep no position of their own."""
        ...


Deliver = Callable[[Batch], None]
"""Takes in micro-batches, in order."""


class Running(Protocol):
    """Something that an engine runs."""

    @property
    def status(self) -> str:
        """`starting`, `running`, `stopped` or `failed`."""
        ...

    @property
    def alive(self) -> bool: ...

    @property
    def failure(self) -> AnabranchError | None:
        """Why it stopped by itself, if it did."""
        ...

    def started(self, timeout: float | None = None) -> None:
        """Until it runs; raises why it could not."""
        ...

    def run_to_end(self, timeout: float | None) -> bool:
        """For what takes what is there and ends: wait for its end; False if that took too long."""
        ...

    def stop(self) -> None:
        """End it, in bounded time."""
        ...


@dataclass(frozen=True)
class Job:
    """What is to run: a source whose rows, after the rest in Spark SQL if there is one, have the columns of `schema`.

    `options` are asked for at each start, when what was written down by the one before has been looked at.
    """

    options: Callable[[], SourceOptions]
    residual_sql: str | None
    schema: pa.Schema
    checkpoint: Storage
    available_now: bool = False
    """Take in what there is, and end."""
    tell: Callable[[str, str], None] = lambda name, text: None
    """Is told when it is started again, and why."""


class Engine(Protocol):
    """See the module. Frames are the engine's own: it makes them, and it collects them."""

    @property
    def parallelism(self) -> int: ...

    @property
    def spark(self) -> Any:
        """Spark's session, for programs of PySpark."""
        ...

    def start(self) -> None:
        """Be ready."""
        ...

    def ask(self, work: Callable[[], T], seconds: float = 0.0) -> T:
        """The value of `work`, which may use the engine: interrupted by Ctrl-C, by time, and by `interrupt`."""
        ...

    def tagged(self, tag: str) -> AbstractContextManager[None]:
        """What this thread asks meanwhile can be ended by `cancel`."""
        ...

    def cancel(self, tag: str) -> None:
        """End what is computed under a tag at this moment; there may be nothing."""
        ...

    def read_once(self, options: SourceOptions) -> Any:
        """The operator's answer over what its streams hold, as a frame."""
        ...

    def sql_once(
        self, sql: str, views: dict[str, SourceOptions], files: Mapping[str, ArchivedFiles] | None = None
    ) -> Any:
        """A SELECT over views, as a frame: each is the answer of an operator, and what `files` holds besides."""
        ...

    def columns_of(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Schema:
        """The columns of a SELECT over views that can be asked again and again; an error if it cannot."""
        ...

    def evaluate(self, sql: str, views: Mapping[str, SourceOptions]) -> pa.Table:
        """The answer of such a SELECT, to the last bit the same for the same rows.

        Asked while a micro-batch is delivered.
        """
        ...

    def collect(self, frame: Any, reads_bytes: int) -> pa.Table:
        """All rows of a frame that is made from so many bytes."""
        ...

    def frame_of(self, table: pa.Table) -> Any:
        """A table as a frame."""
        ...

    def stream(self, options: SourceOptions, residual_sql: str | None = None) -> Any:
        """The operator's answer as it grows, as a frame for programs."""
        ...

    def answer_schema(self, options: SourceOptions, residual_sql: str) -> pa.Schema:
        """The columns of an answer that Spark SQL computes the rest of."""
        ...

    def finish(self, parts: Sequence[Unfinished], staging: Storage) -> list[pa.Table] | AnabranchError:
        """What becomes of the rows of each part, in their order; or why that cannot be computed of all of them.

        Asked while a micro-batch is delivered; raises where it is the engine that fails. `staging` is for its files.
        """
        ...

    def run(self, job: Job, deliver: Deliver) -> Running:
        """Run what stands; does not wait until it is up."""
        ...

    def ingest(
        self, frame: Any, staging: Storage, checkpoint: Storage, deliver: Deliver, *, available_now: bool = False
    ) -> Running:
        """Deliver the rows of any growing frame."""
        ...

    def interrupt(self) -> None:
        """Interrupt all that is asked, now and later."""
        ...

    def close(self) -> None: ...

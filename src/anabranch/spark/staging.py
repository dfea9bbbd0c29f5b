"""How rows leave an executor without passing through the JVM.

A task's answer is put in an *envelope*: one row that holds the answer's bytes if they are few, or
the name of a file the task has written if they are many, with what the task's work cost. The
driver opens the envelopes of a micro-batch in the order of the tasks. A task that Spark ran twice
has written two files, but only one envelope arrives; the other file is swept away later.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa
from pyarrow import ipc

from anabranch.log.storage import Storage
from anabranch.operators.base import Work

ENVELOPE = pa.schema(
    [("task", pa.int32()), ("rows", pa.int64()), ("bytes", pa.binary()), ("file", pa.string()), ("work", pa.string())]
)
ENVELOPE_DDL = "task INT, rows BIGINT, bytes BINARY, file STRING, work STRING"


def seal(
    batches: Iterable[pa.RecordBatch], task: int, staging: str, inline_bytes: int, work: Work, most_bytes: int = 0
) -> pa.RecordBatch:
    """Put a task's answer into an envelope; one of more than `most_bytes` (0: any) is left out, its rows are -1."""
    held: list[pa.RecordBatch] = []
    size = 0
    source = iter(batches)
    for batch in source:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size > inline_bytes:
            return _envelope(task, None, _write_file(held, source, staging, most_bytes), work)
    sink = pa.BufferOutputStream()
    if held:
        with ipc.new_stream(sink, held[0].schema) as out:
            for batch in held:
                out.write_batch(batch)
    return _envelope(task, (sum(b.num_rows for b in held), sink.getvalue()), None, work)


def _write_file(
    held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch], staging: str, most_bytes: int
) -> tuple[int, str | None]:
    rows = size = 0
    storage = Storage(staging)

    def write(sink: pa.NativeFile) -> None:
        nonlocal rows, size
        with ipc.new_file(sink, held[0].schema) as out:
            for part in (held, rest):
                for batch in part:
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    if most_bytes and size > most_bytes:
                        raise _TooLarge
                    out.write_batch(batch)

    try:
        name = storage.write(write, f"{secrets.token_hex(8)}.arrow", durable=False)
        return rows, name
    except _TooLarge:  # said in the envelope: a task that failed would be tried again
        return -1, None


class _TooLarge(Exception):
    """A task's answer is larger than it may be."""


def _envelope(
    task: int, inline: tuple[int, pa.Buffer] | None, staged: tuple[int, str | None] | None, work: Work
) -> pa.RecordBatch:
    rows = inline[0] if inline else staged[0] if staged else 0
    return pa.RecordBatch.from_arrays(
        [
            pa.array([task], pa.int32()),
            pa.array([rows], pa.int64()),
            pa.array([inline[1].to_pybytes() if inline and rows else None], pa.binary()),
            pa.array([staged[1] if staged else None], pa.string()),
            pa.array([json.dumps(asdict(work))], pa.string()),
        ],
        schema=ENVELOPE,
    )


def unseal(envelopes: pa.Table, schema: pa.Schema, staging: Storage) -> tuple[pa.Table, Work]:
    """The answer in all envelopes of a micro-batch, and what it cost."""
    work = Work()
    tables = []
    for row in envelopes.sort_by("task").to_pylist():
        work.add(Work(**json.loads(row["work"])))
        if row["bytes"] is not None:
            tables.append(ipc.open_stream(row["bytes"]).read_all())
        elif row["file"] is not None:
            tables.append(ipc.open_file(staging.open_file(row["file"])).read_all())
    return (pa.concat_tables(tables) if tables else schema.empty_table()), work


def sweep(envelopes: pa.Table, staging: Storage) -> None:
    """Delete the files of a micro-batch once its answer is in the log."""
    for name in envelopes.column("file").to_pylist():
        if name is not None:
            with contextlib.suppress(OSError):
                staging.delete(name)


def clear(staging: Storage) -> None:
    """Delete whatever earlier runs left behind."""
    if staging.is_local:
        os.makedirs(staging.path, exist_ok=True)
    else:
        staging.make()
    for name in staging.files():
        staging.delete(name)

"""Selections of one stream answered together: a chunk of rows is read once, and each question looked up.

The naive version is `operators.select`, one after the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from anabranch.errors import AnabranchError
from anabranch.expressions.atoms import Atom
from anabranch.kernels.questions import NOTHING, Codes, Intervals, Matches, QuestionIndex
from anabranch.log.slices import Payload, sliced
from anabranch.operators.base import LogReader, Operator, Work
from anabranch.operators.columns import Bound, bind, columns_of, project
from anabranch.operators.select import SelectRows
from anabranch.operators.together.coding import Coding, Numbers, Spans, Texts, Truths, both

_ROWS_PER_READ = 1 << 17
_ANSWERS_AT_ONCE = 1 << 21
"""Rows that have more answers are answered in parts: what is in memory, and in one row of the log, is bounded."""

Slices = tuple[bytes, Payload]
"""`index` and `payload`, as they go to the log (`log.slices`)."""
Failures = dict[int, str]
"""Why members cannot go on, by their number."""


class Asking(Protocol):
    """Who asks for rows: a member that is a selection (`roster.Entry`), or whoever selects of what it shares."""

    @property
    def number(self) -> int: ...

    @property
    def operator(self) -> Operator: ...

    @property
    def atoms(self) -> Iterable[Atom]: ...


class _Column(NamedTuple):
    """What atoms speak of: a column of the stream or an expression, and its codes."""

    value: Bound
    coding: Coding


class _Answer(NamedTuple):
    """What some members answer with: the questions first ≤ n < end."""

    columns: tuple[Bound, ...]
    schema: pa.Schema
    reads: list[str]
    first: int
    end: int


class Selections:
    """The selections of some members; those that cannot be computed are in `failures`."""

    def __init__(self, members: Iterable[Asking], source: pa.Schema) -> None:
        self.failures: Failures = {}
        self._source = source
        wanted = self._by_answer(members)
        self._members = np.array([entry.number for entries in wanted.values() for entry in entries], np.int64)
        self._answers: list[_Answer] = []
        asked: list[Asking] = []
        for columns, entries in wanted.items():
            bound = tuple(bind(sql, source) for _, sql in columns)
            schema = pa.schema([(name, value.type) for (name, _), value in zip(columns, bound, strict=True)])
            reads = columns_of(bound, source) or source.names[:1]
            self._answers.append(_Answer(bound, schema, reads, len(asked), len(asked) + len(entries)))
            asked += entries
        self._columns = self._columns_of(asked)
        self._index = QuestionIndex(len(asked), self._intervals(asked))
        values = [column.value for column in self._columns.values()] + [b for a in self._answers for b in a.columns]
        self.reads = columns_of(values, source) or source.names[:1]
        """The columns that are needed for all of it."""
        self.tested = columns_of([column.value for column in self._columns.values()], source)
        """The columns that say who wants a row."""

    def _by_answer(self, members: Iterable[Asking]) -> dict[tuple[tuple[str, str], ...], list[Asking]]:
        """Members that answer with the same columns stand together, in the order of their numbers."""
        wanted: dict[tuple[tuple[str, str], ...], list[Asking]] = defaultdict(list)
        fine: set[str] = set()
        for entry in members:
            try:
                select = cast(SelectRows, entry.operator)
                spoken = {sql for _, sql in select.columns}.union(map(_sql, entry.atoms))
                for sql in sorted(spoken - fine):
                    bind(sql, self._source)
                    fine.add(sql)
                wanted[select.columns].append(entry)
            except AnabranchError as problem:
                self.failures[entry.number] = str(problem)
        return wanted

    def _columns_of(self, asked: list[Asking]) -> dict[str, _Column]:
        atoms: dict[str, list[Atom]] = defaultdict(list)
        for entry in asked:
            for atom in entry.atoms:
                atoms[_sql(atom)].append(atom)
        columns = {}
        for sql, spoken in atoms.items():
            value = bind(sql, self._source)
            kind = Truths if spoken[0].computed else Texts if pa.types.is_string(value.type) else Numbers
            columns[sql] = _Column(value, kind(spoken))
        return columns

    def _intervals(self, asked: list[Asking]) -> Intervals:
        place = {sql: number for number, sql in enumerate(self._columns)}
        known: dict[Atom, Spans] = {}
        rows: list[tuple[int, int, int, int]] = []
        for question, entry in enumerate(asked):
            spans: dict[int, Spans] = {}
            for atom in entry.atoms:
                column = place[_sql(atom)]
                if atom not in known:
                    known[atom] = self._columns[_sql(atom)].coding.spans(atom)
                spans[column] = both(spans[column], known[atom]) if column in spans else known[atom]
            for column, pieces in spans.items():
                rows += [(question, column, low, high) for low, high in pieces or [(NOTHING, NOTHING)]]
        parts = np.array(rows, np.int64).reshape(-1, 4).T
        return Intervals(*parts)

    def run(self, reader: LogReader, start: int, end: int, work: Work) -> Iterator[Slices]:
        """The answers of the rows start ≤ n < end, for each kind of answer by itself."""
        for low in range(start, end, _ROWS_PER_READ):
            table = reader.read(low, min(low + _ROWS_PER_READ, end), self.reads).combine_chunks()
            work.rows_read += table.num_rows
            work.bytes_read += table.nbytes
            yield from self.answers(table)

    def _codes(self, table: pa.Table) -> list[Codes]:
        codes = [column.coding.codes(column.value.evaluate(table)) for column in self._columns.values()]
        self._index.keep_up(codes)
        return codes

    def matches(self, table: pa.Table) -> Iterator[Matches]:
        """Which rows of a table are whose, by the places of members and of rows: of some rows after the other."""
        return self._index.match_in_parts(self._codes(table), table.num_rows, _ANSWERS_AT_ONCE)

    def answers(self, table: pa.Table) -> Iterator[Slices]:
        """What members answer of the rows of a table."""
        for matches in self.matches(table):
            yield from self._answers_to(table, matches)

    def _answers_to(self, table: pa.Table, matches: Matches) -> Iterator[Slices]:
        begins = np.flatnonzero(np.diff(matches.question, prepend=-1))
        questions, ends = matches.question[begins], np.r_[begins, len(matches.row)]
        cuts = np.searchsorted(questions, [answer.first for answer in self._answers] + [len(self._members)])
        for answer, low, high in zip(self._answers, cuts[:-1], cuts[1:], strict=True):
            if low < high:
                rows = _project(table, matches.row[ends[low] : ends[high]], answer)
                yield sliced(rows, self._members[questions[low:high]], np.diff(ends[low : high + 1]))


def _project(table: pa.Table, rows: NDArray[np.int64], answer: _Answer) -> pa.Table:
    """The answer to some rows; where they are more than the table has, what is computed is computed once."""
    if len(rows) <= table.num_rows:
        return project(table.select(answer.reads).take(pa.array(rows)), answer.columns, answer.schema)
    return project(table, answer.columns, answer.schema).take(pa.array(rows))


def _sql(atom: Atom) -> str:
    return atom.of if atom.computed else f"`{atom.of.replace('`', '``')}`"

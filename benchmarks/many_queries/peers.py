"""The same questions over the same rows, asked of other engines before we are.

Each answers in a process of its own. Its answers are counted and compared with NumPy's before its speed counts.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness import check, say
from benchmarks.many_queries.files import write_questions, write_rows
from benchmarks.many_queries.questions import Closing, Question, Windowed
from benchmarks.many_queries.rows import EVENTS, Fed
from benchmarks.peers.environments import Peers
from benchmarks.peers.programs import Missing
from benchmarks.peers.statements import Answered, Asked, AskedInTime, Step

LATE = 2.0
"""Seconds; a query that is later does not keep up."""
PATIENCE = 600.0
"""Seconds; nobody waits for a peer any longer."""


@dataclass(frozen=True)
class PeerSizes:
    """How much others are asked, and of how many rows."""

    esper: tuple[int, ...] = (1_000, 10_000)
    esper_rows: int = 1_200_000
    warm_rows: int = 200_000
    flink: tuple[tuple[int, int], ...] = ((10, 1_200_000), (100, 300_000))
    """How many statements, over how many rows."""
    flink_kinds: tuple[str, ...] = ("mixed",)
    """A hundred statements take it a minute, so it is asked of one kind."""
    spark: int | None = 6
    """Queries to begin with; None: Spark is not asked."""
    spark_seconds: int = 12


@dataclass
class Beside:
    """What others reach with questions of a kind."""

    rows_per_second: dict[tuple[str, int], float] = field(default_factory=dict)
    """By engine and number of statements."""
    keep_up: int | None = None
    """How many of Spark's queries."""


class Contest:
    """Rows that begin with the one of a number, and who is asked about them."""

    def __init__(self, peers: Peers, sizes: PeerSizes, folder: Path, first: int, per_second: int) -> None:
        self._peers = peers
        self._sizes = sizes
        self._folder = folder
        self._per_second = per_second
        most = max([sizes.esper_rows, sizes.spark_seconds * per_second, *(count for _, count in sizes.flink)])
        say(f"writing {most:,} rows for other engines")
        self._fed = write_rows(folder, first, most, per_second)
        self.notes: dict[str, str] = {}

    def ask(self, name: str, question: Callable[[int], Question]) -> Beside:
        """What each of them reaches."""
        sizes = self._sizes
        most = max([*sizes.esper, *(count for count, _ in sizes.flink), 2 * (sizes.spark or 0)])
        questions = [question(number) for number in range(most)]
        write_questions(self._folder, name, questions)
        beside = Beside()
        for count, rows in sizes.flink if name in sizes.flink_kinds else ():
            asked = self._asked(name, count, rows)
            found = self._peers.run("flink_statements", [json.dumps(asdict(asked))], PATIENCE)
            self._take("flink", asked, found, questions, Closing.THE_END, beside)
        for count in sizes.esper:
            asked = self._asked(name, count, sizes.esper_rows, sizes.warm_rows)
            told = [asked.folder, name, *map(str, (count, asked.rows, asked.warm_rows, asked.threads))]
            found = self._peers.run("esper", told, PATIENCE)
            self._take("esper", asked, found, questions, Closing.OWN_ROW, beside)
        if sizes.spark is not None:
            beside.keep_up = self._climb(name, sizes.spark, questions)
        return beside

    def _asked(self, name: str, count: int, rows: int, warm_rows: int = 0) -> Asked:
        return Asked(str(self._folder), name, count, rows, rows // EVENTS, warm_rows, self._per_second)

    def _take(
        self,
        engine: str,
        asked: Asked,
        found: dict[str, Any] | Missing,
        questions: Sequence[Question],
        closing: Closing,
        beside: Beside,
    ) -> None:
        """Check a peer's answers, and note its speed."""
        label = f"{engine}, {asked.count} {asked.name}"
        if isinstance(found, Missing):
            self._note(label, f"missing: {found.reason}")
            return
        answered = Answered(**found)
        self._check(label, answered.counts, questions, asked.rows, closing)
        speed = answered.rows / answered.seconds
        beside.rows_per_second[engine, asked.count] = speed
        notes = "".join(f", {value:g} {what}" for what, value in answered.notes.items())
        self._note(label, f"{speed:,.0f} rows/s (version {answered.version}{notes})")

    def _climb(self, name: str, start: int, questions: Sequence[Question]) -> int | None:
        """How many queries of Spark's keep up."""
        rows = self._sizes.spark_seconds * self._per_second
        asked = AskedInTime(**asdict(self._asked(name, start, rows)), ladder=_ladder(start))
        found = self._peers.run("spark_statements", [json.dumps(asdict(asked))], PATIENCE)
        if isinstance(found, Missing):
            self._note(f"spark, {name}", f"missing: {found.reason}")
            return None
        steps = [Step(**step) for step in found["steps"]]
        for step in steps:
            self._check(f"spark, {step.statements} {name}", step.counts, questions, rows, None)
        lates = ", ".join(f"{step.statements} are {step.late:.1f} s late" for step in steps)
        self._note(f"spark, {name}", f"{lates} (version {found['version']})")
        return max([step.statements for step in steps if step.late <= LATE], default=0)

    def _check(
        self, label: str, counts: Sequence[int], questions: Sequence[Question], rows: int, closing: Closing | None
    ) -> None:
        """A tenth of the questions, ten at least, has as many answers as it should; None: windows are left out."""
        fed = Fed(
            *(
                {name: c[:count] for name, c in columns.items()}
                for columns, count in zip(self._fed, (rows, rows // EVENTS), strict=True)
            )
        )
        numbers = [n for n in range(len(counts)) if closing or not isinstance(questions[n], Windowed)]
        for number in random.Random(7).sample(numbers, min(len(numbers), max(10, len(counts) // 10))):
            wanted = questions[number].answers(fed, closing or Closing.THE_END)
            what = f"{label}: {questions[number].sql()} has {counts[number]} answers, not {wanted}"
            check(counts[number] == wanted, what)

    def _note(self, label: str, text: str) -> None:
        say(f"{label}: {text}")
        self.notes[label] = text


def _ladder(start: int) -> tuple[int, ...]:
    """Numbers of queries to try, about a third apart."""
    return tuple(sorted({max(1, round(start * factor)) for factor in (1 / 6, 1 / 3, 2 / 3, 1, 4 / 3, 2)}))


def ask(
    peers: Peers,
    sizes: PeerSizes,
    asked: dict[str, Callable[[int], Question]],
    first: int,
    per_second: int,
) -> tuple[dict[str, Beside], dict[str, str]]:
    """What others reach with each kind of questions, and notes about it."""
    with tempfile.TemporaryDirectory(prefix="bench-many-") as folder:
        contest = Contest(peers, sizes, Path(folder), first, per_second)
        return {name: contest.ask(name, question) for name, question in asked.items()}, contest.notes

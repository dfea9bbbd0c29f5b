"""The parts of the benchmark of many queries: questions and what they are to answer, and asking other engines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anabranch.testing.sparkless import SparklessDatabase
from benchmarks.harness import WrongAnswer
from benchmarks.many_queries import questions as questions_module
from benchmarks.many_queries import rows as rows_module
from benchmarks.many_queries.conditions import FarFromZero, Null, Within
from benchmarks.many_queries.files import write_questions, write_rows
from benchmarks.many_queries.peers import Contest, PeerSizes, _ladder
from benchmarks.many_queries.questions import Closing, Join, Question, Selection, Windowed, indexable, mixed
from benchmarks.many_queries.rows import STREAMS, Fed, events, rows
from benchmarks.peers import java, programs
from benchmarks.peers.environments import Peers
from benchmarks.peers.in_spark_statements import _climb, _late
from benchmarks.peers.programs import Missing
from benchmarks.peers.statements import AskedInTime, Step

PER_SECOND = 200
COUNT = 5_000


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few keys and codes that all questions have answers."""
    for module in (rows_module, questions_module):
        monkeypatch.setattr(module, "KEYS", 20)
        monkeypatch.setattr(module, "CODES", 20)


@pytest.fixture
def fed(few_keys: None) -> Fed:
    return Fed.of([rows(0, COUNT, PER_SECOND)], [events(0, COUNT, PER_SECOND)])


def test_questions_are_answered_as_numpy_counts(few_keys: None, fed: Fed, tmp_path: Path) -> None:
    asked = {f"q{n}": mixed(n) for n in range(60)}
    with SparklessDatabase(tmp_path / "river") as db:
        db.sql(STREAMS)
        db.create_queries({name: question.sql() for name, question in asked.items()})
        db.append("s", rows(0, COUNT, PER_SECOND))
        db.append("e", events(0, COUNT, PER_SECOND))
        db.catch_up()
        for name, question in asked.items():
            table = db.get_query(name).table()
            found = sum(table.column("n").to_pylist()) if isinstance(question, Windowed) else table.num_rows
            assert (question.sql(), found) == (question.sql(), question.answers(fed, Closing.ANY_ROW))


def test_a_join_is_counted_as_by_looking_at_every_pair(fed: Fed) -> None:
    pairs = [
        (k, level)
        for k, at, flag in zip(fed.s["k"], fed.s["at"], fed.s["flag"], strict=True)
        for other, level, when in zip(fed.e["k"], fed.e["level"], fed.e["at"], strict=True)
        if flag and k == other and abs(at - when) <= 1000
    ]
    assert len(pairs) > 50
    counts = [Join(level).answers(fed, Closing.ANY_ROW) for level in range(10)]
    assert counts == [sum(level == wanted for _, level in pairs) for wanted in range(10)]


def test_rows_a_second_apart_are_joined_and_no_others() -> None:
    times = np.array([999, 1000, 3000, 3001]) + rows_module.BASE_MS
    s = {"k": np.full(4, 7), "flag": np.full(4, True), "at": times}
    e = {"k": np.array([7, 8]), "level": np.array([2, 2]), "at": np.full(2, rows_module.BASE_MS + 2000)}
    assert Join(2).answers(Fed(s, e), Closing.ANY_ROW) == 2


def test_what_closes_a_window_decides_which_rows_are_counted(fed: Fed) -> None:
    of_code = fed.s["at"][fed.s["code"] == 3]
    ends = {Closing.ANY_ROW: fed.s["at"].max(), Closing.OWN_ROW: of_code.max()}
    question = Windowed(3, "avg")
    for closing, newest in ends.items():
        assert question.answers(fed, closing) == (of_code < newest // 10_000 * 10_000).sum() > 0
    assert question.answers(fed, Closing.THE_END) == len(of_code)
    first = Fed({name: column[fed.s["code"] == 3][:1] for name, column in fed.s.items()}, fed.e)
    assert question.answers(first, Closing.OWN_ROW) == 0
    assert Windowed(19_999, "avg").answers(first, Closing.OWN_ROW) == 0


def test_null_is_neither_above_nor_within_nor_far_from_anything(fed: Fed) -> None:
    nulls = Null("y").holds(fed.s)
    assert 0 < nulls.sum() < COUNT / 20
    for condition in (Within("y", -100, 100, "[]"), FarFromZero(-1.0), Null("y", wanted=False)):
        assert (condition.holds(fed.s) == ~nulls).all()


def test_the_mix_has_all_kinds_and_few_of_those_that_cost_each_row_something() -> None:
    some = [mixed(n) for n in range(2000)]
    assert sum(isinstance(question, Join) for question in some) == 10
    assert sum(isinstance(question, Windowed) for question in some) == 500
    costly = re.compile(r"abs\(| OR |LIKE '%")
    assert sum(bool(costly.search(question.sql())) for question in some) == 20
    assert len({re.sub(r"[\d.]+", "", indexable(n).sql()) for n in range(10)}) == 10


# -- other engines -------------------------------------------------------------------------------------------


def test_constants_go_beside_the_text_with_their_types(tmp_path: Path) -> None:
    write_questions(tmp_path, "some", [Selection("k", (Within("b", 5, 7, "()"), FarFromZero(3.5)))])
    (line,) = (tmp_path / "some.epl").read_text().splitlines()
    text, *constants = line.split("\t")
    assert text == "select k from s(b in (?:p1:long:?:p2:long) and Math.abs(y) > ?:p3:double)"
    assert constants == ["l5", "l7", "d3.5"]
    assert (tmp_path / "some.spark").read_text() == "SELECT k FROM s WHERE b > 5 AND b < 7 AND abs(y) > 3.5\n"


def test_texts_of_a_kind_differ_in_constants_only(tmp_path: Path) -> None:
    write_questions(tmp_path, "some", [mixed(n) for n in range(400)])
    texts = {line.split("\t")[0] for line in (tmp_path / "some.epl").read_text().splitlines()}
    assert len(texts) < 20


def test_files_hold_the_rows_once_as_lines_and_by_the_second(tmp_path: Path) -> None:
    fed = write_rows(tmp_path, 10 * PER_SECOND, 5 * PER_SECOND, PER_SECOND)
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert [int(line.split(",")[-1]) for line in lines] == fed.s["at"].tolist()
    assert len((tmp_path / "e.csv").read_text().splitlines()) == 5 * PER_SECOND // 100
    assert len(list((tmp_path / "s").glob("*.parquet"))) == len(list((tmp_path / "e").glob("*.parquet"))) == 10


class Scripted(Peers):
    """Peers that say what they are told to."""

    def __init__(self, change: int = 0) -> None:
        super().__init__(None)
        self._change = change
        self.fed: Fed | None = None

    def run(self, engine: str, arguments: Sequence[str], seconds: float = 0) -> dict[str, Any] | Missing:
        if engine != "esper":
            return Missing("there is none")
        assert self.fed is not None
        counts = [mixed(n).answers(self.fed, Closing.OWN_ROW) + self._change for n in range(20)]
        return {"seconds": 2.0, "rows": 100, "counts": counts, "version": "9", "notes": {"s of rest": 1.5}}


def contest(peers: Scripted, folder: Path) -> Contest:
    sizes = PeerSizes(esper=(20,), esper_rows=4000, warm_rows=0, flink=((10, 4000),), spark=2, spark_seconds=2)
    peers.fed = Fed.of([rows(0, 4000, PER_SECOND)], [events(0, 4000, PER_SECOND)])
    return Contest(peers, sizes, folder, 0, PER_SECOND)


def test_a_peers_speed_counts_if_its_answers_are_right(few_keys: None, tmp_path: Path) -> None:
    right = contest(Scripted(), tmp_path)
    beside = right.ask("mixed", mixed)
    assert beside.rows_per_second == {("esper", 20): 50.0}
    assert beside.keep_up is None
    assert right.notes == {
        "flink, 10 mixed": "missing: there is none",
        "esper, 20 mixed": "50 rows/s (version 9, 1.5 s of rest)",
        "spark, mixed": "missing: there is none",
    }


def test_a_peer_with_wrong_answers_ends_the_run(few_keys: None, tmp_path: Path) -> None:
    with pytest.raises(WrongAnswer, match="esper, 20 mixed: SELECT"):
        contest(Scripted(1), tmp_path).ask("mixed", mixed)


@pytest.mark.parametrize(
    ("limit", "tried"), [(5, [6, 4]), (7, [6, 8]), (100, [6, 8, 12]), (0, [6, 4, 2, 1]), (12, [6, 8, 12])]
)
def test_queries_are_tried_up_while_they_keep_up_or_down_until_they_do(limit: int, tried: list[int]) -> None:
    asked = AskedInTime("", "mixed", 6, 0, 0, 0, 1, ladder=_ladder(6))
    steps = _climb(asked, lambda count: Step(count, 1.0 if count <= limit else 9.0, []))
    assert [step.statements for step in steps] == tried


def test_rows_are_late_until_the_end_of_the_micro_batch_that_took_them_in() -> None:
    def report(rows: int, second: int, took: int) -> dict[str, Any]:
        sources = [
            {"description": "FileStreamSource[file:/tmp/x/e]", "numInputRows": 1},
            {"description": "FileStreamSource[file:/tmp/x/s]", "numInputRows": rows},
        ]
        timestamp = f"1970-01-01T00:00:{second:02d}.000Z"
        return {"timestamp": timestamp, "durationMs": {"triggerExecution": took}, "sources": sources}

    came = [1.0, 2.0, 3.0, 4.0]
    on_time = [report(10, n, 500) for n in (1, 2, 3, 4)]
    assert _late(on_time, came, 10) == 0.5
    assert _late([*on_time[:2], report(20, 5, 1000)], came, 10) == 3.0
    assert _late([report(20, 20, 0), report(20, 21, 0)], came, 10) == 18.0


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    assert programs.said(["echo", "fine"], 10) == "fine\n"
    assert programs.said([str(tmp_path / "nothing")], 10) == Missing(
        f"[Errno 2] No such file or directory: '{tmp_path / 'nothing'}'"
    )
    assert programs.said(["sh", "-c", "echo '[ERROR] this'; echo that >&2; exit 1"], 10) == Missing("[ERROR] this")
    assert programs.said(["sh", "-c", "echo this; echo that >&2; exit 1"], 10) == Missing("that")
    assert programs.said(["sleep", "60"], 0.05) == Missing("it was not done after 0.05 s")


def test_without_maven_a_java_program_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = java.program(tmp_path / "peers", "esper")
    assert found == Missing("could not build esper: [Errno 2] No such file or directory: 'mvn'")


def test_questions_of_every_kind_can_be_put_to_each_engine() -> None:
    asked: list[Question] = [Join(3), Windowed(5, "median")]
    assert "BETWEEN b.ts - INTERVAL '1' SECOND" in asked[0].flink()
    assert "BETWEEN b.at - INTERVAL 1 SECONDS" in asked[0].spark()
    assert "PERCENTILE(x, 0.5)" in asked[1].flink()
    assert "window(at, '10 seconds')" in asked[1].spark()
    assert asked[1].epl().text.endswith("#ext_timed_batch(at, 10 sec, 0L)")

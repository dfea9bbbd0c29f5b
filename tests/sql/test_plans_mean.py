"""Plans mean what the language says: the answers written in `.slt` files, from plans carried out naively."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from anabranch.schema import TIME_TYPE, StreamSchema
from anabranch.sql import StandingPlan, parse, plan_standing
from anabranch.sql.statements import CreateQuery, CreateStream, SelectOnce
from anabranch.testing import OperatorHarness
from anabranch.testing.slt import File, read
from anabranch.testing.slt.cells import same_cells, shown, split, table_of, time_of
from tests.sampling import examples
from tests.sql.naive import Log, answers

FILES = [
    read(Path(__file__).parents[1] / "slt" / "windows" / f"{name}.slt")
    for name in (
        "approximate",
        "changes",
        "distinct",
        "having",
        "hints",
        "median_percentile",
        "mode_count_distinct",
        "order_limit",
        "rows",
        "rows_of_windows",
        "set_operations",
        "sliding",
    )
]


class Naive:
    """Streams that only grow, and queries that are asked anew each time."""

    def __init__(self) -> None:
        self.schemas: dict[str, StreamSchema] = {}
        self.logs: dict[str, Log] = {}
        self.plans: dict[str, StandingPlan] = {}

    def run(self, text: str) -> None:
        for statement in parse(text):
            if isinstance(statement, CreateStream):
                schema = StreamSchema.of(dict(statement.columns), time=statement.time)
                self.schemas[statement.name] = schema
                self.logs[statement.name] = Log(schema.arrow.empty_table(), schema.time, -(2**62))
            elif isinstance(statement, CreateQuery):
                self.plans[statement.name] = plan_standing(statement.select, self.schemas.__getitem__)

    def push(self, stream: str, lines: tuple[str, ...]) -> None:
        log = self.logs[stream]
        rows = pa.concat_tables([log.rows, table_of(lines, self.schemas[stream].arrow)])
        reached = rows.column(log.time_column).cast(pa.int64())[-1].as_py()
        self.logs[stream] = Log(rows, log.time_column, max(reached, log.reached))

    def advance(self, stream: str, time: str) -> None:
        log = self.logs[stream]
        self.logs[stream] = Log(log.rows, log.time_column, time_of(time))

    def answers(self, query: str) -> pa.Table:
        plan = self.plans[query]
        assert plan.schema is not None
        rows = answers(plan.operator, self.logs)
        columns = [[row[i] for row in rows] for i in range(len(plan.schema.names))]
        arrays = [
            pa.array(column, pa.int64()).cast(TIME_TYPE) if field.type == TIME_TYPE else pa.array(column, field.type)
            for field, column in zip(plan.schema.arrow, columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=plan.schema.arrow)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_answers_of_a_file_are_those_of_its_plans(file: File) -> None:
    naive, asked = Naive(), 0
    for record in file.records:
        if record.kind == "statement":
            naive.run("\n".join(record.body))
        elif record.kind == "push":
            naive.push(record.words[0], record.body)
        elif record.kind == "advance":
            naive.advance(record.words[0], " ".join(record.words[1:]))
        elif record.kind == "answers":
            assert record.expected is not None
            got = shown(naive.answers(record.words[0]))
            names, *rows = [split(line) for line in record.expected]
            assert (names, [same_cells(row, got.kinds) for row in rows]) == (got.names, got.cells), str(record)
            asked += 1
    assert asked


# -- and operators do what plans mean ----------------------------------------------------------------

SCHEMA = StreamSchema.of({"k": "STRING", "v": "INT", "ts": "TIMESTAMP"}, time="ts")
SLIDING = "FROM s WINDOW = INTERVAL 20 SECONDS SLIDE INTERVAL 10 SECONDS"
QUERIES = [
    f"SELECT k, median(v) AS m, percentile(v, 0.9) AS p, mode(v) AS o, count(DISTINCT v) AS d, sum(v) AS s {SLIDING} "
    "GROUP BY k",
    "SELECT window_start, percentile_disc(0.5) WITHIN GROUP (ORDER BY k) AS d, mode(k) AS m FROM s "
    "WINDOW = 5 ROWS SLIDE 2 ROWS WHERE v <> 3",
    "SELECT count(DISTINCT k) AS ks, approx_median(v) AS m, approx_count_distinct(v) AS vs FROM s "
    "WINDOW = INTERVAL 10 SECONDS HAVING count(*) > 1",
    f"SELECT v, count(*) AS n {SLIDING} GROUP BY v ORDER BY n DESC, v NULLS LAST LIMIT 3",
    f"SELECT k, v, window_start {SLIDING} WHERE v > 0 ORDER BY v DESC, k LIMIT 4",
    "SELECT *, window_end FROM s WINDOW = 4 ROWS SLIDE 3 ROWS",
    f"SELECT DISTINCT k, v % 2 AS odd {SLIDING} ORDER BY odd DESC",
    f"SELECT k {SLIDING} EMIT CHANGES",
    "SELECT k, v FROM s WINDOW = 3 ROWS SLIDE 1 ROWS WHERE v > 1 EMIT CHANGES",
    f"SELECT k, count(*) AS n {SLIDING} GROUP BY k EMIT CHANGES",
    f"SELECT k, v {SLIDING} INTERSECT SELECT k, v {SLIDING.replace('FROM s', 'FROM t')}",
    f"SELECT k {SLIDING} EXCEPT ALL SELECT k {SLIDING.replace('FROM s', 'FROM t')} WHERE v > 2",
    f"SELECT k, count(*) AS n {SLIDING} GROUP BY k UNION ALL SELECT k, v {SLIDING.replace('FROM s', 'FROM t')}",
    "SELECT k FROM s WINDOW = 3 ROWS UNION SELECT k FROM s WINDOW = 3 ROWS WHERE v = 1",
    f"SELECT k {SLIDING} INTERSECT SELECT k {SLIDING.replace('FROM s', 'FROM t')} EMIT CHANGES",
]

ROW = st.tuples(
    st.sampled_from(["a", "b", "c", None]), st.one_of(st.none(), st.integers(0, 6)), st.sampled_from([0, 1, 3, 10, 45])
)


def rows_of(drawn: list[tuple[str | None, int | None, int]]) -> pa.Table:
    """Rows whose times are so many seconds after each other."""
    times = [sum(step for _, _, step in drawn[: i + 1]) * 1_000_000 for i in range(len(drawn))]
    arrays = [
        pa.array([k for k, _, _ in drawn], pa.string()),
        pa.array([v for _, v, _ in drawn], pa.int32()),
        pa.array(times, pa.int64()).cast(TIME_TYPE),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA.arrow)


@pytest.mark.parametrize("text", QUERIES)
@examples(40, suppress_health_check=list(HealthCheck))
@given(drawn=st.lists(ROW, min_size=1, max_size=25), other=st.lists(ROW, min_size=1, max_size=15), data=st.data())
def test_operators_answer_as_plans_mean(
    text: str,
    drawn: list[tuple[str | None, int | None, int]],
    other: list[tuple[str | None, int | None, int]],
    data: Any,
) -> None:
    (statement,) = parse(text)
    assert isinstance(statement, SelectOnce)
    plan = plan_standing(statement.select, lambda _: SCHEMA)
    naive, tables = Naive(), {"s": rows_of(drawn), "t": rows_of(other)}
    harness = OperatorHarness(plan.operator, dict.fromkeys(plan.operator.inputs, SCHEMA))
    naive.plans["q"] = plan
    last = max(int(table.column("ts").cast(pa.int64())[-1].as_py()) for table in tables.values())
    for name in plan.operator.inputs:
        harness.push(name, tables[name])
    got = [harness.run(rows=data.draw(st.integers(1, 12)))]
    beat = last + data.draw(st.sampled_from([0, 10, 35])) * 1_000_000
    for name in plan.operator.inputs:
        harness.advance(name, beat)
        naive.logs[name] = Log(tables[name], "ts", beat)
    got.append(harness.run())
    together = shown(pa.concat_tables(got))
    assert together == shown(naive.answers("q"))

"""Every benchmark, tiny, through the code that makes the real figures."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import __main__ as command
from benchmarks import append, pipeline
from benchmarks.harness import Bar, Figure, Report, WrongAnswer, percentile
from benchmarks.many_queries import suite as many_queries
from benchmarks.packets import START, WINDOW, Packets
from benchmarks.pages import replaced
from benchmarks.windows import suite as windows

from .tiny_archive import ARCHIVE
from .tiny_merge import MERGE
from .tiny_window_join import JOIN
from .tiny_windows import BARS, FIGURES_SIZES, SPARK

TINY: dict[str, Any] = {
    "append": append.Sizes(rows=20_000, batch=1000, small_appends=20, small_rows=10),
    "pipeline": pipeline.Sizes(rows=6000, batch_rows=3000, rounds=1, single_rows=3, feed_seconds=1, event_seconds=60),
    "windows": windows.Sizes(FIGURES_SIZES, BARS, SPARK),
    "window_join": JOIN,
    "merge": MERGE,
    "many_queries": many_queries.Sizes((1, 20), 2000, 1, 2000, 1, 3, 100, 200, 4000, peers=None),
    "archive": ARCHIVE,
}
FIGURES = {
    "append": {
        "append_rows_per_second",
        "resident_growth",
        "small_appends_per_second",
        "small_append_p50",
        "small_append_p99",
    },
    "pipeline": {
        "whole_rows_per_second",
        "steady_rows_per_second",
        "start_to_first_batch",
        "fixed_cost_median",
        "append_to_wait_median",
        "latency_p50",
        "latency_p99",
        "fed_rows_per_second",
    },
    "windows": {
        "default_index_2000_tuples_per_second",
        "default_index_5000_tuples_per_second",
        "default_index_tuples_per_second",
        "histogram_slide",
        "histogram_speedup",
        *(f"aggregate_{keys}_{n}_basic_windows" for keys in ("no_keys", "10_keys") for n in (10, 100, 1000)),
        "cost_flatness",
        "sql_median_1000_rows_slide_500",
        "sql_median_speedup",
        "overlaps_steady_rows_per_second",
        "overlaps_speedup",
        "overlaps_rows_per_second",
        "spark_window_10_overlaps",
        "spark_window_100_overlaps",
    },
    "window_join": {
        "two_way",
        "two_way_whole",
        "two_way_steady",
        "backlog",
        "backlog_whole",
        "operator_on_one_core",
        "kernel_on_one_core",
        *(f"{n}_way_{windows}" for n in ("three", "four") for windows in ("uniform", "different")),
        "band",
        "band_whole",
        "dense_band",
        "dense_band_whole",
        "micro_batch_with_a_window_of_10_s",
        "micro_batch_with_a_window_of_20_s",
        "window_growth_cost",
    },
    "merge": {
        "merge_on_one_core",
        "merge_from_parquet",
        "merge_from_packed_parquet",
        "merge_kernel",
        "merge_kernel_in_order",
        "range_queries",
        "range_queries_one_by_one",
        "tables_1_and_2_points_from_the_paper",
        "tables_3_and_4_points_from_the_paper",
        "rtm",
        "rtm_by_the_letter",
        "servers_merged",
        "servers_over_the_longer_part",
        "servers_fetch_alone",
        "servers_merge_alone",
        "standing_query",
        "standing_query_whole",
        "standing_query_steady",
    },
    "many_queries": {
        "selections_100_rows_per_second",
        "equalities_200_rows_per_second",
        *(
            f"{name}_{count}_{figure}"
            for name in ("indexable", "mixed")
            for count in (1, 20)
            for figure in (
                "lag_p99",
                "fed_rows_per_second",
                "backlog_rows_per_second",
                "memory",
                "spark_queries",
                "made_per_second",
            )
        ),
        *(f"{name}_cost_per_row_20_over_20" for name in ("indexable", "mixed")),
        "create_p99",
        "drop_p99",
        "first_answer_max",
        "open_again",
        *(f"latency_{count}_{part}" for count in (1, 100) for part in ("p50", "p99")),
    },
    "archive": {
        *(f"insert_{name}" for name in ("plain", "on_write_replicate", "on_read_modify", "on_read_modify_with_copy")),
        *(f"{what}_blocks_{blocks}" for what in ("insert", "archive") for blocks in (10, 100, 500)),
        *(f"archive_{name}" for name in ("plain", "on_write_replicate")),
        *(f"bytes_beside_what_is_kept_blocks_{blocks}" for blocks in (10, 100, 500)),
        *(f"query_at_99_percent{by}" for by in ("", "_against_spark", "_against_plain_archive", "_against_plain_sql")),
        "coverage_lowest",
        "coverage_highest",
        "overload_longest_lag_with_load",
        "overload_median_lag_with_load",
        "overload_last_lag_without_load",
        "overload_bounds_held",
        "overload_median_fraction_read",
        "average_within_1_percent_seconds",
    },
}


def run_tiny(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run the command as a user would, with sizes for a test, and give its last line."""
    benchmark = command.BENCHMARKS[name]._replace(quick=TINY[name])
    monkeypatch.setitem(command.BENCHMARKS, name, benchmark)
    assert command.main([name, "--quick"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {"benchmark", "quick", "peer", "sizes", "figures", "notes", "bars", "bars_met", "machine"} <= set(found)
    assert set(found["figures"]) == FIGURES[name]
    assert found["benchmark"] == name
    assert found["machine"]["cores"] >= 1
    assert len(found["machine"]["load_average_at_start"]) == 3
    return found


def test_every_benchmark_has_a_tiny_size() -> None:
    """Of views and Nexmark the parts are tested: `test_views.py`, and `tests/nexmark`."""
    assert set(TINY) == set(FIGURES) == set(command.BENCHMARKS) - {"views", "nexmark"}


@pytest.mark.slow
def test_append_says_its_figures(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = run_tiny("append", monkeypatch, capsys)
    speed = found["figures"]["append_rows_per_second"]
    assert speed["ratio"] == pytest.approx(speed["value"] / speed["peer"], rel=1e-3)
    assert speed["met"] == (speed["ratio"] >= 0.7)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_pipeline_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("pipeline", monkeypatch, capsys)
    assert found["figures"]["steady_rows_per_second"]["peer"] > 0
    assert {"addBatch", "walCommit", "commitOffsets", "queryPlanning", "latestOffset"} <= set(
        found["notes"]["fixed_cost_ms"]
    )


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_windows_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("windows", monkeypatch, capsys)
    assert found["bars"] == 5
    assert found["figures"]["sql_median_1000_rows_slide_500"]["peer"] > 0
    assert {cell["index"] for cell in found["cells"]} >= {"L", "T", "H", "UH", "G10", "none"}
    assert len(found["orderings"]) > 15


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_window_join_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("window_join", monkeypatch, capsys)
    assert found["figures"]["two_way"]["peer"] > 0
    assert found["figures"]["four_way_different"]["peer"] > 0
    assert found["notes"]["peers"]["duckdb"] == "missing: no peers were asked for"
    assert {curve["join"] for curve in found["curves"]} == {"NLW-join", "ripple join", "HW-join", "XJoin"}
    assert len(found["claims"]) == 8


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_many_queries_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("many_queries", monkeypatch, capsys)
    assert found["bars"] == 20
    assert found["notes"]["peers"] == "no peers were asked for"


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_merge_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("merge", monkeypatch, capsys)
    assert found["bars"] == 4
    assert found["notes"]["peers"]["polars"] == "missing: no peers were asked for"
    assert len(found["cells"]) == 24
    assert len(found["range_cells"]) == 8
    assert all(0 < cell["match"] <= 100 and cell["total"] > 0 for cell in found["cells"])
    assert len(found["claims"]) == 8


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_archive_says_its_figures(
    spark: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run_tiny("archive", monkeypatch, capsys)
    assert found["bars"] == 14
    assert found["notes"]["peers"]["duckdb"] == "missing: no peers were asked for"
    assert len(found["inserts"]) == 7
    assert {read["variant"] for read in found["reads"]} >= {"plain", "blocks_500", "on_read_modify_vacuumed"}
    assert [course["reducer"] is None for course in found["overload"]] == [False, True]
    assert all(course["answers"] and course["lags"] for course in found["overload"])
    assert len(found["coverage"]) == 60
    assert len(found["claims"]) == 14


def test_a_wrong_answer_ends_without_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Forgetful(append.PlainFiles):
        def append(self, table: Any) -> None:
            super().append(table.slice(1))

    monkeypatch.setattr(append, "PlainFiles", Forgetful)
    monkeypatch.setitem(command.BENCHMARKS, "append", command.BENCHMARKS["append"]._replace(quick=TINY["append"]))
    assert command.main(["append", "--quick"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "wrong answer" in printed.err


def test_the_answer_check_of_the_pipeline_sees_one_wrong_count() -> None:
    packets = Packets(20_000, 1000, 40)
    expected = packets.expected()
    columns = _columns(expected)
    pipeline._check("it", *columns, expected)
    (key, count), *_ = expected.items()
    with pytest.raises(WrongAnswer, match="not the"):
        pipeline._check("it", *columns, {**expected, key: count + 1})
    with pytest.raises(WrongAnswer, match="more than once"):
        pipeline._check("it", *_columns(expected, twice=True), expected)


def _columns(expected: dict[tuple[int, str], int], *, twice: bool = False) -> tuple[Any, Any, Any]:
    import pyarrow as pa

    rows = [(end, key, n) for (end, key), n in expected.items()] * (2 if twice else 1)
    ends, keys, counts = (list(column) for column in zip(*rows, strict=True))
    times = pa.array(ends, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return pa.chunked_array([times]), pa.chunked_array([keys]), pa.chunked_array([counts])


def test_expected_counts_are_those_of_the_rows() -> None:
    packets = Packets(5000, 700, 33)
    counts: dict[tuple[int, str], int] = {}
    for table in packets.batches():
        for row in table.to_pylist():
            end = (int(row["ts"].timestamp()) * 1_000_000 // WINDOW + 1) * WINDOW
            if row["length"] > 100:
                counts[end, row["saddr"]] = counts.get((end, row["saddr"]), 0) + 1
    last = START + 33_000_000
    assert packets.expected() == {key: n for key, n in counts.items() if key[0] <= last}


def test_without_a_name_each_benchmark_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(command.BENCHMARKS)


def test_the_json_file_holds_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report = Report("nobody", replace(TINY["append"]), [Figure("speed", 3, "rows/s", peer=2, bar=Bar(1.4, "at least"))])
    benchmark = command.BENCHMARKS["append"]._replace(run=lambda sizes: report)
    monkeypatch.setitem(command.BENCHMARKS, "append", benchmark)
    assert command.main(["append", "--json", str(tmp_path / "figures.json")]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert (tmp_path / "figures.json").read_text() == line + "\n"
    assert json.loads(line)["figures"]["speed"] == {
        "value": 3.0, "unit": "rows/s", "peer": 2.0, "ratio": 1.5, "bar": "≥ 1.4", "met": True,
    }  # fmt: skip


def test_a_missed_bar_shows_in_the_table() -> None:
    report = Report("nobody", TINY["append"], [Figure("cost", 300, "ms", bar=Bar(200, "at most"))])
    console = Console(record=True, width=120, file=io.StringIO())
    report.show("pipeline", {"cores": 2, "load_average_at_start": [0.5, 0, 0]}, console)
    text = console.export_text()
    assert "missed" in text
    assert "≤ 200" in text


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentile_is_a_value_of_the_list(share: float, value: float) -> None:
    assert percentile(range(100, 0, -1), share) == value


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    page = "<!-- bars: begin, made by `python -m benchmarks append` -->\nold\n<!-- bars: end -->\n"
    assert "old" not in replaced(page, "append", "bars", "new")
    with pytest.raises(ValueError, match="no place for 'run'"):
        replaced(page, "append", "run", "new")
    with pytest.raises(ValueError, match="no place for 'bars'"):
        replaced(page, "windows", "bars", "new")

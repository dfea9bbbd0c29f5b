"""docs/functions.md as the tables of functions say it should be; run as a module it is written anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from anabranch.expressions.functions import SCALARS
from anabranch.expressions.functions.declaring import ScalarFunction
from anabranch.functions.aggregates import AggregateFunction, rows
from anabranch.operators.windows.explain import INCREMENTAL, WITH_HISTOGRAM

from .markdown import DOCS

PATH = DOCS / "functions.md"
MARK = "<!-- Below here the tables of functions are written out: python -m tests.docs.functions_page -->\n"


def written() -> str:
    """All that stands below the mark."""
    return "\n".join([MARK, *_aggregates(), *_scalars()])


def _aggregates() -> Iterator[str]:
    windowed = [row for row in rows() if row.in_windows]
    yield "## Aggregates\n"
    yield from _table(
        ("aggregate", "", "of", "type", "of nothing", "class", "with bounds", "example"),
        (
            (
                ", ".join(f"`{call}`" for call in _calls(row)),
                row.doc + _error(row),
                row.takes,
                row.gives,
                _shown(row.empty),
                _class(row),
                "yes" if row.estimator else "",
                _example(row),
            )
            for row in windowed
        ),
    )
    yield "### Aggregates of Spark SQL\n"
    yield "Only for questions that are asked once.\n"
    yield from _table(("aggregate", ""), ((f"`{row.name}`", row.doc) for row in rows() if not row.in_windows))


def _calls(row: AggregateFunction) -> list[str]:
    calls = []
    for name in row.names:
        match row.form:
            case "value":
                calls += [f"{name}(*)", f"{name}(x)"] if row.of_rows else [f"{name}(x)"]
            case "condition":
                calls.append(f"{name}(condition)")
            case "value and share":
                calls.append(f"{name}(x, p)")
            case "value, perhaps error":
                calls += [f"{name}(x)", f"{name}(x, e)"]
            case "distinct":
                calls += [f"{each.name}(DISTINCT x)" for each in rows() if each.distinct == name]
        if row.within_group:
            calls.append(f"{name}({'p' if row.parameter else ''}) WITHIN GROUP (ORDER BY x)")
    return calls


def _error(row: AggregateFunction) -> str:
    usual = None if row.parameter is None else row.parameter.default
    return "" if row.error is None else f" Error: {row.error(usual or 0.0)}{' unless given' if usual else ''}."


def _class(row: AggregateFunction) -> str:
    if row.kind != "holistic":
        return f"{row.kind}, {INCREMENTAL.partition(':')[0]}"
    histogram = WITH_HISTOGRAM.removesuffix(" of the window")
    return f"holistic, {histogram.replace('a histogram', 'a coarse histogram') if row.approximate else histogram}"


def _scalars() -> Iterator[str]:
    functions = list({row.name: row for row in SCALARS.values()}.values())
    for group in dict.fromkeys(row.group for row in functions):
        yield f"## {group.capitalize()}\n"
        yield from _table(
            ("function", "", "evaluated by", "example"),
            (
                (", ".join(f"`{name}`" for name in row.names), row.doc, _where(row), _example(row))
                for row in functions
                if row.group == group
            ),
        )


def _where(row: ScalarFunction) -> str:
    instead = row.in_spark.get(row.name)
    if row.rules:
        where = "Arrow: " + "; ".join(dict.fromkeys(rule.typing for rule in row.rules.values()))
    elif instead is not None:
        constants = ", ".join(f"'{value}'" for value in instead.before)
        where = f"as `{instead.name}({constants}, x)`"
    else:
        where = "Spark SQL" + "".join(f": {reason}" for reason in dict.fromkeys(row.refused.values()))
    return where + {"never": "", "always": "; not in standing queries"}.get(
        row.varies, f"; not in standing queries {row.varies}"
    )


def _example(row: AggregateFunction | ScalarFunction) -> str:
    return "" if row.example is None else f"`{row.example.call}` = {_shown(row.example.gives)}"


def _shown(value: Any) -> str:
    return "NULL" if value is None else f"`{value!r}`" if isinstance(value, str) else str(value).lower()


def _table(heads: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> Iterator[str]:
    lines = [heads, ("---",) * len(heads), *([cell.replace("|", "\\|") for cell in row] for row in cells)]
    yield "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    before = PATH.read_text(encoding="utf-8").partition(MARK)[0]
    PATH.write_text(before + written(), encoding="utf-8")

"""The queries of Nexmark as we write them, and what asks DuckDB the same over all events at once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent
_PART = re.compile(r"^-- (q\d+)([^:\n]*)(?:: ([^\n]*))?\n(.*?)(?=^-- q|\Z)", re.M | re.S)
_MADE = re.compile(r"CREATE (MATERIALIZED VIEW|CONTINUOUS QUERY) (\w+) AS\s")
_BOUND = re.compile(r"\s(ACCEPT UNBOUNDED|EXPIRE AFTER INTERVAL 1 DAY)\s*\Z")


@dataclass(frozen=True)
class Query:
    """A query of Nexmark: `number` is that of the benchmark, `how` says how much of it is as it is published."""

    name: str
    number: int
    how: str
    statement: str

    @property
    def is_view(self) -> bool:
        return "MATERIALIZED VIEW" in self.statement

    @property
    def needs_spark(self) -> bool:
        return self.how == "on Spark"

    @property
    def select(self) -> str:
        """The question alone."""
        return _BOUND.sub("", _MADE.sub("", self.statement, count=1)).strip()

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(name for name in ("person", "auction", "bid") if re.search(rf"\b{name}\b", self.statement))


def _queries() -> dict[str, Query]:
    found = {}
    for number, _, how, text in _PART.findall((_FOLDER / "queries.sql").read_text()):
        made = _MADE.search(text)
        assert made is not None, text
        found[made[2]] = Query(made[2], int(number[1:]), how, text.strip())
    return found


QUERIES = _queries()
"""By their names; a query may be there in more than one way."""
_ORACLES = {name: text.strip() for name, _, _, text in _PART.findall((_FOLDER / "oracle.sql").read_text())}


def for_duckdb(query: Query) -> str:
    """The same question, with windows written out, and ties broken as we do: by the other columns in their order."""
    if query.name in _ORACLES:
        return str(_ORACLES[query.name])
    text = re.sub(r" FOR SYSTEM_TIME AS OF B\.date_time", "", query.select)
    text = re.sub(r"DATE_FORMAT\((\w+), 'yyyy-MM-dd'\)", r"strftime(\1, '%Y-%m-%d')", text)
    text = re.sub(r"DATE_FORMAT\((\w+), 'HH:mm'\)", r"strftime(\1, '%H:%M')", text)
    if query.name == "q19":
        text = text.replace("price DESC)", "price DESC, auction, bidder, channel, url, date_time, extra)")
    return text

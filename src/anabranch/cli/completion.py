"""What may come next while a statement is typed: keywords, functions, names, columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from anabranch.connectors import CONNECTORS, sources
from anabranch.functions import function_names
from anabranch.log.stream import APPENDED
from anabranch.sql.checking.safety import WITHIN
from anabranch.sql.reading.names import quoted
from anabranch.sql.standing.columns import WINDOW_COLUMNS
from anabranch.sql.statements import STATEMENTS

_SPARK_KEYWORDS = (
    "AND", "AS", "ASC", "BETWEEN", "BY", "CASE", "CAST", "CONTINUOUS QUERY", "CREATE", "DESC", "DISTINCT", "ELSE",
    "END", "EXCEPT", "FILTER", "GROUP BY", "IN", "INTERSECT", "INTERVAL", "IS", "LIKE", "NOT", "NULL", "OR", "THEN",
    "TIMESTAMP", "UNION", "WHEN",
)  # fmt: skip
_PHRASE = re.compile(r"\b[A-Z]{2,}(?: [A-Z]{2,})*\b(?: =)?")


def _keywords() -> tuple[str, ...]:
    """Names of statements, and what stands in capitals in the syntax of each."""
    phrases = (phrase for statement in STATEMENTS for phrase in (statement.name, *_PHRASE.findall(statement.syntax)))
    return tuple(sorted({*phrases, *_SPARK_KEYWORDS}))


KEYWORDS: tuple[str, ...] = _keywords()
UNITS: tuple[str, ...] = (
    "MICROSECONDS", "MILLISECONDS", "SECOND", "SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS",
)  # fmt: skip

_WORD = re.compile(r"[\w]*$")
_QUALIFIED = re.compile(r"(\w+)\.\w*$")
_WANTS_NAME = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING|SUBSCRIBE\s+TO|DESCRIBE|QUERY|STREAM|,)\s+\w*$", re.IGNORECASE
)
_WANTS_UNIT = re.compile(r"\bINTERVAL\s+'?\d+'?\s+\w*$", re.IGNORECASE)
_SOURCES = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(\w+)(?:\s+(?:AS\s+)?(\w+))?", re.IGNORECASE)
_DECLARES = re.compile(r"\bCREATE\s+STREAM\b(?:(?!\bSELECT\b)[^;])*$", re.IGNORECASE)
_WANTS_SOURCE = re.compile(r"\bFROM\s+\w*$", re.IGNORECASE)
_SOURCE = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)
_WANTS_OPTION = re.compile(r"\bOPTIONS\s*\((?:[^)]*,)?\s*\w*$", re.IGNORECASE)
_OFFERED_UNASKED = ("column", "stream", "query", "unit", "source", "option")
"""Kinds that are offered before a letter is typed."""


@dataclass(frozen=True)
class Names:
    """What the catalog holds: the columns of each stream, table and query."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    queries: frozenset[str] = frozenset()


def candidates(before: str, after: str, names: Names) -> Iterator[tuple[str, str]]:
    """What fits at the cursor, with its kind, best first; all begin with the word being typed."""
    if _inside_quotes(before):
        return
    match = _WORD.search(before)
    word = match[0] if match else ""
    typed = word.lower()
    lists = list(_groups(before, before + after, names))
    if not word and not any(kind in _OFFERED_UNASKED for _, kind in lists):
        return
    seen: set[str] = set()
    for text, kind in lists:
        if text.lower().lstrip("`").startswith(typed) and text.lower() != typed and text not in seen:
            seen.add(text)
            yield text, kind


def _groups(before: str, whole: str, names: Names) -> Iterable[tuple[str, str]]:
    if qualified := _QUALIFIED.search(before):
        known = {name.lower(): name for name in names.columns}
        aliases = {alias.lower(): stream for stream, alias in _SOURCES.findall(whole) if alias}
        meant = str(aliases.get(qualified[1].lower(), qualified[1]))
        stream = known.get(meant.lower())
        return [(quoted(column), "column") for column in names.columns.get(stream or "", ())]
    if declares := _DECLARES.search(before):
        if _WANTS_SOURCE.search(declares[0]):
            return [(name, "source") for name in sources()]
        if _WANTS_OPTION.search(declares[0]):
            return [(name, "option") for name in _options(declares[0])]
    if _WANTS_UNIT.search(before):
        return [(unit, "unit") for unit in UNITS]
    streams = [(quoted(n), "query" if n in names.queries else "stream") for n in sorted(names.columns)]
    if _WANTS_NAME.search(before) and not re.search(r"\bSELECT\b[^;]*,\s*\w*$", _last_clause(before), re.IGNORECASE):
        return [*streams, *((k, "keyword") for k in KEYWORDS)]
    read = {stream.lower() for stream, _ in _SOURCES.findall(whole)}
    columns = {c: None for n, cs in names.columns.items() if n.lower() in read for c in cs}
    word = before[-1:].isalnum() or before[-1:] == "_"
    rest = [*((f, "function") for f in _functions()), *((k, "keyword") for k in KEYWORDS), *streams] if word else []
    return [*((quoted(c), "column") for c in columns), *rest]


def _options(declaration: str) -> list[str]:
    """The options that a CREATE STREAM takes, as far as it is typed."""
    source = _SOURCE.search(declaration)
    connector = CONNECTORS.get(source[1].lower() if source else APPENDED)
    return [option.name for option in connector.options] if connector is not None else []


def _functions() -> list[str]:
    """What can be called, and what stands beside that inside a window or a merge."""
    return sorted([*function_names(), WITHIN, *WINDOW_COLUMNS])


def _last_clause(before: str) -> str:
    """The text since the last FROM: a comma before FROM separates columns, after it streams."""
    return re.split(r"\bFROM\b", before, flags=re.IGNORECASE)[-1] if re.search(r"\bFROM\b", before, re.I) else before


def _inside_quotes(before: str) -> bool:
    bare = re.sub(r"'(?:[^'\\]|\\.|'')*'|--[^\n]*\n|/\*.*?\*/", "", before, flags=re.DOTALL)
    return "'" in bare or "--" in bare or "/*" in bare


class SqlCompleter(Completer):
    """`candidates` for the prompt; keywords follow the case of what was typed."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        before, after = document.text_before_cursor, document.text_after_cursor
        match = _WORD.search(before)
        word = match[0] if match else ""
        if not word and not complete_event.completion_requested:
            return
        for text, kind in candidates(before, after, self._names()):
            shown = text.lower() if kind in ("keyword", "unit") and word.islower() else text
            yield Completion(shown, start_position=-len(word), display_meta=kind)

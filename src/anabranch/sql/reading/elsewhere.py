"""What other systems have and this one does not, as people who know them write it, and what to write here instead.

Each row has an example that can be run over the streams `s (k, v, ts)` and `t (k, w, ts)`; the tests do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token

from anabranch.errors import SqlError
from anabranch.sql.reading.cursor import Cursor, word
from anabranch.sql.reading.tokens import error_at


@dataclass(frozen=True)
class Instead:
    """What to write; an empty example: it is nothing that SQL says."""

    example: str
    because: str = ""

    @property
    def hint(self) -> str:
        write = f"write {self.example}" if self.example else ""
        return "; ".join(filter(None, (self.because, write)))


_TUMBLING = Instead("SELECT k, window_start, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k")
_HOPPING = Instead(
    "SELECT k, window_start, count(*) AS n FROM s WINDOW = INTERVAL 5 MINUTES SLIDE INTERVAL 1 MINUTE GROUP BY k"
)
_SESSION = Instead("SELECT k, window_start, count(*) AS n FROM s WINDOW = SESSION INTERVAL 10 MINUTES GROUP BY k")
_ARRIVAL = Instead("CREATE STREAM arriving (k STRING)", "a stream without TIMESTAMP BY is stamped on arrival, in _time")
_TIME = Instead("SELECT k, ts FROM s", "the time of a row is its column, and how far a stream has come is no value")
_LATE = Instead(
    "CREATE STREAM events (k STRING, ts TIMESTAMP) TIMESTAMP BY ts ALLOW SKEW INTERVAL 5 SECONDS",
    "ALLOW SKEW says how late rows may be",
)
_KEYS = Instead(
    "CREATE TABLE kept (k STRING PRIMARY KEY, v INT)", "rows of a stream have no keys; those of a table do, and change"
)
_STANDING = Instead(
    "CREATE MATERIALIZED VIEW named AS SELECT k, v FROM t",
    "an answer that keeps up is there for others, too: its rows are a view, or a stream that only grows",
)
_AGGREGATED = Instead(
    "CREATE CONTINUOUS QUERY n AS SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k",
    "what keeps up is a standing query",
)
_FOLLOW = Instead("SUBSCRIBE TO s")
_FIRST_OF_WINDOW = Instead("SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE ORDER BY v DESC LIMIT 3")
RANKED = Instead(_FIRST_OF_WINDOW.example, "ORDER BY and LIMIT are those of each window")
AS_OF = Instead(
    "SELECT s.k, t.w FROM s, t WINDOW = INTERVAL 5 MINUTES WHERE s.k = t.k", "a join says how far apart rows may lie"
)
SEMI_JOIN = Instead(
    "SELECT s.k FROM s LEFT SEMI JOIN t ON s.k = t.k WINDOW = INTERVAL 5 MINUTES",
    "a semi join says how far apart rows may lie",
)
ANTI_JOIN = Instead(
    "SELECT s.k FROM s LEFT ANTI JOIN t ON s.k = t.k WINDOW = INTERVAL 5 MINUTES",
    "an anti join says how far apart rows may lie",
)
_SETTINGS = Instead("", "settings are given in Python, db.settings.change(name=value), or to anabranch.open")

FUNCTIONS: Mapping[str, Instead] = {
    **dict.fromkeys(("tumble", "tumble_start", "tumble_end", "tumble_rowtime", "tumble_proctime"), _TUMBLING),
    **dict.fromkeys(("hop", "hop_start", "hop_end", "hop_rowtime", "hop_proctime", "cumulate"), _HOPPING),
    **dict.fromkeys(("session", "session_start", "session_end", "session_rowtime", "session_proctime"), _SESSION),
    "proctime": _ARRIVAL,
    **dict.fromkeys(("current_watermark", "mz_now", "mz_logical_timestamp", "rowtime"), _TIME),
    "date_bin": Instead("SELECT date_trunc('minute', ts) AS minute, k FROM s"),
    **dict.fromkeys(("latest_by_offset", "earliest_by_offset"), Instead(
        "SELECT k, v FROM s WINDOW = INTERVAL 1 MINUTE ORDER BY ts DESC LIMIT 1", "rows of each window can be ordered"
    )),
    **dict.fromkeys(("topk", "topkdistinct"), RANKED),
}  # fmt: skip
"""By the name, in lower case."""

STATEMENTS: Mapping[tuple[str, ...], Instead] = {
    ("CREATE", "SENSORS"): Instead("", "declare a stream for each sensor with CREATE STREAM"),
    ("CREATE", "TRIGGER"): Instead("", "write CREATE CONTINUOUS QUERY … AS SELECT … WHERE … and subscribe to it"),
    ("CREATE", "OR", "REPLACE"): Instead("", "drop it first: what it has answered goes with it"),
    ("CREATE", "TEMPORARY", "VIEW"): _STANDING,
    ("CREATE", "VIEW"): _STANDING,
    ("CREATE", "SOURCE"): Instead(_LATE.example, "rows come by db.append, db.ingest or anabranch append"),
    ("CREATE", "SINK"): Instead(_FOLLOW.example, "answers are followed by whoever wants them"),
    ("TRUNCATE",): Instead(
        "CREATE STREAM events (k STRING, ts TIMESTAMP) TIMESTAMP BY ts RETAIN INTERVAL 7 DAYS",
        "RETAIN lets old rows go, DROP STREAM all of them",
    ),
    ("INSERT", "OVERWRITE"): Instead(
        "INSERT INTO s VALUES ('a', 1, TIMESTAMP '2026-01-01 00:00:00')", "rows that came stay"
    ),
    ("SET",): _SETTINGS,
    ("RESET",): _SETTINGS,
    ("USE",): Instead("", "a database is a directory, which anabranch.open('river') opens"),
    ("TAIL",): _FOLLOW,
    ("PRINT",): _FOLLOW,
    ("REFRESH",): Instead("", "a standing query keeps up by itself"),
}
"""By how they begin."""

CLAUSES: Mapping[tuple[str, ...], Instead] = {
    ("CUMULATE", "("): _HOPPING,
    ("WINDOW", "TUMBLING"): _TUMBLING,
    ("WINDOW", "HOPPING"): _HOPPING,
    ("WINDOW", "SESSION"): _SESSION,
    ("MATCH_RECOGNIZE",): Instead(AS_OF.example, "patterns of rows are told by joins"),
    ("WATERMARK", "FOR"): _LATE,
    ("AS", "PROCTIME"): _ARRIVAL,
    ("PRIMARY KEY",): _KEYS,
    **{(type_, "KEY"): _KEYS for type_ in ("STRING", "VARCHAR", "INT", "INTEGER", "BIGINT")},
    **{("WITHIN", "", unit): AS_OF for unit in ("SECONDS", "MINUTE", "MINUTES", "HOUR", "HOURS", "DAY", "DAYS")},
}
"""By words that stand together in a text that cannot be read; an empty one is a number, and two may be one token."""


def refuse_statement(cursor: Cursor) -> None:
    """Say what to write instead, if a statement of another system begins here."""
    for words, instead in STATEMENTS.items():
        if cursor.next_is(*words):
            said = " ".join(words)
            raise cursor.error_here("NOT_IN_THE_LANGUAGE", f"{said} is not available", hint=instead.hint)


def refused_clause(tokens: Sequence[Token], text: str) -> SqlError | None:
    """What to say of a statement that cannot be read, if something of another system stands in it."""
    said = [word(token) for token in tokens]
    has_keys = said[:2] == ["CREATE", "TABLE"]
    for at in range(len(said)):
        for words, instead in CLAUSES.items():
            if tuple(said[at : at + len(words)]) == words and not (has_keys and instead is _KEYS):
                name = " ".join(part for part in words if part[:1].isalpha())
                message = f"{name} is not available"
                return error_at("NOT_IN_THE_LANGUAGE", message, text, tokens[at].start, hint=instead.hint)
    return None

"""The queries of Nexmark as each engine is asked them, and a number of each row by which answers are compared."""

from __future__ import annotations

import re

from benchmarks.peers.nexmark import Question
from tests.nexmark.texts import QUERIES, Query, for_duckdb

_COUNTED = "total_bids + rank1_bids * 3 + rank2_bidders * 7 + total_bidders * 11 + rank3_auctions * 13 + total_auctions"
CHECKS = {
    "q0": "mod(auction * bidder, 1000003) + price",
    "q1": "auction * 3 + bidder + floor(price)",
    "q2": "auction * 7 + price",
    "q3": "id",
    "q4": "category * 1000003 + floor(final)",
    "q5": "auction * 31 + num",
    "q6": "seller * 31 + floor(avg_price)",
    "q7": "mod(auction * bidder, 1000003) + price",
    "q8": "id",
    "q9": "id * 7 + price * 3 + bidder",
    "q10": "mod(auction * bidder, 1000003) + price",
    "q11": "bidder * bid_count",
    "q12": "bidder * bid_count",
    "q13": "mod(auction * bidder, 1000003) + price + char_length({value})",
    "q13_view": "mod(auction * bidder, 1000003) + price + char_length({value})",
    "q14": "auction + bidder * (c_counts + 1) + char_length(bid_time_type)",
    "q15": _COUNTED,
    "q16": _COUNTED,
    "q17": "auction * total_bids + max_price + min_price * 3 + mod(sum_price, 1000003)",
    "q18": "mod(auction * bidder, 1000003) + price",
    "q19": "price * rank_number + auction",
    "q20": "mod(auction * bidder, 1000003) + price + seller",
    "q21": "auction + char_length(channel_id) * bidder",
    "q22": "auction + char_length(dir1) + char_length(dir2) * 3 + char_length(dir3) * 7",
}
"""Whole numbers that all engines compute alike; ties that are broken otherwise elsewhere show nowhere."""
NOT_IN_FLINK = {"q6": "its window functions take no answers that change"}


def _check(name: str, quote: str) -> str:
    return CHECKS[name].replace("{value}", f"{quote}value{quote}")


def ask_duckdb(query: Query) -> Question:
    return Question(query.name, for_duckdb(query), _check(query.name, '"'))


def ask_flink(query: Query) -> Question:
    """In Flink's words, as its own Nexmark has them."""
    text = query.select
    text = re.sub(r" FOR SYSTEM_TIME AS OF B\.date_time", "", text)
    text = re.sub(r"split_part\((\w+), '/', (\d)\)", lambda m: f"SPLIT_INDEX({m[1]}, '/', {int(m[2]) - 1})", text)
    text = re.sub(r"\blength\(", "CHAR_LENGTH(", text)
    for word in ("day", "minute", "value"):
        text = re.sub(rf"(AS |S\.){word}\b", rf"\1`{word}`", text)
    text = text.replace("S.key", "S.`key`")
    return Question(query.name, text, _check(query.name, "`"))


_WINDOW = re.compile(
    r"TABLE\((?:HOP|TUMBLE)\(TABLE (\w+), DESCRIPTOR\(date_time\), INTERVAL '(\d+)' SECOND"
    r"(?:, INTERVAL '(\d+)' SECOND)?\)\)"
)


def ask_spark(query: Query) -> Question:
    """In Spark's words: windows are a column by which is grouped."""

    def window(found: re.Match[str]) -> str:
        slide, size = found[2], found[3] or found[2]
        return f"(SELECT *, window(date_time, '{size} seconds', '{slide} seconds') AS window FROM {found[1]})"

    text = re.sub(r" FOR SYSTEM_TIME AS OF B\.date_time", "", query.select)
    text = _WINDOW.sub(window, text)
    text = re.sub(r"GROUP BY (.*)window_start, window_end", r"GROUP BY \1window", text)
    text = re.sub(r"\bwindow_(start|end)\b", r"window.\1", text)
    session = "session_window(B.date_time, '10 seconds')"
    text = re.sub(r"SESSION_(START|END)\(.*?SECOND\)", lambda m: f"{session}.{m[1].lower()}", text)
    text = re.sub(r"\bSESSION\(.*?SECOND\)", session, text)
    return Question(query.name, text, _check(query.name, "`"))


def some(names: tuple[str, ...] | None) -> list[Query]:
    """Queries by their names; None: all."""
    return list(QUERIES.values()) if names is None else [QUERIES[name] for name in names]

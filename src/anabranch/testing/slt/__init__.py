"""Text files of statements, pushed rows and expected answers, each played in several ways.

    # name: windows/tumbling.slt
    # description: touching windows of a minute
    # group: windows

    statement ok
    CREATE STREAM s (k STRING, ts TIMESTAMP) TIMESTAMP BY ts;
    CREATE CONTINUOUS QUERY q AS SELECT k, count(*) AS n FROM s WINDOW = INTERVAL 1 MINUTE GROUP BY k

    push s
    k | ts
    a | 2026-01-01 00:00:10
    a | 2026-01-01 00:01:10

    answers q
    ----
    k | n | _time
    a | 1 | 2026-01-01 00:01:00

The records and their texts are in `format`, what each does in `play`, the ways in `ways`.
"""

from __future__ import annotations

from anabranch.testing.slt.format import File, Record, SltError, parse, read
from anabranch.testing.slt.play import Mismatch, play
from anabranch.testing.slt.stage import Stage
from anabranch.testing.slt.ways import SPARK_WAYS, SPARKLESS_WAYS, Way, play_file

__all__ = [
    "SPARKLESS_WAYS",
    "SPARK_WAYS",
    "File",
    "Mismatch",
    "Record",
    "SltError",
    "Stage",
    "Way",
    "parse",
    "play",
    "play_file",
    "read",
]

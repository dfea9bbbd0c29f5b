"""Every setting: its name, default and meaning, in one visible table.

Settings are given to `anabranch.open(path, settings={…})` or as environment variables
`ANABRANCH_<NAME>`; those in `PER_STREAM` also with `CREATE STREAM … OPTIONS (name 'value')`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from anabranch.errors import SetupError, did_you_mean


class Setting(NamedTuple):
    """A setting: its default says its type."""

    name: str
    default: int | float | str
    help: str
    least: int = 0


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "segment_bytes", 4 * 1024 * 1024, "An open segment is closed once its parts hold this many bytes.", least=1
    ),
    Setting("segment_age_seconds", 60.0, "An open segment is closed at the next append once it is this old."),
    Setting("segment_parts", 64, "An open segment is closed once it consists of this many parts.", least=1),
    Setting(
        "future_limit_seconds", 86_400.0, "Rows whose time is further ahead of the clock are rejected; 0 allows any."
    ),
    Setting("idle_release_seconds", 5.0, "A stream that is silent this long releases its skew buffer; 0 never does."),
    Setting(
        "idle_timeout_seconds",
        0.0,
        "A stream that is silent this long is taken to be as far as those it is joined with; 0 never is.",
    ),
    Setting(
        "alone_queries",
        16,
        "So many standing queries stand alone; those made after them are members of hosts if they can be; 0: all do.",
    ),
    Setting(
        "member_rows",
        2_000_000,
        "The most answers of a host's query in a micro-batch; one that has more is held back by itself; 0: any.",
    ),
    Setting(
        "member_bytes",
        128 * 1024 * 1024,
        "The most bytes of such answers, as above; 0: any.",
    ),
    Setting(
        "member_ms",
        1_000,
        "The most milliseconds of a micro-batch for one that takes over half of what all take, as above; 0: any.",
    ),
    Setting(
        "heavy_seconds",
        60.0,
        "A host's query that has been held back and behind so long goes on alone, until it is light as long; 0: never.",
    ),
    Setting("batch_rows", 2_000_000, "The most rows of one stream a micro-batch takes in.", least=1),
    Setting("reevaluate_every", 1, "A windowed query answers every k-th of its windows.", least=1),
    Setting(
        "reevaluate_at_most",
        0,
        "While it is behind, a windowed query answers fewer windows, down to every n-th; 0: it never does.",
    ),
    Setting(
        "window_memory_bytes", 1 << 30, "What an index keeps of the rows of its window; more waits in files.", least=1
    ),
    Setting("parallelism", 0, "Tasks a micro-batch is split into at most; 0 means Spark's default parallelism."),
    Setting(
        "poll_ms",
        40,
        "How long an idle query waits for new rows before Spark may ask again; up to five times that when none come.",
    ),
    Setting(
        "inline_bytes",
        1024 * 1024,
        "A task's answer up to this size travels with the task; larger ones go to a file.",
        least=1,
    ),
    Setting(
        "archive_age_seconds",
        60.0,
        "Rows go to an archive when they make a run, or once they have waited this long.",
    ),
    Setting(
        "archive_local_bytes",
        64 * 1024 * 1024,
        "Reads and writes of archives up to this size are done in this process; larger ones by Spark's tasks.",
    ),
    Setting(
        "statement_timeout_seconds", 3600.0, "A one-time SELECT that takes longer is interrupted; 0: none ever is."
    ),
    Setting(
        "answer_bytes",
        8 << 30,
        "The most bytes a one-time answer may have; 0: as many as the disk has room for.",
    ),
    Setting("master", "local[*]", "The Spark master that is used when no session is handed in."),
    Setting("driver_memory", "2g", "Memory of an embedded Spark driver."),
    Setting(
        "file_directories",
        "secrets",
        "Where files that SQL names (token_file, tls_root) may lie, with colons between; relative: in the database.",
    ),
    Setting(
        "table_directories",
        "",
        "Where files that CREATE TABLE … FROM names may lie, as above; empty: nowhere.",
    ),
    Setting(
        "dataspace_hosts",
        "localhost",
        "Servers that SQL may name: host or host:port with commas between; also *.domain, 10.0.0.0/8 and *.",
    ),
    Setting("warm_up", 1, "Start Spark's Python workers before the first query needs them; 0 does not."),
)

PER_STREAM = (
    "segment_bytes",
    "segment_age_seconds",
    "segment_parts",
    "future_limit_seconds",
    "idle_release_seconds",
)
"""Settings that a stream may have its own value of: CREATE STREAM … OPTIONS (name 'value')."""

_BY_NAME = {s.name: s for s in SETTINGS}


class Settings(Mapping[str, Any]):
    """The settings in force; unknown names and values of the wrong kind are refused.

    >>> Settings({"segment_bytes": "1000"})["segment_bytes"]
    1000
    """

    def __init__(self, given: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._values: dict[str, Any] = {}
        for setting in SETTINGS:
            text = environment.get(f"ANABRANCH_{setting.name.upper()}")
            self._values[setting.name] = setting.default if text is None else _convert(setting, text)
        self.change(**(given or {}))

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @staticmethod
    def for_stream(given: Mapping[str, str]) -> dict[str, str]:
        """The OPTIONS of a CREATE STREAM, checked: only settings that make sense for one stream."""
        for name in given:
            if name not in PER_STREAM:
                raise SetupError(
                    "SETTING_NOT_FOUND",
                    f'"{name}" is not an option of a stream',
                    hint=did_you_mean(name, PER_STREAM),
                )
        Settings(given, environment={})
        return dict(given)

    def change(self, **changes: Any) -> None:
        """Other values from now on; what has begun goes on with those that it began with."""
        for name, value in changes.items():
            if name not in _BY_NAME:
                raise SetupError(
                    "SETTING_NOT_FOUND", f'setting "{name}" does not exist', hint=did_you_mean(name, _BY_NAME)
                )
            self._values[name] = _convert(_BY_NAME[name], value)

    def but(self, **changes: Any) -> Settings:
        """These settings with some changed."""
        return Settings({**self._values, **changes}, environment={})


def _convert(setting: Setting, value: Any) -> int | float | str:
    if isinstance(setting.default, str):
        if isinstance(value, str | os.PathLike):
            return os.fspath(value)
        raise SetupError("SETTING_TYPE_MISMATCH", f'setting "{setting.name}" takes text, got {value!r}')
    try:
        converted = type(setting.default)(value)
        if setting.least <= converted < float("inf"):
            return converted
    except (TypeError, ValueError, OverflowError):
        pass
    kind = "a whole number" if isinstance(setting.default, int) else "a number"
    raise SetupError(
        "SETTING_TYPE_MISMATCH", f'setting "{setting.name}" takes {kind} from {setting.least}, got {value!r}'
    )

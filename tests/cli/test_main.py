"""Options, exit codes, and what is imported before a command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import anabranch
from anabranch.cli.main import COMMANDS, main, parse
from anabranch.errors import DataError

Action = Callable[[Namespace], int]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(anabranch.__file__).parents[1])}


@pytest.fixture(autouse=True)
def _no_database_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANABRANCH_DB", raising=False)


@pytest.fixture
def tail_does(monkeypatch: pytest.MonkeyPatch) -> Callable[[Action], None]:
    """Replace what `anabranch tail` does."""

    def replace(action: Action) -> None:
        module = ModuleType("anabranch.cli.tail")
        monkeypatch.setattr(module, "run", action, raising=False)
        monkeypatch.setitem(sys.modules, "anabranch.cli.tail", module)

    return replace


def test_common_options_stand_before_or_after_the_command() -> None:
    for argv in (["--db", "a", "--json", "tail", "s"], ["tail", "s", "--json", "--db", "a"]):
        args = parse(argv)
        assert (args.db, args.db_given, args.json, args.verbose) == ("a", True, True, False)


def test_database_is_the_environments_and_else_river(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (parse(["top"]).db, parse(["top"]).db_given) == ("river", False)
    monkeypatch.setenv("ANABRANCH_DB", "/data/x")
    assert (parse(["top"]).db, parse(["top"]).db_given) == ("/data/x", True)
    assert parse(["top", "--db", "y"]).db == "y"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nonsense"],
        ["append", "s"],
        ["append", "s", "f", "--format", "xml"],
        ["tail", "s", "-n", "few"],
        ["demo", "--seconds", "0"],
        ["demo", "--rate", "-5"],
        ["top", "--every", "0"],
    ],
)
def test_wrong_usage_ends_with_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert "usage: anabranch" in capsys.readouterr().err


def test_help_lists_every_command_and_ends_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command.name in text for command in COMMANDS)


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_help_and_a_module_that_runs_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    assert "--db" in capsys.readouterr().out
    module = __import__(f"anabranch.cli.{command.replace('-', '_')}", fromlist=["run"])
    assert callable(module.run)


def test_an_error_is_told_on_standard_error_and_ends_with_one(
    tail_does: Callable[[Action], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: Namespace) -> int:
        raise DataError("TYPE_MISMATCH", "a is not b", hint="make it b")

    tail_does(fail)
    assert main(["tail", "s"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "TYPE_MISMATCH: a is not b\nHint: make it b\n"


def test_a_surprise_shows_its_stack_only_when_asked(
    tail_does: Callable[[Action], None], capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(args: Namespace) -> int:
        raise ZeroDivisionError("oops")

    tail_does(fail)
    assert main(["tail", "s"]) == 1
    quiet = capsys.readouterr().err
    assert quiet.startswith("INTERNAL_ERROR: ZeroDivisionError: oops\n")
    assert "Traceback" not in quiet
    assert main(["tail", "s", "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_control_c_ends_with_130(tail_does: Callable[[Action], None]) -> None:
    def interrupt(args: Namespace) -> int:
        raise KeyboardInterrupt

    tail_does(interrupt)
    assert main(["tail", "s"]) == 130


def test_a_reader_that_goes_away_is_no_error() -> None:
    script = (
        "import sys, types; m = types.ModuleType('anabranch.cli.tail');"
        "m.run = lambda a: [print('x' * 10000, flush=True) for _ in range(100)] and 0;"
        "sys.modules['anabranch.cli.tail'] = m;"
        "from anabranch.cli.main import main; sys.exit(main(['tail', 's']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 141


def test_the_command_line_itself_imports_nothing_heavy() -> None:
    heavy = ("pyspark", "sqlglot", "pandas", "rich", "prompt_toolkit", "numba")
    script = (
        "import sys; from anabranch.cli.main import main; main(['--help']);"
        f"print([m for m in {heavy} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

"""The shell, driven through a pipe as if someone typed; no Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from anabranch.cli.running import Cancelled, run
from anabranch.cli.shell import Shell

Typed = Callable[[str], tuple[int, str]]
CREATE = "CREATE STREAM packets (saddr STRING, ts TIMESTAMP) TIMESTAMP BY ts;\r"


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Typed:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def session(keys: str, **options: bool) -> tuple[int, str]:
        with create_pipe_input() as pipe:
            pipe.send_text(keys)
            code = Shell(str(tmp_path / "river"), input=pipe, output=DummyOutput(), **options).run()
        return code, capsys.readouterr().out

    return session


def test_statements_run_when_they_are_finished_and_control_d_leaves(typed: Typed) -> None:
    code, out = typed(CREATE + "SHOW\rSTREAMS\r;\r\x04")
    assert code == 0
    assert 'stream "packets" created' in out
    assert "1 row, " in out


def test_an_error_is_told_and_the_shell_goes_on(typed: Typed) -> None:
    code, out = typed("DESCRIBE nothing;\rSHOW QUERIES;\r\\q\r")
    assert code == 0
    assert "NOT_FOUND" in out
    assert "0 rows, " in out


def test_control_c_clears_the_line_and_stays(typed: Typed) -> None:
    code, out = typed("DROP STREAM pack\x03SHOW STREAMS;\r\x04")
    assert code == 0
    assert "0 rows, " in out


@pytest.mark.parametrize("ask", ["help;", "help", "\\?", "\\h"])
def test_help_lists_every_statement(typed: Typed, ask: str) -> None:
    from anabranch.sql.statements import STATEMENTS

    _, out = typed(ask + "\r\x04")
    flat = " ".join(out.split())
    assert all(" ".join(each.help.split()) in flat for each in STATEMENTS)


@pytest.mark.parametrize("leave", ["\\q\r", "quit\r", "exit;\r", "\x04"])
def test_every_way_out_ends_with_zero(typed: Typed, leave: str) -> None:
    assert typed(leave)[0] == 0


def test_history_is_kept_for_the_next_session(typed: Typed, tmp_path: Path) -> None:
    typed(CREATE + "\x04")
    kept = tmp_path / "state" / "anabranch" / "history"
    assert "CREATE STREAM packets" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600, "statements may hold tokens"
    code, out = typed("\x1b[A\r\x04")
    assert code == 0
    assert "NAME_EXISTS" in out


def test_work_is_cancelled_by_control_c(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    release = threading.Event()
    cancelled = []

    def saying() -> str:
        raise KeyboardInterrupt

    def cancel() -> None:
        cancelled.append(True)
        release.set()

    with pytest.raises(Cancelled):
        run(release.wait, saying, cancel)
    assert cancelled == [True]


def test_an_error_of_the_work_is_the_callers() -> None:
    def fail() -> None:
        raise ValueError("here")

    with pytest.raises(ValueError, match="here"):
        run(fail, lambda: "", lambda: None)

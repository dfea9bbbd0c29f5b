"""`anabranch data-server` from the outside: what it says, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from anabranch.cli.main import main
from anabranch.dataspace.client import DataSpaceClient

from .conftest import SOURCE, Beside


@pytest.mark.slow
def test_it_says_where_it_is_and_ends_on_ctrl_c(folder: Path) -> None:
    server = Beside(folder, "--keys", "floods=lat,lon")
    assert [each["dataset"] for each in server.said["datasets"]] == ["floods", "quakes", "rain", "snow"]
    with DataSpaceClient(server.url, patience=5) as client:
        assert client.describe("floods")["keys"] == ["lat", "lon"]
        reading = client.follow("floods", 0)
        next(reading)
        code, said = server.end()
        reading.close()
    assert (code, said) == (0, "")


@pytest.mark.slow
def test_term_ends_it_too_and_nothing_is_left_behind(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    server = Beside(folder, "--cache", str(cache))
    assert len(list(cache.iterdir())) == 1
    server._process.send_signal(signal.SIGTERM)
    _, said = server._process.communicate(timeout=30)
    assert (server._process.returncode, said) == (0, b"")
    assert list(cache.iterdir()) == []


@pytest.mark.slow
def test_people_get_a_table(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "anabranch.cli", "data-server", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )
    assert process.stdout is not None
    lines: list[str] = []
    while not (lines and lines[-1].startswith("Ctrl-C")):
        lines.append(process.stdout.readline().decode())
        assert lines[-1]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    assert lines[0].startswith("serving 4 data sets at grpc://127.0.0.1:")
    assert lines[1].split() == ["data", "set", "rows", "columns", "keys", "time"]
    assert lines[2].split()[:2] == ["floods", "10000"]


@pytest.mark.slow
def test_a_token_of_the_environment_counts(folder: Path) -> None:
    server = Beside(folder, environment={"ANABRANCH_TOKEN": "correct horse"})
    try:
        with DataSpaceClient(server.url, "correct horse", patience=5) as client:
            assert len(client.list()) == 4
    finally:
        server.kill()


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [False, True])
def test_what_grpc_has_to_say_is_for_who_asks_for_it(tmp_path: Path, verbose: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer_in_another_language() -> None:
            while True:
                try:
                    with listener.accept()[0] as client:
                        client.recv(100)
                        client.sendall(b"SSH-2.0")
                except OSError:
                    return

        threading.Thread(target=answer_in_another_language, daemon=True).start()
        url = f"grpc+tls://127.0.0.1:{listener.getsockname()[1]}"
        statement = f"CREATE STREAM s FROM dataspace OPTIONS (url '{url}', dataset 'd')"
        command = [sys.executable, "-m", "anabranch.cli", "--db", str(tmp_path / "river"), "sql", "-c", statement]
        said = subprocess.run(
            [*command, *(["--verbose"] if verbose else [])],
            check=False,
            capture_output=True,
            text=True,
            env={**{k: v for k, v in os.environ.items() if k != "GRPC_VERBOSITY"}, "PYTHONPATH": SOURCE},
        ).stderr
        listener.shutdown(socket.SHUT_RDWR)
    assert said.startswith("DATA_SERVER_LOST") == (not verbose)
    assert ("Handshake failed" in said) == verbose
    assert "DATA_SERVER_LOST" in said


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["--host", "0.0.0.0"], "TOKEN_MISSING"),
        (["--tls-cert", "x.pem"], "TLS_INCOMPLETE"),
        (["--token-file", "none"], "FILE_NOT_FOUND"),
        (["--keys", "floods"], "KEYS_NOT_UNDERSTOOD"),
        (["--keys", "flood=lat"], "DATA_SET_NOT_FOUND"),
        (["--host", "999.1.1.1", "--insecure"], "ADDRESS_NOT_AVAILABLE"),
    ],
)
def test_what_cannot_be_served_is_told(
    folder: Path, arguments: list[str], wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data-server", str(folder), *arguments]) == 1
    assert capsys.readouterr().err.startswith(f"{wanted}:")


def test_a_place_without_data_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data-server", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("DATA_SET_NOT_FOUND:")

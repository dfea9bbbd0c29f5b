"""What SQL may name: files in directories and servers at addresses that the settings list, and nothing else."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.dataspace.access import Access, opened
from anabranch.dataspace.security import Security
from anabranch.errors import AnabranchError
from anabranch.log import Storage
from anabranch.settings import Settings
from anabranch.testing.sparkless import SparklessDatabase

from .conftest import serving

TOKEN = "correct horse battery"


def name_of(ask: Any) -> str:
    with pytest.raises(AnabranchError) as problem:
        ask()
    return problem.value.name


def resolving(monkeypatch: pytest.MonkeyPatch, **known: str) -> list[str]:
    """Makes names lead to addresses; gives the names that are asked for."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", (known.get(host.replace(".", "_"), host), port))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


# -- files ---------------------------------------------------------------------------------------


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    place = tmp_path / "river" / "secrets"
    place.mkdir(parents=True)
    (place.parent / "anabranch.json").write_text('{"format": 1}')
    (place / "token").write_text(TOKEN)
    (tmp_path / "outside").write_text("root:x:0:0")
    return place


def test_a_file_in_the_directory_is_read_by_its_name_or_its_whole_path(secrets: Path) -> None:
    access = Access((str(secrets),))
    assert access.read("token", "token") == access.read(str(secrets / "token"), "token") == TOKEN.encode()
    assert name_of(lambda: access.read("nothing", "token")) == "FILE_NOT_FOUND"


@pytest.mark.parametrize(
    "path",
    [
        "{outside}",
        "../../outside",
        "{secrets}/../../outside",
        "link",
        "folder/outside",
        "..",
        ".",
        "",
        "a\0b",
        "{gone}",
    ],
)
def test_no_path_leads_out_of_the_directory_and_none_tells_whether_it_is_there(secrets: Path, path: str) -> None:
    outside = secrets.parents[1] / "outside"
    (secrets / "link").symlink_to(outside)
    (secrets / "folder").symlink_to(outside.parent)
    path = path.format(outside=outside, secrets=secrets, gone=outside.with_name("gone"))
    with pytest.raises(AnabranchError) as problem:
        Access((str(secrets),)).read(path, "token")
    assert problem.value.name == "FILE_NOT_ALLOWED"
    assert problem.value.detail is None


def test_a_directory_that_is_a_link_itself_is_meant_and_one_beside_it_is_not(secrets: Path) -> None:
    linked = secrets.parent / "linked"
    linked.symlink_to(secrets)
    assert Access((str(linked),)).read("token", "token") == TOKEN.encode()
    beside = Path(f"{secrets}2")
    beside.mkdir()
    (beside / "token").write_text("another")
    assert name_of(lambda: Access((str(secrets),)).read(str(beside / "token"), "token")) == "FILE_NOT_ALLOWED"


def test_a_pipe_is_no_file_and_nobody_waits_for_it(secrets: Path) -> None:
    os.mkfifo(secrets / "pipe")
    (secrets / "inner").mkdir()
    for path in ("pipe", "inner"):
        assert name_of(lambda path=path: Access((str(secrets),)).read(path, "token")) == "FILE_NOT_FOUND"


def test_a_folder_that_became_a_link_after_it_was_looked_at_is_not_gone_through(secrets: Path) -> None:
    (secrets / "folder").symlink_to(secrets.parents[1])
    with opened(str(secrets / "token")) as file:
        assert file.read() == TOKEN.encode()
    with pytest.raises(OSError), opened(str(secrets / "folder" / "outside")):  # noqa: PT011 - any will do
        pass


def test_tables_have_directories_of_their_own_and_none_by_themselves(secrets: Path) -> None:
    root = Storage(str(secrets.parent))
    assert Access.of(Settings({}, {}), root).tables == ()
    access = Access.of(Settings({"table_directories": "/srv/data:secrets"}, {}), root)
    assert access.tables == ("/srv/data", str(secrets))
    assert access.place_of_table("token") == str(secrets / "token")
    assert name_of(lambda: access.place_of_table("../anabranch.json")) == "FILE_NOT_ALLOWED"
    assert name_of(lambda: Access((str(secrets),)).place_of_table("token")) == "FILE_NOT_ALLOWED"


def test_relative_directories_are_inside_of_the_database(tmp_path: Path) -> None:
    root = Storage(str(tmp_path / "river"))
    assert Access.of(Settings({}, {}), root).directories == (str(tmp_path / "river" / "secrets"),)
    several = Settings({"file_directories": "/etc/tokens:keys"}, {})
    assert Access.of(several, root).directories == ("/etc/tokens", str(tmp_path / "river" / "keys"))
    assert Access.of(Settings({"file_directories": ""}, {}), root).directories == ()


# -- servers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ("localhost", "localhost"),
        ("localhost", "127.0.0.1"),
        ("localhost", "127.3.2.1"),
        ("localhost", "[::1]"),
        ("LocalHost:80", "LOCALHOST."),
        ("floods.example.org", "floods.example.org"),
        ("*.example.org:80", "Floods.Example.org"),
        ("*", "floods.example.org"),
        ("10.0.0.0/8", "10.1.2.3"),
        ("a, 10.0.0.0/8:80", "10.1.2.3"),
        ("[fd00::/8]:80", "[fd00::7]"),
        ("169.254.0.0/16", "169.254.169.254"),
        ("meta, 169.254.169.254", "meta"),
    ],
)
def test_what_is_listed_is_reached(monkeypatch: pytest.MonkeyPatch, hosts: str, host: str) -> None:
    resolving(monkeypatch, localhost="127.0.0.1", floods_example_org="192.0.2.9", meta="169.254.169.254", a="192.0.2.8")
    listed = tuple(each.strip() for each in hosts.split(","))
    assert len(Access((), listed).addresses(host, 80)) == 1


@pytest.mark.parametrize(
    ("hosts", "host"),
    [
        ("localhost", "floods.example.org"),
        ("localhost", "192.0.2.9"),
        ("localhost:81", "localhost"),
        ("", "localhost"),
        ("example.org", "floods.example.org"),
        ("*.example.org", "example.org"),
        ("*.example.org", "evilexample.org"),
        ("10.0.0.0/8", "11.0.0.1"),
        ("10.0.0.0/8", "ten"),
        ("*", "169.254.169.254"),
        ("*", "[fe80::1]"),
        ("*", "[::ffff:169.254.169.254]"),
        ("*", "[fd00:ec2::254]"),
        ("*", "0.0.0.0"),
        ("*", "2852039166"),
        ("*", "meta"),
        ("meta", "meta"),
        ("floods.example.org", "rebound"),
        ("*.example.org", "here.example.org"),
        ("localhost", "user@localhost"),
        ("localhost", "localhost/@floods.example.org"),
    ],
)
def test_what_is_not_listed_is_not_reached_not_even_by_a_name_that_leads_there(
    monkeypatch: pytest.MonkeyPatch, hosts: str, host: str
) -> None:
    decimal = {"2852039166": "169.254.169.254"}
    resolving(monkeypatch, meta="169.254.169.254", here_example_org="127.0.0.1", ten="10.0.0.1", **decimal)
    listed = tuple(each for each in hosts.split(",") if each)
    assert name_of(lambda: Access((), listed).addresses(host, 80)) == "ADDRESS_NOT_ALLOWED"


def test_a_name_that_is_not_listed_is_not_even_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolving(monkeypatch)
    assert name_of(lambda: Access().addresses("floods.example.org", 80)) == "ADDRESS_NOT_ALLOWED"
    assert asked == []


@pytest.mark.parametrize("text", ["floods:port", ":80", "[::1]:x"])
def test_a_list_that_makes_no_sense_is_refused_when_the_database_is_opened(tmp_path: Path, text: str) -> None:
    settings = {"dataspace_hosts": f"localhost, {text}"}
    assert name_of(lambda: SparklessDatabase(tmp_path / "river", settings=settings)) == "SETTING_TYPE_MISMATCH"


# -- statements ----------------------------------------------------------------------------------


class Listener:
    """A server that notes who comes, and what it is told."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.heard: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                self.heard.append(connection.recv(4096))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def create(url: str, more: str = "") -> str:
    return f"CREATE STREAM s FROM dataspace OPTIONS (url '{url}', dataset 'floods'{more})"


def test_a_statement_cannot_send_a_file_that_is_not_meant_for_it(
    secrets: Path, tmp_path: Path, listener: Listener
) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        for option in ("token_file", "tls_root"):
            statement = create(f"grpc://127.0.0.1:{listener.port}", f", {option} '{tmp_path / 'outside'}'")
            assert name_of(lambda statement=statement: db.sql(statement)) == "FILE_NOT_ALLOWED"
    assert listener.heard == []


def test_a_statement_cannot_find_out_whether_a_port_is_open(tmp_path: Path, listener: Listener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    said = []
    with SparklessDatabase(tmp_path / "river", settings={"dataspace_hosts": "floods.example.org"}) as db:
        for port in (listener.port, closed):
            with pytest.raises(AnabranchError) as problem:
                db.sql(create(f"grpc://127.0.0.1:{port}"))
            said.append(str(problem.value).replace(str(port), "PORT"))
    assert said[0] == said[1]
    assert "ADDRESS_NOT_ALLOWED" in said[0]
    assert listener.heard == []


def test_a_token_in_the_databases_secrets_opens_its_server_and_nothing_shows_it(
    folder: Path, secrets: Path, tmp_path: Path
) -> None:
    with serving(folder, Security(token=TOKEN)) as server, SparklessDatabase(tmp_path / "river") as db:
        assert name_of(lambda: db.sql(create(server.url))) == "TOKEN_WRONG"
        port = server.url.rpartition(":")[2]
        db.sql(create(f"grpc://localhost:{port}", ", token_file 'token'"))
        db.sql(f"CREATE STREAM t FROM dataspace OPTIONS (url '{server.url}', dataset 'floods', token '{TOKEN}')")
        assert db.reader("s").end() == db.reader("t").end()
        shown = [db.sql(text) for text in ("SHOW STREAMS", "DESCRIBE s", "DESCRIBE t", "EXPLAIN SELECT lat FROM t")]
        texts = [str(each.table().to_pylist()) + str(each.message) for each in shown]
        assert len(texts) == 4
        assert not any(TOKEN in text for text in [*texts, repr(db.catalog.stream("t")), repr(db.reader("t"))])
        declared = tmp_path / "river" / "streams" / "t"
        assert (declared.stat().st_mode & 0o777, (declared / "stream.json").stat().st_mode & 0o777) == (0o700, 0o600)


@pytest.mark.parametrize("settings", [{"dataspace_hosts": "floods.example.org"}, {"file_directories": "elsewhere"}])
def test_what_was_declared_before_is_refused_once_settings_are_stricter(
    folder: Path, secrets: Path, tmp_path: Path, settings: dict[str, str]
) -> None:
    wanted = "ADDRESS_NOT_ALLOWED" if "dataspace_hosts" in settings else "FILE_NOT_ALLOWED"
    with serving(folder, Security(token=TOKEN)) as server:
        with SparklessDatabase(tmp_path / "river") as db:
            db.sql(create(server.url, f", token_file '{secrets / 'token'}'"))
            query = db.query("SELECT lat, ts FROM s WHERE n < 100", name="q")
            db.catch_up()
            assert query.table().num_rows == 100
            db.sql("STOP QUERY q")
        with SparklessDatabase(tmp_path / "river", settings=settings) as db:
            assert [row["stream"] for row in db.sql("SHOW STREAMS").table().to_pylist()] == ["q", "s"]
            assert name_of(lambda: db.reader("s").end()) == wanted
            assert name_of(lambda: db.sql("SELECT count(*) AS n FROM s")) == wanted
            assert name_of(lambda: db.sql("START QUERY q")) == wanted

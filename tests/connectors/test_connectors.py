"""The table of connectors: what it says is all that others know of them, and a new one is a row and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.completion import Names, candidates
from anabranch.connectors import CONNECTORS, connector_of, sources
from anabranch.errors import AnabranchError
from anabranch.log.stream import StreamInfo
from anabranch.schema import StreamSchema
from anabranch.testing.sparkless import SparklessDatabase

from .countdown import Countdown


def refused(db: SparklessDatabase, sql: str) -> str:
    with pytest.raises(AnabranchError) as caught:
        db.sql(sql)
    return str(caught.value)


def test_every_connector_is_under_its_own_name_and_its_options_are_described() -> None:
    for name, connector in CONNECTORS.items():
        assert connector.name == name
        assert all(option.help.endswith(".") for option in connector.options)
        assert not (connector.appendable and not connector.logged), "what is appended goes to the log"
    assert [name for name in sources() if CONNECTORS[name].options == ()] == []


def test_a_new_connector_is_a_row_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SparklessDatabase(tmp_path / "river") as db:
        assert "SOURCE_NOT_AVAILABLE" in refused(db, "CREATE STREAM c FROM countdown OPTIONS (start 5)")
        monkeypatch.setitem(CONNECTORS, "countdown", Countdown())
        assert refused(db, "CREATE STREAM c FROM countdown OPTIONS (end 5)").startswith(
            'SETTING_NOT_FOUND "end" is not an option of a stream from a countdown'
        )
        assert "Hint: OPTIONS (start '10')" in refused(db, "CREATE STREAM c FROM countdown")
        assert "its rows are on nobody's disk" in refused(
            db, "CREATE STREAM c FROM countdown RETAIN INTERVAL 1 DAY OPTIONS (start 5)"
        )
        made = db.sql("CREATE STREAM c FROM Countdown OPTIONS (start 5, key 'sesame')")
        assert made.message == 'stream "c" created: a countdown from 5'
        place = tmp_path / "river" / "streams" / "c"
        assert place.stat().st_mode & 0o077 == 0, "it holds a secret"
        assert not (place / "segments").exists()

        shown = db.sql("SHOW STREAMS").table().to_pylist()[0]
        assert (shown["filled_by"], shown["rows"]) == ("a countdown from 5", 5)
        assert db.sql("DESCRIBE c").table().column("note").to_pylist() == ["", "time, a countdown from 5"]
        assert "filled by a countdown from 5, rows cannot be appended" in refused(db, "INSERT INTO c VALUES (1, NULL)")
        assert "are on nobody's disk" in refused(db, "CREATE ARCHIVE ON c USING plain")

        asked = "SELECT count(*) AS many, max(n) AS most FROM c WINDOW = INTERVAL 2 SECONDS"
        assert db.sql(asked).table().select(["many", "most"]).to_pylist()[:2] == [
            {"many": 2, "most": 5},
            {"many": 2, "most": 3},
        ]
        db.sql("CREATE CONTINUOUS QUERY even AS SELECT n FROM c WHERE n % 2 = 0")
        db.catch_up()
        assert db.get_query("even").table().column("n").to_pylist() == [4, 2]
        assert db.tail("c", 2).column("n").to_pylist() == [2, 1]
        assert list(candidates("CREATE STREAM d FROM co", "", Names())) == [("countdown", "source")]
        assert "STREAM_IS_USED" in refused(db, "DROP STREAM c")
        db.sql("DROP QUERY even; DROP STREAM c")
        assert not place.exists()


def test_a_stream_of_a_connector_that_is_not_there_is_told_by_name() -> None:
    info = StreamInfo("s", StreamSchema.of({"a": "INT"}), origin="carrier pigeons")
    with pytest.raises(AnabranchError, match='SOURCE_NOT_AVAILABLE stream "s" is filled by "carrier pigeons"'):
        connector_of(info)

"""Spark's classes in one file: made whole, found again for the same Java, and done without where it does not fit."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from anabranch.cli.main import main
from anabranch.errors import SetupError
from anabranch.spark import classes
from anabranch.spark.classes import archive_of, make_ready, ready_classes
from anabranch.spark.java import JavaHome, find_java


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JavaHome:
    monkeypatch.setattr(classes, "FOLDER", tmp_path / "share")
    return find_java()


def few_classes(tmp_path: Path) -> Path:
    names = tmp_path / "classes"
    names.write_text("java/lang/Object\njava/util/TreeMap\n")
    return names


def run_with(java: JavaHome, options: list[str]) -> subprocess.CompletedProcess[str]:
    unquoted = [option.strip('"') for option in options]
    command = [str(java.java), *unquoted, "-Xlog:cds", "-version"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_java_takes_its_classes_from_the_file(java: JavaHome, tmp_path: Path) -> None:
    assert ready_classes(java) == []
    archive = make_ready(java, few_classes(tmp_path), "")
    assert list(archive.parent.iterdir()) == [archive] == [archive_of(java)]
    done = run_with(java, [*ready_classes(java), "-Xshare:on"])
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_java_does_without_a_file_that_is_damaged(java: JavaHome, tmp_path: Path, damage: str) -> None:
    archive = make_ready(java, few_classes(tmp_path), "")
    content = bytearray(archive.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    archive.chmod(0o600)
    archive.write_bytes(content[: len(content) // 2] if damage == "cut" else b"" if damage == "empty" else content)
    done = run_with(java, ready_classes(java))
    assert done.returncode == 0, done.stdout
    assert "openjdk" in done.stderr.lower()


def test_another_java_or_spark_has_another_file(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_ready(java, few_classes(tmp_path), "")
    assert archive_of(java) is not None
    assert archive_of(replace(java, version="21.0.99")) is None
    monkeypatch.setattr("pyspark.__version__", "4.3.99")
    assert archive_of(java) is None


def test_one_that_was_cut_short_is_made_anew(java: JavaHome, tmp_path: Path) -> None:
    archive = make_ready(java, few_classes(tmp_path), "")
    archive.chmod(0o600)
    archive.write_bytes(b"")
    assert archive_of(java) is None
    assert make_ready(java, few_classes(tmp_path), "") == archive_of(java)
    assert len(list(archive.parent.iterdir())) == 1


def test_what_java_says_is_told(java: JavaHome, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="CLASSES_NOT_READY"):
        make_ready(java, tmp_path / "absent", "")
    assert list((tmp_path / "share").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(
    java: JavaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(classes, "FOLDER", tmp_path / "file" / "share")
    with pytest.raises(SetupError, match="cannot be written to"):
        make_ready(java, few_classes(tmp_path), "")


def test_the_command_does_it_once(java: JavaHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_ready(java, few_classes(tmp_path), "")
    assert main(["prepare", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["made"], said["classes"], said["compiled"]) == (False, str(archive_of(java)), True)


@pytest.mark.long  # every `make test` begins with this command
def test_the_command_makes_what_spark_starts_with(
    java: JavaHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["prepare", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["made"]
    archive = archive_of(java)
    assert archive is not None
    assert archive.stat().st_size > 50_000_000

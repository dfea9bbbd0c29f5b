"""Peers that are Java programs of ours over a library: compiled by Maven, which fetches the library, on demand."""

from __future__ import annotations

import os
import shutil
from hashlib import sha256
from pathlib import Path

from benchmarks.harness import say
from benchmarks.peers.programs import Missing, said

SOURCES = Path(__file__).parent
BUILD_SECONDS = 600
MEMORY = "-Xmx4g"
COLLECTOR = "-XX:+UseParallelGC"


def program(folder: Path, name: str) -> list[str] | Missing:
    """How the program of a folder with a `pom.xml` is started; it is built if it is new or has changed."""
    files = sorted(file for file in (SOURCES / name).iterdir() if file.suffix in (".xml", ".java"))
    place = folder / sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    if not (place / "installed").exists():
        say(f"building {name} in {place}")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for file in files:
            shutil.copy(file, place)
        goals = [
            "-Dstyle.color=never",
            "compile",
            "dependency:copy-dependencies",
            f"-Dmaven.repo.local={folder / 'maven'}",
        ]
        built = said(["mvn", "--quiet", "--batch-mode", *goals], BUILD_SECONDS, place)
        if isinstance(built, Missing):
            return Missing(f"could not build {name}: {built.reason}")
        (place / "installed").touch()
    parts = os.pathsep.join([str(place / "target" / "classes"), str(place / "target" / "dependency" / "*")])
    return ["java", MEMORY, COLLECTOR, "-cp", parts, "Statements"]

"""Spark's classes made ready: Java maps 15,000 of them from one file instead of reading and checking each at a start.

Java calls it class data sharing. The file belongs to one Java and one installation of Spark, and stands beside the
latter. Java looks whether the file fits and is whole, and does without it otherwise.
"""

from __future__ import annotations

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from anabranch.errors import SetupError
from anabranch.spark.java import JavaHome

FOLDER = Path(sys.prefix, "share", "anabranch")


def archive_of(java: JavaHome) -> Path | None:
    """The file of classes for this Java and this Spark, if it was made and is whole.

    Java itself would crash on one that was cut short: its size is a part of its name.
    """
    for archive in FOLDER.glob(f"{_name_of(java)}-*.jsa"):
        with contextlib.suppress(OSError):  # another process may be replacing it
            if archive.stem.rpartition("-")[2] == str(archive.stat().st_size):
                return archive
    return None


def _name_of(java: JavaHome) -> str:
    jars = Path(pyspark.__file__).parent / "jars"
    installed = jars.stat().st_mtime_ns if jars.is_dir() else 0
    named = f"{java.path} {java.version} {jars} {installed} {pyspark.__version__}"
    return f"spark-{hashlib.sha256(named.encode()).hexdigest()[:16]}"


def ready_classes(java: JavaHome) -> list[str]:
    """The options for Java to take them from there; none if they have not been made ready."""
    archive = archive_of(java)
    if archive is None:
        return []
    # The check of its sums takes 50 ms; a bit that flipped would be an end of Java nobody could explain.
    return [f'"-XX:SharedArchiveFile={archive}"', "-XX:+VerifySharedSpaces"]


def recording(classes: Path) -> str:
    """The option for Java to write down the classes it loads."""
    return f"-XX:DumpLoadedClassList={classes}"


def class_path(spark: SparkSession) -> str:
    """Where a running Spark takes its classes from, in order; it must be the same in the file."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    return str(jvm.java.lang.System.getProperty("java.class.path"))


def make_ready(java: JavaHome, classes: Path, class_path: str) -> Path:
    """Write the file from a list of classes; it appears whole or not at all."""
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER, prefix=".new-") as folder:
            made = Path(folder, "classes.jsa")
            shared = f"-XX:SharedArchiveFile={made}"
            _run(java, ["-Xshare:dump", f"-XX:SharedClassListFile={classes}", shared, "-cp", class_path])
            # Java 21 takes no file where a jar is twice in the class path, as one of Spark's is.
            _run(java, ["-Xshare:on", shared, "-cp", class_path, "-version"])
            for old in FOLDER.glob(f"{_name_of(java)}-*.jsa"):
                old.unlink(missing_ok=True)
            return made.replace(FOLDER / f"{_name_of(java)}-{made.stat().st_size}.jsa")
    except OSError as problem:
        raise _not_ready(f"{FOLDER} cannot be written to ({problem.strerror})") from problem


def _run(java: JavaHome, arguments: list[str]) -> None:
    done = subprocess.run(
        [str(java.java), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        said = [line for line in done.stdout.decode(errors="replace").splitlines() if "error" in line.lower()]
        detail = said[0].rpartition("]")[2].strip() if said else f"it ended with code {done.returncode}"
        raise _not_ready(f"Java {java.version} does not take Spark's classes from a file", detail)


def _not_ready(message: str, detail: str | None = None) -> SetupError:
    hint = "nothing needs the file: Spark starts without it, a few seconds later"
    return SetupError("CLASSES_NOT_READY", message, detail=detail, hint=hint)

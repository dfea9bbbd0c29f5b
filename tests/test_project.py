"""The project as a whole: what its files may say, and what they must."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import anabranch

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "anabranch"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())

# Written in pieces so that this file passes its own test.
REGISTRY_HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.com",
    "npm" + "js.org",
    "yarn" + "pkg.com",
    "crates" + ".io",
    "repo1.maven" + ".org",
    "repo.maven" + ".apache.org",
    "central.sona" + "type",
    "anaconda" + ".org",
    "proxy.go" + "lang.org",
    "ruby" + "gems.org",
    "repository.apache" + ".org",
    "deb.deb" + "ian.org",
    "archive.ubu" + "ntu.com",
]


def repository_files() -> list[Path]:
    """The files that are or will be committed; without git, those outside hidden and generated directories."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        names = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
        found = [ROOT / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        generated = {".git", ".venv", "__pycache__", "build", "dist"}
        found = [p for p in ROOT.rglob("*") if not generated.intersection(p.relative_to(ROOT).parts)]
        found = [p for p in found if not any(part.endswith("_cache") for part in p.parts)]
    return sorted(p for p in found if p.is_file())


def modules() -> list[Path]:
    return sorted(SOURCES.rglob("*.py"))


def requirement_names(requirements: list[str]) -> set[str]:
    return {re.split(r"[<>=!~\[ ;]", r, maxsplit=1)[0].lower().replace("_", "-") for r in requirements}


@pytest.mark.slow
def test_no_file_names_a_package_registry() -> None:
    pattern = re.compile("|".join(re.escape(host) for host in REGISTRY_HOSTS).encode(), re.IGNORECASE)
    files = repository_files()
    assert ROOT / "pyproject.toml" in files
    assert [f"{f.relative_to(ROOT)}: {m[0]!r}" for f in files if (m := pattern.search(f.read_bytes()))] == []


def test_version_is_the_same_everywhere() -> None:
    assert PROJECT["project"]["version"] == anabranch.__version__


def test_changelog_has_a_dated_part_for_the_version_and_one_for_what_comes() -> None:
    parts = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert parts[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(anabranch.__version__)} - \d{{4}}-\d\d-\d\d", parts[1])


@pytest.mark.slow
@pytest.mark.parametrize("module", modules(), ids=lambda p: str(p.relative_to(SOURCES)))
def test_module_has_a_docstring(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text()))


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {m.parent for m in modules()}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_dependencies_are_bounded_on_both_sides() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    every = [*PROJECT["project"]["dependencies"], *(r for extra in extras for r in extra)]
    assert [r for r in every if not (">=" in r and ",<" in r)] == []


def test_lock_pins_every_dependency_exactly() -> None:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.]*", line)] == []
    extras = PROJECT["project"]["optional-dependencies"].values()
    wanted = [*PROJECT["project"]["dependencies"], *(r for extra in extras for r in extra)]
    wanted += PROJECT["build-system"]["requires"]
    assert requirement_names(wanted) - requirement_names(pins) == set()


def test_scripts_can_be_run() -> None:
    assert [s for s in (".ci/run", "scripts/setup.sh") if not (ROOT / s).stat().st_mode & 0o100] == []
